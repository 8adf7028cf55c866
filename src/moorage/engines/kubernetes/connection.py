"""The connection to an API server: one HTTP session, and one way of failing.

A small client of our own: what Moorage asks of the API is a dozen paths in JSON. Bodies are plain dictionaries, because
models of every field of every kind cost more to build than everything else that is done with an answer. A watch is read here,
from the raw response: its lines may be longer than what aiohttp puts together.
"""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from yarl import URL

from moorage.engines.kubernetes.account import Account
from moorage.engines.permitted_connector import PermittedConnector
from moorage.kit.clock import Clock
from moorage.kit.errors import EngineError
from moorage.kit.tracing import span

AWAY = "engine_away"
CALL_TIMEOUT_S = 20.0
CONNECT_TIMEOUT_S = 5.0
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
_JSON = "application/json"
_MAX_MESSAGE_BYTES = 32 * 1024 * 1024
_TOO_MANY = 429
_TRIES_WHEN_BUSY = 4
_LONGEST_PAUSE_S = 5.0


class ApiError(EngineError):
    """The API server answered, and the answer is no."""

    def __init__(self, what: str, status: int, reason: str, message: str) -> None:
        super().__init__(f"{what}: the API server answered {status} {reason}: {message}")
        self.status = status
        self.reason = reason
        """Of Kubernetes' own list, e.g. `AlreadyExists`; empty where something else answered."""
        self.said = message


class _Connector(PermittedConnector, aiohttp.TCPConnector):
    pass


class ApiServer:
    """Opened by its first use, so that it can be built where no event loop runs yet."""

    def __init__(self, account: Account, clock: Clock) -> None:
        self._account = account
        self._clock = clock
        self._opened: aiohttp.ClientSession | None = None

    async def call(
        self,
        what: str,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = _JSON,
        timeout_s: float = CALL_TIMEOUT_S,
    ) -> dict[str, Any]:
        """`what` opens the message of whatever goes wrong. A server that is busy is asked again when it says."""
        for tries in range(1, _TRIES_WHEN_BUSY + 1):
            with span("engine call", what=what):
                text, status, headers = await self._ask(
                    what, method, path, query, body, content_type, timeout_s
                )
            if status < 400:
                return dict(_parsed(what, text))
            if status != _TOO_MANY or tries == _TRIES_WHEN_BUSY:
                break
            await self._clock.sleep(_pause_s(headers.get("Retry-After", "1")))
        raise _refusal(what, status, text)

    async def text(self, what: str, path: str, query: Mapping[str, str] | None = None) -> bytes:
        text, status, _ = await self._ask(what, "GET", path, query, None, _JSON, CALL_TIMEOUT_S)
        if status >= 400:
            raise _refusal(what, status, text)
        return text

    @asynccontextmanager
    async def stream(
        self, what: str, path: str, query: Mapping[str, str], idle_timeout_s: float | None
    ) -> AsyncIterator[aiohttp.StreamReader]:
        """A response that is read while it is written. A break is an `EngineError`, a refusal an `ApiError`."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S, sock_read=idle_timeout_s)
        try:
            async with self._session().get(
                self._url(path),
                params=query,
                headers=self._headers(),
                timeout=timeout,
                ssl=self._tls(),
                allow_redirects=False,
            ) as response:
                if response.status != 200:
                    raise _refusal(what, response.status, await response.read())
                yield response.content
        except TimeoutError as exc:
            raise EngineError(f"{what}: the API server fell silent", code="engine_timeout") from exc
        except (aiohttp.ClientError, OSError) as exc:
            raise _broken(what, exc) from None

    async def at_kubelet(self, what: str, address: str, port: int, path: str, timeout_s: float) -> bytes:
        """Of a node itself, which checks with the API server what we may ask. It is verified like the API server: our
        token is for nobody else."""
        url = URL.build(scheme="https", host=address, port=port, path=path)
        timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=CONNECT_TIMEOUT_S)
        try:
            async with self._session().get(
                url, headers=self._headers(), timeout=timeout, ssl=self._tls(), allow_redirects=False
            ) as response:
                if response.status != 200:
                    raise EngineError(f"{what}: the kubelet answered {response.status}")
                return await response.read()
        except TimeoutError:
            raise EngineError(f"{what}: no answer within {timeout_s:g} s", code="engine_timeout") from None
        except (aiohttp.ClientError, OSError) as exc:
            raise _broken(what, exc) from None

    async def close(self) -> None:
        if self._opened is not None:
            await self._opened.close()
            self._opened = None

    async def _ask(
        self,
        what: str,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: Any,
        content_type: str,
        timeout_s: float,
    ) -> tuple[bytes, int, Mapping[str, str]]:
        data = json.dumps(body, separators=(",", ":")).encode() if body is not None else None
        headers = self._headers() | ({"Content-Type": content_type} if data is not None else {})
        timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=CONNECT_TIMEOUT_S)
        try:
            async with self._session().request(
                method,
                self._url(path),
                params=query,
                data=data,
                headers=headers,
                timeout=timeout,
                ssl=self._tls(),
                allow_redirects=False,
            ) as response:
                return await response.read(), response.status, response.headers
        except TimeoutError as exc:
            raise EngineError(
                f"{what}: the API server did not answer within {timeout_s:g} s", code="engine_timeout"
            ) from exc
        except (aiohttp.ClientError, OSError) as exc:
            raise _broken(what, exc) from None

    def _url(self, path: str) -> URL:
        return URL(self._account.server + path, encoded=True)

    def _headers(self) -> dict[str, str]:
        token = self._account.token.read(self._clock)
        authorization = {"Authorization": f"Bearer {token}"} if token else {}
        return {"Accept": _JSON, **authorization}

    def _tls(self) -> Any:
        return self._account.tls if self._account.tls is not None else True

    def _session(self) -> aiohttp.ClientSession:
        if self._opened is None:
            # No limit on connections: each followed log holds one, and the hundredth must not block a stop.
            self._opened = aiohttp.ClientSession(
                connector=_Connector(limit=0), cookie_jar=aiohttp.DummyCookieJar()
            )
        return self._opened


async def lines_of(content: aiohttp.StreamReader) -> AsyncIterator[list[bytes]]:
    """Whole lines as they come; what came together comes together. What is left at the end is the last one."""
    pending = b""
    async for data in content.iter_any():
        *lines, pending = (pending + data).split(b"\n")
        if len(pending) > _MAX_MESSAGE_BYTES:
            raise EngineError(f"the API server sent a line of more than {_MAX_MESSAGE_BYTES} bytes")
        if lines:
            yield lines
    if pending:
        yield [pending]


def _parsed(what: str, text: bytes) -> Mapping[str, Any]:
    try:
        answer = json.loads(text)
    except ValueError as exc:
        raise EngineError(f"{what}: the API server's answer cannot be read") from exc
    if not isinstance(answer, dict):
        raise EngineError(f"{what}: the API server's answer is no object")
    return answer


def _refusal(what: str, status: int, text: bytes) -> ApiError:
    try:
        answer = json.loads(text)
    except ValueError:
        answer = {}
    answer = answer if isinstance(answer, dict) else {}
    return ApiError(what, status, str(answer.get("reason", "")), str(answer.get("message", ""))[:1000])


def _broken(what: str, exc: Exception) -> EngineError:
    # aiohttp's own errors hold the request, with its token: they end here.
    return EngineError(f"{what}: the connection to the API server broke ({type(exc).__name__})", code=AWAY)


def _pause_s(retry_after: str) -> float:
    try:
        return min(max(float(retry_after), 0.1), _LONGEST_PAUSE_S)
    except ValueError:
        return 1.0
