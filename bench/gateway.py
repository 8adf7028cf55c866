"""What the gateway costs: CPU per request and time to the first streamed byte, against other proxies.

    python bench/gateway.py [--rounds 6] [--seconds 2] [--connections 32]

All proxies run at once and take turns, round by round, in front of the same upstream and with the same requests, so that
a busy machine is unfair to all of them alike: trust the ratios. The gateway runs as it is deployed, with a key that
expires, limits, and a log that is read. It is held against the same configuration without the key check (what authentication costs), and against bare
proxies (what everything costs that a proxy need not do: request ids, header rewriting, JSON errors, routing by map).
Real clients keep their connections; a second table shows one request per connection, where no hash is remembered.
Needs `wrk` (Debian: wrk); nginx is installed where it is missing and allowed; Envoy and Traefik come with the `bench`
dependency group.
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
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import gateway_proxies
from gateway_log import RequestLog
from gateway_measure import Round, load, serve_streams, time_to_first_byte_us

from moorage.gateway.config import GatewayConfig
from moorage.gateway.dataplane import DataPlane
from moorage.gateway.table import GatewayTable, KeyEntry, Route, Server
from moorage.kit import ids

RATIO_TARGETS = {
    gateway_proxies.SAME_HAPROXY: 1.25,
    gateway_proxies.ENVOY: 0.6,
    gateway_proxies.NGINX: 1.6,
}
TARGET_FIRST_BYTE_US = 500
SECRET = "moor_" + "7" * 28
HEADERS = {"Authorization": f"Bearer {SECRET}"}
KEYS = 1000
CONTAINERS = 60
STREAMS = 400


@dataclass(frozen=True)
class Candidate:
    name: str
    pid: int
    port: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--connections", type=int, default=32)
    options = parser.parse_args()
    if shutil.which("wrk") is None:
        sys.exit("wrk is missing (Debian: apt-get install wrk)")
    with tempfile.TemporaryDirectory(prefix="moor-bench-") as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        folder.chmod(0o755)
        upstream_port, stream_port = free_port(), serve_streams()
        stack.enter_context(running(gateway_proxies.upstream_haproxy(folder, upstream_port), upstream_port))
        table = a_table([upstream_port, stream_port])
        path, stream_path = (f"/c/{name}/api/v1/chat/completions" for name in list(table.routes)[:2])
        gateway = stack.enter_context(our_gateway(folder, table))
        candidates = [
            gateway,
            *(stack.enter_context(other) for other in others(folder, upstream_port, table)),
        ]
        print(f"command: python {' '.join(sys.argv)}")
        rounds, connections = options.rounds, options.connections
        print(
            f"\nCPU per request, {connections} kept connections, {rounds} interleaved rounds of {options.seconds} s"
        )
        kept = measure(candidates, rounds, options.seconds, connections, path, HEADERS)
        report_cpu(kept)
        report_targets(kept)
        print(f"\nCPU per request, one request per connection, {rounds} interleaved rounds of 1 s")
        report_cpu(measure(candidates, rounds, 1, connections, path, {**HEADERS, "Connection": "close"}))
        report_first_byte(gateway, stream_port, stream_path)


def measure(
    candidates: list[Candidate],
    rounds: int,
    seconds: int,
    connections: int,
    path: str,
    headers: dict[str, str],
) -> dict[str, list[Round]]:
    """The gateway's come first."""
    results: dict[str, list[Round]] = {candidate.name: [] for candidate in candidates}
    for number in range(rounds + 1):
        # Whoever comes after a busy proxy meets its aftermath: each takes every place in turn.
        first = number % len(candidates)
        for candidate in candidates[first:] + candidates[:first]:
            outcome = load(
                candidate.pid, candidate.port, path, headers, seconds=seconds, connections=connections
            )
            if number > 0:  # the first round warms up
                results[candidate.name].append(outcome)
    return results


def report_cpu(results: dict[str, list[Round]]) -> None:
    columns = ("µs/request", "least", "gateway is", "p50 µs", "req/s", "requests", "errors")
    print(f"{'medians':<28}" + "".join(f"{column:>11}" for column in columns))
    for name, found in results.items():
        cpu_us = [outcome.cpu_us_per_request for outcome in found]
        print(
            f"{name:<28}{statistics.median(cpu_us):>11.1f}{min(cpu_us):>11.1f}{ratio_to(name, results):>10.2f}x"
            f"{statistics.median(outcome.p50_us for outcome in found):>11.0f}"
            f"{statistics.median(outcome.requests_per_s for outcome in found):>11.0f}"
            f"{sum(outcome.requests for outcome in found):>11}{sum(outcome.errors for outcome in found):>11}"
        )


