"""One replica asked in turns directly and through the tunnel: two namespaces, one cable, and WireGuard over the same cable."""

import asyncio
import contextlib
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from scale import cpu_s

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.tunnel.pair import MACHINE_ADDRESS, tunnel_between
from tests.tunnel.places import connect, places
from tests.tunnel.programs import have_tunnel_programs

NEAR, FAR = "10.91.9.1", "10.91.9.2"
PORTS = (20_000, 20_999)
PORT = 20_080
TUNNEL_PORT = 51_901
SIZES = (1024, 65_536)
ROUNDS = 30
WAYS = {"directly": FAR, "through the tunnel": MACHINE_ADDRESS}


@dataclass
class Seen:
    took_s: list[float] = field(default_factory=list)
    cpu_s: float = 0.0
    """Of both ends, and of WireGuard where it runs in user space."""


def measure(requests: int) -> dict[tuple[int, str], Seen]:
    have_tunnel_programs()
    seen = {(size, way): Seen() for size in SIZES for way in WAYS}
    with places("asks", "answers") as made, _folder() as folder:
        near, far = made["asks"], made["answers"]
        connect(near, f"{NEAR}/24", far, f"{FAR}/24")
        with tunnel_between(near.do, far.do, folder, (NEAR, TUNNEL_PORT), PORTS):
            far.do(_serve())
            wireguard = [int(file.read_text().split()[0]) for file in folder.glob("*/run/*.pid")]
            for _ in range(ROUNDS):
                for size in SIZES:
                    for way, address in WAYS.items():
                        near.do(_ask(address, size, max(requests // ROUNDS, 1), wireguard, seen[size, way]))
    return seen


async def _serve() -> None:
    """Whoever names a number gets as many bytes."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                writer.write(bytes(int.from_bytes(await reader.readexactly(4), "big")))
                await writer.drain()

    await asyncio.start_server(answer, "0.0.0.0", PORT)


async def _ask(address: str, size: int, count: int, wireguard: Sequence[int], seen: Seen) -> None:
    reader, writer = await asyncio.open_connection(address, PORT)
    spent_s = _spent_s(wireguard)
    for _ in range(count):
        asked_s = time.monotonic()
        writer.write(size.to_bytes(4, "big"))
        await reader.readexactly(size)
        seen.took_s.append(time.monotonic() - asked_s)
    seen.cpu_s += _spent_s(wireguard) - spent_s
    writer.close()


def _spent_s(wireguard: Sequence[int]) -> float:
    return time.process_time() + cpu_s(wireguard)


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="moor-", dir="/tmp"))
    try:
        yield made
    finally:
        shutil.rmtree(made)


def report(seen: dict[tuple[int, str], Seen]) -> None:
    kernel = Path("/sys/module/wireguard").exists()
    print(f"WireGuard {'of the kernel' if kernel else 'in user space (wireguard-go)'}; one request at a time")
    print(f"{'answer':>10}  {'':20}{'p50':>10}{'p99':>10}{'CPU each':>12}")
    for size in SIZES:
        for way in WAYS:
            one = seen[size, way]
            cuts = statistics.quantiles(one.took_s, n=100)
            each_us = one.cpu_s / len(one.took_s) * 1e6
            print(f"{size:>8} B  {way:20}{cuts[49] * 1e3:>8.3f}ms{cuts[98] * 1e3:>8.3f}ms{each_us:>10.0f}µs")
        direct, tunnel = (seen[size, way] for way in WAYS)
        slower = statistics.median(tunnel.took_s) / statistics.median(direct.took_s)
        dearer = (tunnel.cpu_s / len(tunnel.took_s)) / (direct.cpu_s / len(direct.took_s))
        print(f"{'':12}{'ratio':20}{slower:>9.1f}×{'':10}{dearer:>11.1f}×")
