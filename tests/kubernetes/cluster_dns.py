"""Names of a test cluster's Services, as its DNS would tell them: the addresses of the Pods behind a headless one."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

from moorage.engines.kubernetes.connection import ApiServer
from moorage.kit.errors import EngineError

_A, _IN = 1, 1
_TTL_S = 1


@asynccontextmanager
async def cluster_dns(api: ApiServer, address: str) -> AsyncIterator[None]:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(lambda: _Answers(api), (address, 53))
    try:
        yield
    finally:
        transport.close()


class _Answers(asyncio.DatagramProtocol):
    def __init__(self, api: ApiServer) -> None:
        self._api = api
        self._under_way: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, sender: tuple[str, int]) -> None:
        task = asyncio.get_running_loop().create_task(self._answer(data, sender))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _answer(self, data: bytes, sender: tuple[str, int]) -> None:
        name, end = _name(data)
        (kind,) = struct.unpack_from("!H", data, end)
        question = data[12 : end + 4]
        found = await self._addresses(name)
        known = found is not None
        answers = [
            b"\xc0\x0c" + struct.pack("!HHIH", _A, _IN, _TTL_S, 4) + bytes(map(int, one.split(".")))
            for one in (found or ())
            if kind == _A
        ]
        header = data[:2] + struct.pack("!HHHHH", 0x8580 | (0 if known else 3), 1, len(answers), 0, 0)
        self._transport.sendto(header + question + b"".join(answers), sender)

    async def _addresses(self, name: str) -> list[str] | None:
        parts = name.lower().rstrip(".").split(".")
        if parts[2:] != ["svc", "cluster", "local"]:
            return None
        path = f"/api/v1/namespaces/{parts[1]}/endpoints/{parts[0]}"
        try:
            found = await self._api.call("resolve", "GET", path)
        except EngineError:
            return None
        subsets = found.get("subsets") or []
        # Of a Service that publishes those that are not ready, all are here.
        return [one["ip"] for subset in subsets for one in subset.get("addresses") or ()]


def _name(data: bytes) -> tuple[str, int]:
    """Of the first question, and where it ends."""
    labels, at = [], 12
    while length := data[at]:
        labels.append(data[at + 1 : at + 1 + length].decode())
        at += 1 + length
    return ".".join(labels), at + 1
