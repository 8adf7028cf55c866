"""What the gateway costs: CPU per request and time to the first streamed byte, against other proxies.

    python bench/gateway.py [--rounds 5] [--seconds 2] [--connections 16]

All proxies run at once and take turns, round by round, in front of the same upstream, so that a busy machine is
unfair to all of them alike: trust the ratios. The gateway runs as it is deployed (hashed key, expiry and project
checks, header rewriting, JSON errors, request ids); the others are plain. Needs `wrk` (Debian: wrk); nginx is
installed where it is missing and allowed; Envoy and Traefik come with the `bench` dependency group.
Targets: at most 1.25 x HAProxy without auth, at most 0.6 x Envoy, first byte at most 0.5 ms later at the median.
"""

import argparse
import asyncio
import contextlib
import hashlib
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import gateway_proxies
from gateway_measure import Round, load, serve_streams, time_to_first_byte_us

from moorage.gateway.dataplane import DataPlane
from moorage.gateway.render import GatewayConfig
from moorage.gateway.table import GatewayTable, KeyEntry, Route, Server
from moorage.kit import ids

TARGET_VS_PLAIN = 1.25
TARGET_VS_ENVOY = 0.6
TARGET_FIRST_BYTE_US = 500
KEYS = 1000
CONTAINERS = 60
STREAMS = 400


@dataclass(frozen=True)
class Candidate:
    name: str
    pid: int
    port: int
    path: str
    headers: dict[str, str]
    stream_path: str = ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--connections", type=int, default=16)
    options = parser.parse_args()
    if shutil.which("wrk") is None:
        sys.exit("wrk is missing (Debian: apt-get install wrk)")
    with tempfile.TemporaryDirectory(prefix="moor-bench-") as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        folder.chmod(0o755)
        upstream_port, stream_port = free_port(), serve_streams()
        stack.enter_context(running(gateway_proxies.upstream_haproxy(folder, upstream_port), upstream_port))
        candidates = [stack.enter_context(our_gateway(folder, upstream_port, stream_port))]
        for build in (
            gateway_proxies.plain_haproxy,
            gateway_proxies.nginx,
            gateway_proxies.envoy,
            gateway_proxies.traefik,
        ):
            port = free_port()
            plain = build(folder, port, upstream_port)
            if plain is None:
                print(f"skipped: {build.__name__} is not installed")
                continue
            pid = stack.enter_context(running(plain, port))
            candidates.append(Candidate(plain.name, pid, port, "/api/v1/chat/completions", {}))
        print(f"command: python {' '.join(sys.argv)}")
        report_cpu(candidates, options.rounds, options.seconds, options.connections)
        report_first_byte(candidates[0], stream_port)


def report_cpu(candidates: list[Candidate], rounds: int, seconds: int, connections: int) -> None:
    results: dict[str, list[Round]] = {candidate.name: [] for candidate in candidates}
    for number in range(rounds + 1):
        for candidate in candidates:
            path, headers = candidate.path, candidate.headers
            outcome = load(
                candidate.pid, candidate.port, path, headers, seconds=seconds, connections=connections
            )
            if number > 0:  # the first round warms up
                results[candidate.name].append(outcome)
    ours = candidates[0].name
    print(
        f"\nCPU per request, {rounds} interleaved rounds of {seconds} s, {connections} connections, medians"
    )
    print(
        f"{'proxy':<24}{'µs/request':>12}{'gateway is':>12}{'p50 µs':>9}{'req/s':>9}{'requests':>10}{'errors':>8}"
    )
    medians = {
        name: statistics.median(r.cpu_us_per_request for r in found) for name, found in results.items()
    }
    for name, found in results.items():
        ratio = statistics.median(
            mine.cpu_us_per_request / theirs.cpu_us_per_request
            for mine, theirs in zip(results[ours], found, strict=True)
        )
        print(
            f"{name:<24}{medians[name]:>12.1f}{ratio:>11.2f}x"
            f"{statistics.median(r.p50_us for r in found):>9.0f}{statistics.median(r.requests_per_s for r in found):>9.0f}"
            f"{sum(r.requests for r in found):>10}{sum(r.errors for r in found):>8}"
        )
    for name, target in (("haproxy without auth", TARGET_VS_PLAIN), ("envoy", TARGET_VS_ENVOY)):
        if name in medians:
            ratio = medians[ours] / medians[name]
            print(f"target: at most {target} x {name}: {ratio:.2f} {'met' if ratio <= target else 'MISSED'}")


