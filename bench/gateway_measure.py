"""CPU time of a process and its children, load by wrk, and the time to a stream's first byte."""

import os
import re
import socket
import socketserver
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Round:
    requests: int
    errors: int
    cpu_us_per_request: float
    p50_us: float
    requests_per_s: float


def load(pid: int, port: int, path: str, headers: dict[str, str], *, seconds: int, connections: int) -> Round:
    """`Connection: close` among the headers makes it one request per connection."""
    before = cpu_seconds(pid)
    header_arguments = [part for name, value in headers.items() for part in ("-H", f"{name}: {value}")]
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency", *header_arguments]
    output = subprocess.run(
        [*command, f"http://127.0.0.1:{port}{path}"], capture_output=True, text=True, check=True
    ).stdout
    cpu_s = cpu_seconds(pid) - before
    requests = int(_find(r"(\d+) requests in", output) or 0)
    errors = int(_find(r"Non-2xx or 3xx responses: (\d+)", output) or 0)
    errors += sum(int(number) for number in re.findall(r"\d+", _find(r"Socket errors: (.*)", output) or ""))
    p50 = re.search(r"50%\s+([\d.]+)(us|ms|s)", output)
    assert p50 is not None, output
    p50_us = float(p50[1]) * {"us": 1, "ms": 1e3, "s": 1e6}[p50[2]]
    return Round(
        requests,
        errors,
        cpu_s * 1e6 / requests,
        p50_us,
        float(_find(r"Requests/sec:\s+([\d.]+)", output) or 0),
    )


def cpu_seconds(pid: int) -> float:
    """Of the process and all its descendants, those that ended and were waited for included."""
    return sum(_own_cpu_ticks(each) for each in _family(pid)) / _TICKS_PER_S


def time_to_first_byte_us(
    port: int, path: str, headers: dict[str, str], connection: socket.socket | None
) -> tuple[float, socket.socket]:
    """On a kept connection; the rest of the stream is read too."""
    if connection is None:
        connection = socket.create_connection(("127.0.0.1", port))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    request = f"GET {path} HTTP/1.1\r\nHost: bench\r\n{lines}\r\n".encode()
    started = time.perf_counter()
    connection.sendall(request)
    received = b""
    while b"data: first" not in received:
        received += _some(connection)
    elapsed_s = time.perf_counter() - started
    while not received.endswith(b"0\r\n\r\n"):
        received += _some(connection)
    return elapsed_s * 1e6, connection


class _Stream(socketserver.StreamRequestHandler):
    disable_nagle_algorithm = True

    def handle(self) -> None:
        while True:
            line = self.rfile.readline()
            while line not in (b"\r\n", b""):
                line = self.rfile.readline()
            if not line:
                return
            self.wfile.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
            )
            self.wfile.write(b"d\r\ndata: first\n\n\r\n")
            time.sleep(0.002)  # the model thinks about its second token
            self.wfile.write(b"e\r\ndata: second\n\n\r\n0\r\n\r\n")


def serve_streams() -> int:
    """A small event-stream container in a thread of this process; returns its port."""
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Stream)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    port: int = server.server_address[1]
    return port


def _some(connection: socket.socket) -> bytes:
    piece = connection.recv(65536)
    assert piece, "the connection was closed in the middle of a stream"
    return piece


def _family(pid: int) -> list[int]:
    members = [pid]
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in children.read_text().split():
            members += _family(int(child))
    return members


def _own_cpu_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def _find(pattern: str, text: str) -> str | None:
    match = re.search(pattern, text)
    return match[1] if match else None
