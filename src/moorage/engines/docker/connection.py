"""The connection to a Docker engine: one HTTP session over its socket, and one way of failing.

Calls go through `aiodocker`. Streams (pulls, events, logs) are read here, from the raw response: aiodocker
takes a broken connection for the end of a stream, and then a half-finished pull looks like a finished one.
"""

import asyncio
import codecs
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import aiodocker
import aiohttp
from aiodocker.exceptions import DockerError

from moorage.engines.permitted_connector import PermittedConnector
from moorage.kit.errors import EngineError
from moorage.kit.tracing import span

CALL_TIMEOUT_S = 60.0
CONNECT_TIMEOUT_S = 10.0
UNIX_PREFIX = "unix://"
_MAX_MESSAGE_BYTES = 32 * 1024 * 1024
_SEPARATORS = re.compile(r"[\[\],\s]*")

T = TypeVar("T")


class _Connector(PermittedConnector, aiohttp.UnixConnector):
    pass


class DockerConnection:
    """Opened by its first use, so that it can be built where no event loop runs yet."""

    def __init__(self, docker_host: str) -> None:
        if not docker_host.startswith(UNIX_PREFIX):
            raise EngineError(f"the Docker engine must be a local socket, unix:///path, not {docker_host}")
        self.docker_host = docker_host
        self._docker: aiodocker.Docker | None = None
        self._connector: aiohttp.UnixConnector | None = None

    @property
    def docker(self) -> aiodocker.Docker:
        if self._docker is None:
            # No limit on connections: each followed log holds one, and the hundredth must not block a stop.
            self._connector = _Connector(self.docker_host.removeprefix(UNIX_PREFIX), limit=0)
            self._docker = aiodocker.Docker(url="http://localhost", connector=self._connector)
        return self._docker

    @asynccontextmanager
    async def call(self, what: str, timeout_s: float = CALL_TIMEOUT_S) -> AsyncIterator[aiodocker.Docker]:
        """`what` opens the message of whatever goes wrong inside, e.g. "stop replica rep_…"."""
        try:
            with span("engine call", what=what):
                async with asyncio.timeout(timeout_s):
                    yield self.docker
        except TimeoutError as exc:
            raise EngineError(
                f"{what}: the Docker engine did not answer within {timeout_s:g} s", code="engine_timeout"
            ) from exc
        except DockerError as exc:
            raise EngineError(f"{what}: {exc.message}") from exc
        except (aiohttp.ClientError, OSError) as exc:
            raise EngineError(f"{what}: the connection to the Docker engine broke ({exc})") from exc

    async def listed(
        self, what: str, path: str, parameters: Mapping[str, str], keep: Callable[[Mapping[str, Any]], T]
    ) -> list[T]:
        """What to keep of each item of a list. Each item repeats the labels of an image, of which its author may make a
        quarter of a megabyte: a list of a hundred is read item by item, and everybody else has their turn in between."""
        try:
            async with self.stream(
                what, "GET", path, parameters=parameters, idle_timeout_s=CALL_TIMEOUT_S
            ) as content:
                kept = []
                async for item in _items(content, what):
                    kept.append(keep(item))
                    await asyncio.sleep(0)
                return kept
        except DockerError as exc:
            raise EngineError(f"{what}: {exc.message}") from exc

    @asynccontextmanager
    async def stream(
        self,
        what: str,
        method: str,
        path: str,
        *,
        parameters: Mapping[str, str],
        headers: Mapping[str, str] | None = None,
        idle_timeout_s: float | None = None,
    ) -> AsyncIterator[aiohttp.StreamReader]:
        """A response that is read while it is written. Raises `DockerError` for a refusal, which the caller
        classifies, and `EngineError` for a connection that breaks before the response is complete."""
        if self.docker.api_version == "auto":
            # aiodocker learns the version to speak with its first call; a raw request must know it too.
            async with self.call(what):
                await self.docker.version()
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S, sock_read=idle_timeout_s)
        url = f"{self.docker.docker_host}/{self.docker.api_version}/{path}"
        try:
            async with self.docker.session.request(
                method, url, params=parameters, headers=headers, timeout=timeout
            ) as response:
                if response.status >= 400:
                    raise DockerError(response.status, await _message_of(response))
                yield response.content
        except TimeoutError as exc:
            raise EngineError(f"{what}: the Docker engine fell silent", code="engine_timeout") from exc
        except (aiohttp.ClientError, OSError, asyncio.IncompleteReadError) as exc:
            raise EngineError(f"{what}: the connection to the Docker engine broke ({exc})") from exc

    async def close(self) -> None:
        if self._docker is not None and self._connector is not None:
            await self._docker.close()
            await self._connector.close()
            self._docker = self._connector = None