def report_targets(results: dict[str, list[Round]]) -> None:
    for name, target in RATIO_TARGETS.items():
        if name in results:
            ratio = ratio_to(name, results)
            print(f"target: at most {target} x {name}: {ratio:.2f} {'met' if ratio <= target else 'MISSED'}")


def ratio_to(name: str, results: dict[str, list[Round]]) -> float:
    """The median of the rounds' ratios: what disturbs a round disturbs both of its members."""
    ours = next(iter(results.values()))
    return statistics.median(
        mine.cpu_us_per_request / theirs.cpu_us_per_request
        for mine, theirs in zip(ours, results[name], strict=True)
    )


def report_first_byte(gateway: Candidate, stream_port: int, stream_path: str) -> None:
    times: dict[str, list[float]] = {"direct": [], "gateway": []}
    kept: dict[str, socket.socket | None] = {"direct": None, "gateway": None}
    for _ in range(STREAMS):
        for name, port, path, headers in (
            ("direct", stream_port, "/stream", {}),
            ("gateway", gateway.port, stream_path, HEADERS),
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


def a_table(ports: list[int], containers: int = CONTAINERS, keys: int = KEYS) -> GatewayTable:
    """By default as many as a small installation has; the first containers are those of the ports."""
    project_id = ids.new_project_id()
    names = [ids.new_container_id() for _ in range(containers)]
    targets = ports + ports[:1] * (containers - len(ports))
    routes = {
        name: Route(name, project_id, (Server(ids.new_replica_id(), "127.0.0.1", target),))
        for name, target in zip(names, targets, strict=True)
    }
    secrets = [SECRET, *(f"other {number}" for number in range(keys - 1))]
    hashes = [hashlib.sha256(secret.encode()).hexdigest() for secret in secrets]
    expires_at_epoch_s = int(time.time()) + 86400
    organization_id = ids.new_organization_id()
    entries = [
        KeyEntry(key_hash, project_id, expires_at_epoch_s, ids.new_api_key_id(), organization_id)
        for key_hash in hashes
    ]
    return GatewayTable(routes, {entry.key_hash_hex: entry for entry in entries})


@contextlib.contextmanager
def our_gateway(folder: Path, table: GatewayTable) -> Iterator[Candidate]:
    run_dir = folder / "run"
    run_dir.mkdir()
    run_dir.chmod(0o755)
    port = free_port()
    config = GatewayConfig(
        f"127.0.0.1:{port}",
        folder / "gateway" / "current",
        run_dir / "haproxy.sock",
        console_origin="http://127.0.0.1:8080",
        request_log_socket=run_dir / "requests.sock",
        # Counted as always, and never reached.
        key_requests_per_s=1_000_000,
        organization_requests_per_s=1_000_000,
        user=unprivileged_user(),
    )
    log = RequestLog(run_dir / "requests.sock")
    plane = DataPlane(config, folder, run_dir)

    async def begin() -> int | None:
        await plane.start()
        await plane.apply(table)
        return plane.process.pid()

    pid = asyncio.run(begin())
    assert pid is not None
    try:
        yield Candidate("moorage gateway", pid, port)
    finally:
        asyncio.run(plane.stop())
        print(f"\nThe agent reads and counts a logged request in {log.cpu_us_per_request():.1f} µs")


def others(
    folder: Path, upstream_port: int, table: GatewayTable
) -> Iterator[AbstractContextManager[Candidate]]:
    port = free_port()
    yield candidate(gateway_proxies.same_haproxy(folder, port, table), port)
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
        else:
            yield candidate(plain, port)


@contextlib.contextmanager
def candidate(plain: gateway_proxies.Plain, port: int) -> Iterator[Candidate]:
    with running(plain, port) as pid:
        yield Candidate(plain.name, pid, port)


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


def unprivileged_user() -> str | None:
    return "nobody" if os.geteuid() == 0 else None


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


if __name__ == "__main__":
    main()
