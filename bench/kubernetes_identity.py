"""The price of a door: the same requests through the same gateway to the same server, behind a door and not, in turns."""

import contextlib
import socket
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import gateway_proxies
from gateway import HEADERS, a_table, free_port, our_gateway, running
from gateway_measure import cpu_seconds

from moorage.engines.doors import Authority, door_certificate, new_authority
from moorage.engines.kubernetes.door_body import CERTIFICATE_FILE, CONFIG_FILE, door_port, door_program
from moorage.gateway.process import find_haproxy
from moorage.gateway.table import GatewayTable, Route, Server
from moorage.kit import ids
from moorage.kit.ids import ReplicaId

LARGE_BYTES = 2**20
KEPT, NEW, LARGE = "kept connections", "a connection for each request", "answers of 1 MiB"
KINDS = (KEPT, NEW, LARGE)
LARGE_SHARE = 10
"""Of those there are fewer, by that."""


@dataclass
class Side:
    """One of the two ways."""

    path: str
    latencies_us: dict[str, list[float]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    gateway_cpu_us: dict[str, list[float]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    door_cpu_us: dict[str, list[float]] = field(default_factory=lambda: {kind: [] for kind in KINDS})


@dataclass(frozen=True)
class Measured:
    direct: Side
    through_door: Side
    door_memory_kib: int


def measure(requests: int, rounds: int) -> Measured:
    with tempfile.TemporaryDirectory(prefix="moor-bench-") as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        folder.chmod(0o755)
        port = free_port()
        stack.enter_context(running(_upstream(folder, port), port))
        authority = new_authority("ins_of_a_benchmark", datetime.now(UTC))
        replica_id = ids.new_replica_id()
        door_pid = stack.enter_context(_door(folder, replica_id, authority, port))
        table = _with_door(a_table([port, port]), replica_id, authority, door_port(port))
        direct, through_door = (Side(f"/c/{name}") for name in list(table.routes)[:2])
        gateway = stack.enter_context(our_gateway(folder, table))
        for number in range(rounds):
            # Who goes first takes turns, too.
            for side in (direct, through_door) if number % 2 else (through_door, direct):
                for kind in KINDS:
                    count = max(1, requests // rounds // (LARGE_SHARE if kind == LARGE else 1))
                    before = cpu_seconds(gateway.pid), cpu_seconds(door_pid)
                    side.latencies_us[kind] += _ask(gateway.port, side.path, kind, count)
                    after = cpu_seconds(gateway.pid), cpu_seconds(door_pid)
                    side.gateway_cpu_us[kind].append((after[0] - before[0]) * 1e6 / count)
                    side.door_cpu_us[kind].append((after[1] - before[1]) * 1e6 / count)
        memory = int(Path(f"/proc/{door_pid}/status").read_text().partition("VmRSS:")[2].split()[0])
        return Measured(direct, through_door, memory)


def report(measured: Measured) -> None:
    direct, door = measured.direct, measured.through_door
    print("\nThe identity check: through a door, against the replica's own address")
    print(f"{'':32}{'direct':>10}{'door':>10}{'ratio':>8}{'gateway CPU':>22}{'door CPU':>10}")
    for kind in KINDS:
        before, after = (statistics.median(side.latencies_us[kind]) for side in (direct, door))
        cpu = [statistics.mean(side.gateway_cpu_us[kind]) for side in (direct, door)]
        print(
            f"{kind:32}{before:7.0f} µs{after:7.0f} µs{after / before:8.2f}"
            f"{cpu[0]:10.0f} → {cpu[1]:5.0f} µs{statistics.mean(door.door_cpu_us[kind]):7.0f} µs"
        )
    print(f"A door holds {measured.door_memory_kib / 1024:.1f} MiB")


def _ask(port: int, path: str, kind: str, count: int) -> list[float]:
    target = f"{path}/large" if kind == LARGE else f"{path}/small"
    lines = "".join(f"{name}: {value}\r\n" for name, value in HEADERS.items())
    request = f"POST {target} HTTP/1.1\r\nHost: bench\r\nContent-Length: 2\r\n{lines}\r\n{{}}".encode()
    found, connection = [], None
    for _ in range(count):
        started = time.perf_counter()
        if connection is None:
            connection = socket.create_connection(("127.0.0.1", port))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(request)
        _read_answer(connection)
        found.append((time.perf_counter() - started) * 1e6)
        if kind == NEW:
            # The gateway sends the first request of a connection over a new one of its own.
            connection.close()
            connection = None
    if connection is not None:
        connection.close()
    return found


def _read_answer(connection: socket.socket) -> None:
    received = b""
    while b"\r\n\r\n" not in received:
        received += _some(connection)
    head, _, body = received.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), head
    length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
    left = length - len(body)
    while left > 0:
        left -= len(_some(connection))


def _some(connection: socket.socket) -> bytes:
    piece = connection.recv(2**18)
    assert piece, "the connection was closed in the middle of an answer"
    return piece


def _upstream(folder: Path, port: int) -> gateway_proxies.Plain:
    large = folder / "large"
    large.write_bytes(b"x" * LARGE_BYTES)
    config = folder / "upstream.cfg"
    config.write_text(f"""\
global
    nbthread 1
    tune.bufsize {2 * LARGE_BYTES}
defaults
    mode http
    timeout client 60s
frontend upstream
    bind 127.0.0.1:{port}
    http-request return status 200 content-type text/plain file {large} if {{ path /large }}
    http-request return status 200 content-type application/json string '{{"ok":true}}'
""")
    return gateway_proxies.Plain("upstream", [str(find_haproxy()), "-db", "-f", str(config)])


@contextlib.contextmanager
def _door(folder: Path, replica_id: ReplicaId, authority: Authority, port: int) -> Iterator[int]:
    """As it runs in a Pod: its own configuration and certificate."""
    home = folder / "door"
    home.mkdir()
    for file, text in door_program(port).items():
        (home / file).write_text(text)
    (home / CERTIFICATE_FILE).write_text(door_certificate(authority, replica_id, datetime.now(UTC)))
    command = ["env", "POD_IP=127.0.0.1", str(find_haproxy()), "-db", "-C", str(home), "-f", CONFIG_FILE]
    with running(gateway_proxies.Plain("door", command), door_port(port)) as pid:
        yield pid


def _with_door(table: GatewayTable, replica_id: ReplicaId, authority: Authority, port: int) -> GatewayTable:
    """The second container is behind a door."""
    name = list(table.routes)[1]
    server = Server(replica_id, "127.0.0.1", port, has_door=True)
    routes = {**table.routes, name: Route(name, table.routes[name].project_id, (server,))}
    return GatewayTable(routes, table.keys, authority.certificate)
