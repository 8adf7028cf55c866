"""Where the gateway's CPU goes: what each thing that it does for a request costs, in instructions.

    python bench/gateway_features.py [--requests 800]

The gateway's own configuration, as it is deployed, loses one thing after another until a bare proxy is left; each
step's difference is the price of what went. Counted by valgrind (Debian: valgrind), so the figures are the same on every
run and on a busy machine; what the kernel does for a request, which is about the same for all, is not in them.
"""

import argparse
import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import gateway
import gateway_proxies
from gateway_log import RequestLog

from moorage.gateway.config import GatewayConfig
from moorage.gateway.layout import Layout, place
from moorage.gateway.process import find_haproxy
from moorage.gateway.render import CONFIG_FILE, render_files
from moorage.gateway.table import GatewayTable

CONNECTIONS = 8
WARM_UP = 20 * CONNECTIONS


def without(*fragments: str) -> Callable[[str], str]:
    """The configuration less the lines that have one of these in them."""

    def edit(text: str) -> str:
        for fragment in fragments:
            assert fragment in text, f"no line has {fragment!r}"
        lines = text.splitlines(keepends=True)
        return "".join(line for line in lines if not any(fragment in line for fragment in fragments))

    return edit


STEPS: list[tuple[str, Callable[[str], str]]] = [
    ("which requests run with which key", without("txn.running")),
    ("the path, where it is on our list", without("set-var(txn.path)")),
    ("a line for the request log", without("log ring@", "log-format", "set-log-level")),
    (
        "shares per key and organization",
        without("track-sc", "status 429", "sc-inc-gpc0", "own_rate", "txn.gateways", "one_of_several"),
    ),
    ("the key, and that it may use this container", gateway_proxies.without_key_check),
    (
        "a request id, to the container and back",
        without("unique-id-", "set-header X-Request-ID", "x-request-id"),
    ),
    ("headers that are ours to set", without("del-header", "add-header X-Forwarded", "sess.client")),
    (
        "queue, body, time and retry limits",
        without("queue ge", "limits", "retries", "retry-on conn-failure empty"),
    ),
    ("the console's origin", without("from_console", "Access-Control", "Vary Origin", "preflight")),
]
REST = "the route by map, the path, JSON errors"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--requests", type=int, default=800)
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        sys.exit("valgrind is missing (Debian: apt-get install valgrind)")
    print(f"command: python {' '.join(sys.argv)}\n\n{'instructions of a request':<48}{'':>9}")
    with tempfile.TemporaryDirectory(prefix="moor-bench-") as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        folder.chmod(0o755)
        upstream_port = gateway.free_port()
        stack.enter_context(
            gateway.running(gateway_proxies.upstream_haproxy(folder, upstream_port), upstream_port)
        )
        table = gateway.a_table([upstream_port])
        path = f"/c/{next(iter(table.routes))}/api/v1/chat/completions"
        everything = previous = instructions(*gateway_less(folder, table, 0), path, options.requests)
        parts = []
        for number, (part, _) in enumerate(STEPS, 1):
            left = instructions(*gateway_less(folder, table, number), path, options.requests)
            parts.append((part, previous - left))
            previous = left
        port = gateway.free_port()
        plain = gateway_proxies.plain_haproxy(folder, port, upstream_port)
        bare = instructions(plain.argv, port, path, options.requests)
        parts.append((REST, previous - bare))
        for part, count in sorted(parts, key=lambda found: -found[1]):
            print(f"{part:<48}{count:>9,.0f}{count / everything:>7.1%}")
        print(f"{plain.name:<48}{bare:>9,.0f}{bare / everything:>7.1%}")
        print(f"{'moorage gateway':<48}{everything:>9,.0f}")
        port = gateway.free_port()
        nginx = gateway_proxies.nginx(folder, port, upstream_port)
        if nginx is not None:
            argv = [*nginx.argv, "-g", "master_process off;"]
            print(f"{nginx.name:<48}{instructions(argv, port, path, options.requests):>9,.0f}")


def gateway_less(folder: Path, table: GatewayTable, steps: int) -> tuple[list[str], int]:
    """Its command line and its port."""
    state_dir = folder / f"less-{steps}"
    state_dir.mkdir()
    state_dir.chmod(0o755)
    RequestLog(state_dir / "log.sock")
    port = gateway.free_port()
    config = GatewayConfig(
        f"127.0.0.1:{port}",
        state_dir,
        state_dir / "haproxy.sock",
        console_origin="http://127.0.0.1:8080",
        request_log_socket=state_dir / "log.sock",
        key_requests_per_s=1_000_000,
        organization_requests_per_s=1_000_000,
    )
    files = render_files(config, place(table, Layout(64), frozenset()))
    for _, edit in STEPS[:steps]:
        files[CONFIG_FILE] = edit(files[CONFIG_FILE])
    for name, text in files.items():
        (state_dir / name).write_text(text)
    return [str(find_haproxy()), "-db", "-f", str(state_dir / CONFIG_FILE)], port


def instructions(argv: list[str], port: int, path: str, requests: int) -> float:
    """Of one request, the process being warm."""
    with tempfile.TemporaryDirectory(prefix="moor-bench-") as folder:
        command = ["valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={folder}/counts", *argv]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            with connections_to(port) as connections:
                ask(connections, path, WARM_UP)
                subprocess.run(["callgrind_control", "-z", str(process.pid)], check=True, capture_output=True)
                ask(connections, path, requests)
                subprocess.run(["callgrind_control", "-d", str(process.pid)], check=True, capture_output=True)
        finally:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        first_dump = next(iter(sorted(Path(folder).glob("counts.*")))).read_text()
        total = re.search(r"^totals: (\d+)", first_dump, re.MULTILINE)
        assert total is not None, first_dump[:500]
        return int(total[1]) / requests


@contextlib.contextmanager
def connections_to(port: int) -> Iterator[list[socket.socket]]:
    deadline = time.monotonic() + 60
    while True:
        with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
            break
        assert time.monotonic() < deadline, f"nothing listens on {port}"
        time.sleep(0.1)
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))
            for _ in range(CONNECTIONS)
        ]


def ask(connections: list[socket.socket], path: str, requests: int) -> None:
    head = f"GET {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: {gateway.HEADERS['Authorization']}\r\n\r\n".encode()
    for _ in range(requests // CONNECTIONS):
        for connection in connections:
            connection.sendall(head)
        for connection in connections:
            answer = b""
            while not answer.endswith(gateway_proxies.UPSTREAM_ANSWER.encode()):
                piece = connection.recv(65536)
                assert piece, f"hung up after {answer!r}"
                answer += piece


if __name__ == "__main__":
    main()
