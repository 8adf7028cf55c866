"""What the agent's comparison costs: `DataPlane.apply` with nothing changed, one container more, one key more.

    python bench/gateway_apply.py [--containers 1000] [--keys 1000] [--passes 20]

The agent comes by every two seconds, so a pass without a change must cost next to nothing, write no file and send no
changing command; this is checked. CPU is that of this process; HAProxy's own is printed beside it.
"""

import argparse
import asyncio
import hashlib
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from gateway import free_port
from gateway_measure import cpu_seconds

from moorage.gateway.config import GatewayConfig
from moorage.gateway.dataplane import DataPlane
from moorage.gateway.table import GatewayTable, KeyEntry, Route, Server
from moorage.kit import ids

PROJECT = ids.new_project_id()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--containers", type=int, default=1000)
    parser.add_argument("--keys", type=int, default=1000)
    parser.add_argument("--passes", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="moor-bench-") as folder:
        Path(folder).chmod(0o755)
        asyncio.run(measure(Path(folder), options.containers, options.keys, options.passes))


async def measure(folder: Path, containers: int, keys: int, passes: int) -> None:
    run_dir = folder / "run"
    config = GatewayConfig(
        f"127.0.0.1:{free_port()}",
        folder / "gateway" / "current",
        run_dir / "haproxy.sock",
        user="nobody" if os.geteuid() == 0 else None,
    )
    plane = DataPlane(config, folder, run_dir)
    await plane.start()
    try:
        routes = [a_route() for _ in range(containers)]
        entries = [a_key(number) for number in range(keys)]
        print(f"{containers} containers with a replica each, {keys} keys; medians of {passes} passes")
        started = time.perf_counter()
        await plane.apply(as_table(routes, entries))
        print(f"first pass, all at once: {(time.perf_counter() - started) * 1e3:.0f} ms")
        await plane.apply(as_table(routes, entries))

        def nothing() -> None: ...

        def one_container() -> None:
            routes.append(a_route())

        def one_key() -> None:
            entries.append(a_key(len(entries)))

        for name, change in (
            ("nothing changed", nothing),
            ("one container more", one_container),
            ("one key more", one_key),
        ):
            await report(plane, config, name, change, lambda: as_table(routes, entries), passes)
    finally:
        await plane.stop()


async def report(
    plane: DataPlane,
    config: GatewayConfig,
    name: str,
    change: Callable[[], None],
    table: Callable[[], GatewayTable],
    passes: int,
) -> None:
    pid = plane.process.pid()
    assert pid is not None
    wall_ms, cpu_ms = [], []
    version = os.readlink(config.state_dir)
    haproxy_before_s = cpu_seconds(pid)
    for _ in range(passes):
        change()
        wanted = table()
        started, cpu_started = time.perf_counter(), time.process_time()
        applied = await plane.apply(wanted)
        wall_ms.append((time.perf_counter() - started) * 1e3)
        cpu_ms.append((time.process_time() - cpu_started) * 1e3)
        unchanged = applied.changes == 0
    haproxy_ms = (cpu_seconds(pid) - haproxy_before_s) * 1e3 / passes
    print(
        f"{name:<20} wall {statistics.median(wall_ms):6.1f} ms, CPU {statistics.median(cpu_ms):6.1f} ms, "
        f"HAProxy's CPU {haproxy_ms:5.1f} ms"
    )
    assert unchanged == (version == os.readlink(config.state_dir)), "files are written exactly for changes"


def as_table(routes: list[Route], entries: list[KeyEntry]) -> GatewayTable:
    return GatewayTable(
        {route.container_id: route for route in routes}, {entry.key_hash_hex: entry for entry in entries}
    )


def a_route() -> Route:
    return Route(ids.new_container_id(), PROJECT, (Server(ids.new_replica_id(), "127.0.0.1", 9),))


def a_key(number: int) -> KeyEntry:
    return KeyEntry(hashlib.sha256(str(number).encode()).hexdigest(), PROJECT)


if __name__ == "__main__":
    main()