def report_first_byte(gateway: Candidate, stream_port: int) -> None:
    times: dict[str, list[float]] = {"direct": [], "gateway": []}
    kept: dict[str, socket.socket | None] = {"direct": None, "gateway": None}
    for _ in range(STREAMS):
        for name, port, path, headers in (
            ("direct", stream_port, "/stream", {}),
            ("gateway", gateway.port, gateway.stream_path, gateway.headers),
        ):
            elapsed_us, kept[name] = time_to_first_byte_us(port, path, headers, kept[name])
            times[name].append(elapsed_us)
    for connection in kept.values():
        if connection is not None:
            connection.close()
    medians = {name: statistics.median(found) for name, found in times.items()}
    added = statistics.median(
        through - straight for through, straight in zip(times["gateway"], times["direct"], strict=True)
    )
    print(f"\nTime to the first streamed byte, {STREAMS} interleaved pairs, medians")
    print(
        f"direct {medians['direct']:.0f} µs, through the gateway {medians['gateway']:.0f} µs, added {added:.0f} µs"
    )
    verdict = "met" if added <= TARGET_FIRST_BYTE_US else "MISSED"
    print(f"target: at most {TARGET_FIRST_BYTE_US} µs added: {verdict}")


@contextlib.contextmanager
def our_gateway(folder: Path, upstream_port: int, stream_port: int) -> Iterator[Candidate]:
    """With as many keys and containers around it as a small installation has."""
    run_dir = folder / "run"
    root = os.geteuid() == 0
    port = free_port()
    config = GatewayConfig(
        f"127.0.0.1:{port}",
        folder / "gateway" / "current",
        run_dir / "haproxy.sock",
        user="nobody" if root else None,
    )
    project_id = ids.new_project_id()
    secret = "moor_" + "7" * 28
    names = [ids.new_container_id() for _ in range(CONTAINERS)]
    targets = [upstream_port, stream_port, *([upstream_port] * (CONTAINERS - 2))]
    routes = {
        name: Route(name, project_id, (Server(ids.new_replica_id(), "127.0.0.1", target),))
        for name, target in zip(names, targets, strict=True)
    }
    hashes = [
        hashlib.sha256(text.encode()).hexdigest() for text in (secret, *(f"other {n}" for n in range(KEYS)))
    ]
    keys = {key_hash: KeyEntry(key_hash, project_id) for key_hash in hashes}
    plane = DataPlane(config, folder, run_dir)

    async def begin() -> None:
        await plane.start()
        await plane.apply(GatewayTable(routes, keys))

    asyncio.run(begin())
    pid = plane.process.pid()
    assert pid is not None
    path = f"/c/{names[0]}/api/v1/chat/completions"
    try:
        headers = {"Authorization": f"Bearer {secret}"}
        yield Candidate("moorage gateway", pid, port, path, headers, f"/c/{names[1]}/stream")
    finally:
        asyncio.run(plane.stop())


@contextlib.contextmanager
def running(plain: gateway_proxies.Plain, port: int) -> Iterator[int]:
    process = subprocess.Popen(plain.argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 20
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            if process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"{plain.name} did not start: {' '.join(plain.argv)}")
            time.sleep(0.05)
        yield process.pid
    finally:
        process.terminate()
        process.wait(10)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


if __name__ == "__main__":
    main()
