"""What the number of containers and keys costs the gateway: CPU per request, memory, and the way of a new replica.

    python bench/gateway_sizes.py [--sizes 1,100,1000,10000] [--rounds 5] [--seconds 2]

One gateway for each size, all at once, take turns under the same load, so that a busy machine is unfair to all alike. At the
largest size that has at most 1,000 containers, replicas are added one by one and timed from the call until a request has
reached the new one; and at every size the gateway reloads while clients open new connections.
Needs `wrk`.
"""

import argparse
import asyncio
import contextlib
import http.client
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import gateway
import gateway_proxies
from gateway_log import RequestLog
from gateway_measure import load

from moorage.gateway.config import GatewayConfig
from moorage.gateway.dataplane import DataPlane
from moorage.gateway.table import GatewayTable, Route, Server
from moorage.kit import ids

FLAT_WITHIN = 1.10
NEW_REPLICA_MS = 50
NEW_REPLICAS = 20
RELOADS = 5


@dataclass
class Sized:
    size: int
    plane: DataPlane
    table: GatewayTable
    port: int
    memory_kib: int

    @property
    def path(self) -> str:
        return f"/c/{next(iter(self.table.routes))}/v1"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sizes", default="1,100,1000,10000")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=2)
    options = parser.parse_args()
    if shutil.which("wrk") is None:
        sys.exit("wrk is missing (Debian: apt-get install wrk)")
    print(f"command: python {' '.join(sys.argv)}")
    with tempfile.TemporaryDirectory(prefix="moor-bench-") as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        folder.chmod(0o755)
        port = gateway.free_port()
        stack.enter_context(gateway.running(gateway_proxies.upstream_haproxy(folder, port), port))
        gateways = [
            asyncio.run(started(folder / str(size), size, port))
            for size in map(int, options.sizes.split(","))
        ]
        try:
            report_cpu(gateways, options.rounds, options.seconds)
            report_memory(gateways)
            asyncio.run(report_new_replicas([one for one in gateways if one.size <= 1000][-1], port))
            for one in gateways:
                asyncio.run(report_reloads(one))
        finally:
            for one in gateways:
                asyncio.run(one.plane.stop())


async def started(folder: Path, size: int, upstream_port: int) -> Sized:
    run_dir = folder / "run"
    run_dir.mkdir(parents=True)
    for each in (folder, run_dir):
        each.chmod(0o755)
    RequestLog(run_dir / "requests.sock")
    port = gateway.free_port()
    config = GatewayConfig(
        f"127.0.0.1:{port}",
        folder / "gateway" / "current",
        run_dir / "haproxy.sock",
        console_origin="http://127.0.0.1:8080",
        request_log_socket=run_dir / "requests.sock",
        key_requests_per_s=1_000_000,
        organization_requests_per_s=1_000_000,
        user=gateway.unprivileged_user(),
    )
    plane = DataPlane(config, folder, run_dir, initial_slots=max(64, size))
    await plane.start()
    table = gateway.a_table([upstream_port], containers=size, keys=size)
    await plane.apply(table)
    return Sized(size, plane, table, port, memory_kib(await plane.process.worker.pid()))


def memory_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmRSS:")))


def report_cpu(gateways: list[Sized], rounds: int, seconds: int) -> None:
    found: dict[int, list[float]] = {one.size: [] for one in gateways}
    for number in range(rounds + 1):
        first = number % len(gateways)
        for one in gateways[first:] + gateways[:first]:
            pid = one.plane.process.pid()
            assert pid is not None
            outcome = load(pid, one.port, one.path, gateway.HEADERS, seconds=seconds, connections=32)
            assert outcome.errors == 0, outcome
            if number > 0:  # the first round warms up
                found[one.size].append(outcome.cpu_us_per_request)
    smallest = found[gateways[0].size]
    print(f"\nCPU per request by containers and keys, medians of {rounds} interleaved rounds of {seconds} s")
    worst = 0.0
    for size, values in found.items():
        ratio = statistics.median(mine / least for mine, least in zip(values, smallest, strict=True))
        worst = max(worst, ratio)
        print(
            f"{size:>8} containers and keys: {statistics.median(values):6.1f} µs, {ratio:.2f} x the smallest"
        )
    verdict = "met" if worst <= FLAT_WITHIN else "MISSED"
    print(f"target: flat within {FLAT_WITHIN - 1:.0%}: {worst:.2f} {verdict}")


def report_memory(gateways: list[Sized]) -> None:
    least, most = gateways[0], gateways[-1]
    each = (most.memory_kib - least.memory_kib) / max(1, most.size - least.size)
    print(
        f"\nMemory of HAProxy: {least.memory_kib / 1024:.0f} MiB with {least.size}, {most.memory_kib / 1024:.0f} MiB "
        f"with {most.size}; {each:.1f} KiB for each container with a replica and a key"
    )


async def report_new_replicas(one: Sized, upstream_port: int) -> None:
    """From the moment a replica is known to be ready until a request has been answered through its route."""
    took_ms = []
    project_id = next(iter(one.table.keys.values())).project_id
    routes = dict(one.table.routes)
    for _ in range(NEW_REPLICAS):
        server = Server(ids.new_replica_id(), "127.0.0.1", upstream_port)
        route = Route(ids.new_container_id(), project_id, (server,))
        routes[route.container_id] = route
        wanted = GatewayTable(dict(routes), one.table.keys)
        began = time.perf_counter()
        await one.plane.apply(wanted)
        status = await asyncio.to_thread(ask, one.port, f"/c/{route.container_id}/v1")
        took_ms.append((time.perf_counter() - began) * 1e3)
        assert status == 200
    slowest = max(took_ms)
    verdict = "met" if statistics.median(took_ms) <= NEW_REPLICA_MS else "MISSED"
    print(
        f"\nA new replica answers among {one.size} containers: median {statistics.median(took_ms):.1f} ms, slowest of "
        f"{NEW_REPLICAS} {slowest:.1f} ms"
    )
    print(f"target: within {NEW_REPLICA_MS} ms: {verdict}")


async def report_reloads(one: Sized) -> None:
    seen: Counter[str] = Counter()
    over = threading.Event()

    def clients() -> None:
        while not over.is_set():
            try:
                seen[str(ask(one.port, one.path))] += 1
            except OSError as exc:
                seen[type(exc).__name__] += 1

    threads = [threading.Thread(target=clients) for _ in range(4)]
    for thread in threads:
        thread.start()
    took_ms = []
    for _ in range(RELOADS):
        began = time.perf_counter()
        await one.plane.process.reload()
        took_ms.append((time.perf_counter() - began) * 1e3)
    over.set()
    for thread in threads:
        thread.join()
    lost = seen.total() - seen["200"]
    print(
        f"{RELOADS} reloads with {one.size} containers, {statistics.median(took_ms):.0f} ms each: {seen.total()} new "
        f"connections, {lost} lost"
    )


def ask(port: int, path: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", path, headers={**gateway.HEADERS, "Connection": "close"})
        return connection.getresponse().status
    finally:
        connection.close()


if __name__ == "__main__":
    main()
