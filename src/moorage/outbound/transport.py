"""Requests to addresses that users name, registries and webhooks, within bounds: vetted addresses, few redirects, small answers, a deadline.

Invariants: nothing is connected to that `Reach` has not judged; an `Authorization` header never leaves the
origin it was made for; no answer is read beyond its limit; nothing that a server says, and no header or query
of ours, becomes part of an error (they hold tokens and signatures).
"""

import asyncio
import math
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from multidict import CIMultiDictProxy
from yarl import URL

from moorage.kit.clock import Clock
from moorage.outbound.addresses import AddressRefusedError, Origin, Reach, origin_of, strict_url
from moorage.outbound.few_answers import FewAnswersConnector

TOTAL_TIMEOUT_S = 15.0
REQUEST_TIMEOUT_S = 10.0
MAX_REDIRECTS = 5
STREAM_PATIENCE_S = 30.0
"""How long a stream may keep us waiting, all in all, before its first byte counts."""
STREAM_BYTES_PER_S = 32 << 10
"""And each of these earns it another second: what is slower holds a place that others wait for."""
_REDIRECTS = (301, 302, 303, 307, 308)
_CHUNK_BYTES = 65536
_BUFFER_BYTES = 1 << 19


class TransportError(Exception):
    """No answer that can be used. The message is a sentence without its full stop."""


class TransportRefusedError(TransportError):
    """It leads where nothing may be sent. Asking again does not help."""


@dataclass(frozen=True)
class Answer:
    status: int
    headers: CIMultiDictProxy[str]
    body: bytes
    origin: Origin
    """Who gave it, in the end."""


