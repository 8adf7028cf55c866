"""A network of a test's own, in which every address there is leads to the test itself.

A thread gets a network namespace with nothing but loopback, and routes that make all of IPv4 and IPv6 local
to it. So a registry can really be at a public address with HTTPS on port 443, and a forbidden request to any
private address really arrives: at the canary. Nothing leaves the namespace.
"""

import asyncio
import ctypes
import socket
import subprocess
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self

_CLONE_NEWNET = 0x40000000
_LIMIT_S = 150.0
CANARY_PORTS = (80, 443, 2375, 5000, 6379, 8080)


def in_own_network(story: Callable[[], Awaitable[None]], limit_s: float = _LIMIT_S) -> None:
    def live() -> None:
        # For this thread alone, and for the threads and processes that it starts.
        if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "a network namespace needs root")
        for command in (
            "ip link set lo up",
            "ip route add local 0.0.0.0/0 dev lo",
            "ip -6 route add local ::/0 dev lo",
        ):
            subprocess.run(command.split(), check=True)
        asyncio.run(_within_limit(story, limit_s))

    with ThreadPoolExecutor(max_workers=1) as threads:
        threads.submit(live).result()


class Canary:
    """Listens on all addresses of the namespace; whatever connects is a hit."""

    def __init__(self) -> None:
        self.hits: list[str] = []
        self._more = asyncio.Event()
        self._servers: list[asyncio.Server] = []

    async def __aenter__(self) -> Self:
        for port in CANARY_PORTS:
            for host, family in (("0.0.0.0", socket.AF_INET), ("::", socket.AF_INET6)):
                # With `reuse_port`, a server at one address of the same port takes precedence for that address.
                server = await asyncio.start_server(
                    self._hit, host=host, port=port, family=family, reuse_port=True
                )
                self._servers.append(server)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in self._servers:
            server.close()
            await server.wait_closed()

    async def take_hits(self) -> list[str]:
        """The hits since the last call. A connection of our own at the end shows that none is still queued."""
        for port in CANARY_PORTS:
            for host in ("127.0.0.1", "::1"):
                seen = len(self.hits)
                _, writer = await asyncio.open_connection(host, port)
                async with asyncio.timeout(5):
                    while not any(hit.endswith(_name(writer)) for hit in self.hits[seen:]):
                        self._more.clear()
                        await self._more.wait()
                own = next(hit for hit in self.hits if hit.endswith(_name(writer)))
                self.hits.remove(own)
                writer.close()
        hits, self.hits = self.hits, []
        return hits

    async def _hit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        target, source = writer.get_extra_info("sockname"), writer.get_extra_info("peername")
        self.hits.append(f"{target[0]}:{target[1]} from {source[0]}:{source[1]}")
        self._more.set()
        writer.close()


def _name(writer: asyncio.StreamWriter) -> str:
    source = writer.get_extra_info("sockname")
    return f"from {source[0]}:{source[1]}"


async def _within_limit(story: Callable[[], Awaitable[None]], limit_s: float) -> None:
    async with asyncio.timeout(limit_s):
        await story()
