"""Requests to addresses that users name, registries and webhooks, within bounds: vetted addresses, few redirects, small answers, a deadline.

Invariants: nothing is connected to that `Reach` has not judged; an `Authorization` header never leaves the
origin it was made for; no answer is read beyond its limit; nothing that a server says, and no header or query
of ours, becomes part of an error (they hold tokens and signatures).
"""

import asyncio
import socket
import ssl
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from multidict import CIMultiDictProxy
from yarl import URL

from moorage.kit.clock import Clock
from moorage.registry.addresses import AddressRefusedError, Origin, Reach, origin_of, strict_url

TOTAL_TIMEOUT_S = 15.0
REQUEST_TIMEOUT_S = 10.0
MAX_REDIRECTS = 5
_REDIRECTS = (301, 302, 303, 307, 308)
_CHUNK_BYTES = 65536


class TransportError(Exception):
    """No answer that can be used. The message is a sentence without its full stop."""


@dataclass(frozen=True)
class Answer:
    status: int
    headers: CIMultiDictProxy[str]
    body: bytes
    origin: Origin
    """Who gave it, in the end."""


class Transport:
    """One for each pre-flight, so that what it remembers is no older than that."""

    def __init__(self, reach: Reach, clock: Clock, tls: ssl.SSLContext | None = None) -> None:
        self._reach = reach
        self._clock = clock
        self._deadline_s = clock.monotonic() + TOTAL_TIMEOUT_S
        self._tls = tls

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(
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
            timeout=aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S),
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

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
        owner = self._origin(url)
        for _ in range(max_redirects + 1):
            origin = self._origin(url)
            headers = {"Accept": accept}
            if authorization is not None and origin == owner:
                headers["Authorization"] = authorization
            answer = await self._request(url, origin, headers, max_bytes)
            location = answer.headers.get("Location")
            if answer.status not in _REDIRECTS or location is None:
                return answer
            try:
                url = strict_url(location, base=url)
            except AddressRefusedError as exc:
                raise TransportError(
                    f"{origin} sends us on to an address that is not allowed: {exc}"
                ) from exc
        raise TransportError(
            f"{owner} sends us on from one address to the next" if max_redirects else f"{owner} sends us on"
        )

    async def post(self, url: URL, body: bytes, headers: dict[str, str], *, max_bytes: int) -> Answer:
        """An answer with any status; nobody is followed elsewhere. Raises `TransportError`."""
        return await self._request(url, self._origin(url), headers, max_bytes, body)

    def _origin(self, url: URL) -> Origin:
        try:
            return origin_of(url)
        except AddressRefusedError as exc:
            raise TransportError(f"{str(exc)[:1].upper()}{str(exc)[1:]}") from exc

    async def _request(
        self, url: URL, origin: Origin, headers: dict[str, str], max_bytes: int, body: bytes | None = None
    ) -> Answer:
        left_s = self._deadline_s - self._clock.monotonic()
        # aiohttp's own errors hold the request, with its headers and query: they end here (`from None`), and
        # what is known of the failure is said in words.
        try:
            async with asyncio.timeout(max(0.0, min(REQUEST_TIMEOUT_S, left_s))):
                await self._reach.vet(url)
                async with self._session.request(
                    "GET" if body is None else "POST", url, headers=headers, data=body, allow_redirects=False
                ) as response:
                    answer = await _read(response, origin, max_bytes)
                    return Answer(response.status, response.headers, answer, origin)
        except TimeoutError:
            raise TransportError(f"{origin} does not answer in time") from None
        except AddressRefusedError as exc:
            raise TransportError(f"{exc}, which the operator has not allowed") from None
        except (aiohttp.ClientError, OSError, ValueError) as exc:
            raise TransportError(f"{origin} {_in_words(exc)}") from None

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


async def _read(response: aiohttp.ClientResponse, origin: Origin, max_bytes: int) -> bytes:
    if response.status in _REDIRECTS:
        return b""
    parts, received_bytes = [], 0
    async for part in response.content.iter_chunked(_CHUNK_BYTES):
        received_bytes += len(part)
        if received_bytes > max_bytes:
            raise TransportError(f"{origin} sent more than {max_bytes >> 10} KiB where that is the most")
        parts.append(part)
    return b"".join(parts)


def _in_words(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError | ssl.SSLCertVerificationError):
        return "has a certificate that is not valid for this name, or that nobody known has signed"
    if isinstance(error, aiohttp.ClientSSLError | ssl.SSLError):
        return "does not speak HTTPS as it should"
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if isinstance(cause, ConnectionRefusedError):
        return "refuses connections"
    if isinstance(cause, socket.gaierror):
        return "cannot be found by its name"
    if isinstance(cause, aiohttp.ClientConnectionError | ConnectionError):
        return "broke the connection off"
    if isinstance(cause, OSError):
        return "cannot be connected to"
    return "gave an answer that is not proper HTTP"