class OpenAnswer:
    """An answer whose body is still to come."""

    def __init__(self, response: aiohttp.ClientResponse, origin: Origin, clock: Clock) -> None:
        self.status = response.status
        self.headers = response.headers
        self.origin = origin
        self._response = response
        self._clock = clock

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body, never all of it in memory. Raises `TransportError` if it breaks off or hardly moves."""
        waited_s, received_bytes = 0.0, 0
        while True:
            patience_s = STREAM_PATIENCE_S + received_bytes / STREAM_BYTES_PER_S - waited_s
            began_s = self._clock.monotonic()
            try:
                async with asyncio.timeout(min(STREAM_PATIENCE_S, patience_s)):
                    chunk = await self._response.content.readany()
            except TimeoutError:
                raise TransportError(f"{self.origin} sends too slowly") from None
            except (aiohttp.ClientError, OSError, ValueError) as exc:
                raise TransportError(f"{self.origin} {_in_words(exc)}") from None
            waited_s += self._clock.monotonic() - began_s
            if not chunk:
                return
            received_bytes += len(chunk)
            yield chunk

    async def read(self, max_bytes: int) -> bytes:
        parts, received_bytes = [], 0
        async for part in self._response.content.iter_chunked(_CHUNK_BYTES):
            received_bytes += len(part)
            if received_bytes > max_bytes:
                raise TransportError(
                    f"{self.origin} sent more than {max_bytes >> 10} KiB where that is the most"
                )
            parts.append(part)
        return b"".join(parts)


class Transport:
    """One for each pre-flight, pull or delivery, so that what it remembers is no older than that."""

    def __init__(
        self,
        reach: Reach,
        clock: Clock,
        tls: ssl.SSLContext | None = None,
        *,
        total_timeout_s: float = TOTAL_TIMEOUT_S,
    ) -> None:
        self._reach = reach
        self._clock = clock
        self._deadline_s = clock.monotonic() + total_timeout_s
        self._tls = tls

    async def __aenter__(self) -> Self:
        connector = FewAnswersConnector(
            resolver=_VettedResolver(self._reach),
            use_dns_cache=False,
            ssl=self._tls if self._tls is not None else True,
            socket_factory=self._open_socket,
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            headers={"Accept-Encoding": "identity", "User-Agent": "moorage"},
            timeout=aiohttp.ClientTimeout(total=None),
            read_bufsize=_BUFFER_BYTES,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    def lift_deadline(self) -> None:
        """From here on only single requests have one: what follows is as long as an image is large."""
        self._deadline_s = math.inf

    async def get(
        self,
        url: URL,
        *,
        max_bytes: int,
        accept: str,
        authorization: str | None = None,
        max_redirects: int = MAX_REDIRECTS,
    ) -> Answer:
        """An answer with any status but a redirect's. Raises `TransportError`."""
        async with self.open(
            url, accept=accept, authorization=authorization, max_redirects=max_redirects
        ) as answer:
            return await self._whole(answer, max_bytes)

    @asynccontextmanager
    async def open(
        self,
        url: URL,
        *,
        accept: str,
        authorization: str | None = None,
        first_byte: int = 0,
        max_redirects: int = MAX_REDIRECTS,
    ) -> AsyncIterator[OpenAnswer]:
        """As `get`, but the body is left to the caller; from `first_byte` on, where the server knows how."""
        owner = self._origin(url)
        headers = {"Accept": accept} | ({"Range": f"bytes={first_byte}-"} if first_byte else {})
        for _ in range(max_redirects + 1):
            origin = self._origin(url)
            signed = authorization is not None and origin == owner
            sent = headers | ({"Authorization": authorization or ""} if signed else {})
            async with self._request("GET", url, origin, sent) as response:
                location = response.headers.get("Location")
                if response.status not in _REDIRECTS or location is None:
                    yield OpenAnswer(response, origin, self._clock)
                    return
            try:
                url = strict_url(location, base=url)
            except AddressRefusedError as exc:
                raise TransportRefusedError(
                    f"{origin} redirects to an address that is not allowed: {exc}"
                ) from exc
        raise TransportRefusedError(
            f"{owner} redirects from one address to the next" if max_redirects else f"{owner} redirects"
        )

    async def post(self, url: URL, body: bytes, headers: dict[str, str], *, max_bytes: int) -> Answer:
        """An answer with any status; nobody is followed elsewhere. Raises `TransportError`."""
        origin = self._origin(url)
        async with self._request("POST", url, origin, headers, body) as response:
            answer = OpenAnswer(response, origin, self._clock)
            if response.status in _REDIRECTS:
                return Answer(answer.status, answer.headers, b"", origin)
            return await self._whole(answer, max_bytes)

    def _origin(self, url: URL) -> Origin:
        try:
            return origin_of(url)
        except AddressRefusedError as exc:
            raise TransportRefusedError(f"{str(exc)[:1].upper()}{str(exc)[1:]}") from exc

    @asynccontextmanager
    async def _request(
        self, method: str, url: URL, origin: Origin, headers: dict[str, str], body: bytes | None = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        with _failing_in_words(origin):
            async with asyncio.timeout(self._left_s()):
                await self._reach.vet(url)
                response = await self._session.request(
                    method, url, headers=headers, data=body, allow_redirects=False
                )
        # Outside of that: what goes wrong with whoever reads the answer is none of the server's doing.
        try:
            yield response
        finally:
            response.close()

    async def _whole(self, answer: OpenAnswer, max_bytes: int) -> Answer:
        with _failing_in_words(answer.origin):
            async with asyncio.timeout(self._left_s()):
                body = await answer.read(max_bytes)
        return Answer(answer.status, answer.headers, body, answer.origin)

    def _left_s(self) -> float:
        return max(0.0, min(REQUEST_TIMEOUT_S, self._deadline_s - self._clock.monotonic()))

    def _open_socket(self, address: tuple[int, int, int, str, tuple[object, ...]]) -> socket.socket:
        """The last gate before a connection: whatever led here, the address must be a judged one."""
        family, kind, protocol, _, target = address
        if not self._reach.is_vetted(str(target[0]), int(str(target[1]))):
            raise OSError("the address was not vetted")
        opened = socket.socket(family, kind, protocol)
        opened.setblocking(False)
        return opened


class _VettedResolver(AbstractResolver):
    """Looks nothing up: hands out the addresses that were judged before the request was made."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        addresses = self._reach.vetted(host, port)
        if not addresses:
            raise OSError(f"{host} was not vetted")
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST,
            )
            for address in addresses
        ]

    async def close(self) -> None:
        return None


@contextmanager
def _failing_in_words(origin: Origin) -> Iterator[None]:
    """aiohttp's own errors hold the request, with its headers and query: they end here (`from None`), and what
    is known of the failure is said in words."""
    try:
        yield
    except TimeoutError:
        raise TransportError(f"{origin} does not answer in time") from None
    except AddressRefusedError as exc:
        raise TransportRefusedError(f"{exc}, which the operator has not allowed") from None
    except (aiohttp.ClientError, OSError, ValueError) as exc:
        raise TransportError(f"{origin} {_in_words(exc)}") from None


def _in_words(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError | ssl.SSLCertVerificationError):
        return "has a certificate that is not valid for this name or not signed by a known authority"
    if isinstance(error, aiohttp.ClientSSLError | ssl.SSLError):
        return "does not speak HTTPS correctly"
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if isinstance(cause, ConnectionRefusedError):
        return "refuses connections"
    if isinstance(cause, socket.gaierror):
        return "cannot be found by its name"
    if isinstance(cause, aiohttp.ClientConnectionError | ConnectionError):
        return "broke the connection off"
    if isinstance(cause, OSError):
        return "cannot be connected to"
    return "gave an answer that is not valid HTTP"