async def answers(docker_host: str, timeout_s: float = 5.0) -> bool:
    """Whether a Docker engine listens there."""
    if not docker_host.startswith(UNIX_PREFIX):
        return False
    try:
        async with (
            asyncio.timeout(timeout_s),
            aiohttp.ClientSession(
                connector=aiohttp.UnixConnector(docker_host.removeprefix(UNIX_PREFIX))
            ) as session,
            session.get("http://localhost/_ping") as response,
        ):
            return response.status == 200
    except (TimeoutError, aiohttp.ClientError, OSError):
        return False


async def json_messages(content: aiohttp.StreamReader) -> AsyncIterator[Mapping[str, Any]]:
    """One JSON object a line, as pulls and events send them. Lines are put together here because aiohttp
    gives up at 128 KiB, and an event repeats the image's labels, which its author may make as long."""
    pending = b""
    async for data in content.iter_any():
        *lines, pending = (pending + data).split(b"\n")
        if len(pending) > _MAX_MESSAGE_BYTES:
            raise EngineError(f"the Docker engine sent a message of more than {_MAX_MESSAGE_BYTES} bytes")
        for line in lines:
            if line.strip():
                yield json.loads(line)
    if pending.strip():
        raise EngineError("the Docker engine ended the connection in the middle of a message")


async def _items(content: aiohttp.StreamReader, what: str) -> AsyncIterator[Any]:
    """Of a JSON list, one at a time, as they arrive: whatever was done to all of them at once would take long. It is complete, or
    an error: what ends without its bracket was broken off, also between two items."""
    decoder, utf8 = json.JSONDecoder(), codecs.getincrementaldecoder("utf-8")()
    text, enough, closed = "", 0, False
    async for data in content.iter_any():
        text += utf8.decode(data)
        at, closed = _after_separators(text, 0, closed=closed)
        while at < len(text) and len(text) - at >= enough:
            try:
                item, at = decoder.raw_decode(text, at)
            except json.JSONDecodeError:
                # Its end has not come yet. Tried again at twice the length, so that no length takes more than twice the time.
                enough = 2 * (len(text) - at)
                break
            enough = 0
            at, closed = _after_separators(text, at, closed=False)
            yield item
        text = text[at:]
        if len(text) > _MAX_MESSAGE_BYTES:
            raise EngineError(
                f"{what}: the Docker engine sent an item of more than {_MAX_MESSAGE_BYTES} bytes"
            )
    at = 0
    while at < len(text):
        try:
            item, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError as exc:
            raise EngineError(f"{what}: the Docker engine's list breaks off") from exc
        at, closed = _after_separators(text, at, closed=False)
        yield item
    if not closed:
        raise EngineError(f"{what}: the Docker engine's list breaks off")


def _after_separators(text: str, at: int, *, closed: bool) -> tuple[int, bool]:
    """Where the next item begins, and whether the list ended before it."""
    found = _SEPARATORS.match(text, at)
    assert found is not None, "it matches nothing as well"
    said = found.group().strip()
    return found.end(), said.endswith("]") if said else closed


async def _message_of(response: aiohttp.ClientResponse) -> str:
    if response.content_type == "application/json":
        answer = await response.json()
        return str(answer.get("message", answer))
    return await response.text()
