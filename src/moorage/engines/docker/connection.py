"""The connection to a Docker engine: one HTTP session over its socket, and one way of failing.

Calls go through `aiodocker`. Streams (pulls, events, logs) are read here, from the raw response: aiodocker
takes a broken connection for the end of a stream, and then a half-finished pull looks like a finished one.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

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


async def _message_of(response: aiohttp.ClientResponse) -> str:
    if response.content_type == "application/json":
        answer = await response.json()
        return str(answer.get("message", answer))
    return await response.text()
