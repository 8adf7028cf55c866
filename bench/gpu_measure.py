"""Streams through the gateway and past it, in turns; and what NVIDIA's own tool says meanwhile: for `bench/gpu.py`."""

import json
import random
import socket
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pynvml

BODY = {
    "messages": [{"role": "user", "content": "Where do I moor?"}],
    "stream": True,
    "ignore_eos": True,
    "max_tokens": 32,
}
"""Short streams, and many of them: a machine's pace changes from second to second, and a pair must meet the same one."""
_RESAMPLED = 1000
SMI_FIELDS = ("utilization.gpu", "memory.used", "power.draw", "temperature.gpu")


@dataclass(frozen=True)
class Streamed:
    first_token_s: float
    tokens: int
    total_s: float

    @property
    def tokens_per_s(self) -> float:
        return self.tokens / self.total_s


class Connection:
    """One connection that stays, as clients keep theirs; nothing between the socket and the clock."""

    def __init__(self, address: tuple[str, int], path: str, key: str | None = None) -> None:
        self._socket = socket.create_connection(address, timeout=60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        body = json.dumps(BODY).encode()
        authorization = f"Authorization: Bearer {key}\r\n" if key else ""
        self._request = (
            f"POST {path} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n{authorization}"
            f"Content-Length: {len(body)}\r\n\r\n"
        ).encode() + body

    def stream(self) -> Streamed:
        began_s = time.perf_counter()
        self._socket.sendall(self._request)
        read, first_s = bytearray(), 0.0
        # The last chunk, with the end of the one before it: a header may end with a zero too.
        while not read.endswith(b"\r\n0\r\n\r\n"):
            part = self._socket.recv(65536)
            if not part:
                raise ConnectionError(f"the stream broke off: {bytes(read[:300])!r}")
            read += part
            if not first_s and b'"content"' in read:
                first_s = time.perf_counter()
        ended_s = time.perf_counter()
        if not read.startswith(b"HTTP/1.1 200"):
            raise ConnectionError(f"{bytes(read[:300])!r}")
        return Streamed(first_s - began_s, read.count(b'"content"'), ended_s - began_s)


@dataclass(frozen=True)
class Estimate:
    value: float
    low: float
    high: float
    """Between the two in 95 of 100 repetitions, as resampled pairs tell."""

    def __format__(self, spec: str) -> str:
        return f"{self.value:{spec}} ({self.low:{spec}} to {self.high:{spec}})"


@dataclass(frozen=True)
class Comparison:
    pairs: int
    direct_first_ms: float
    gateway_first_ms: float
    added_first_ms: Estimate
    direct_tokens_per_s: float
    gateway_tokens_per_s: float
    ratio: Estimate


Pair = tuple[Streamed, Streamed]
"""Through the gateway, and past it."""


def compare(gateway: Connection, direct: Connection, pairs: int, warm_up: int = 5) -> Comparison:
    """In turns, and whoever begins changes: what drifts, drifts for both."""
    for one in (gateway, direct):
        for _ in range(warm_up):
            one.stream()
    streamed: list[Pair] = []
    for number in range(pairs):
        if number % 2:
            through, past = gateway.stream(), direct.stream()
        else:
            past, through = direct.stream(), gateway.stream()
        streamed.append((through, past))
    return Comparison(
        pairs=pairs,
        direct_first_ms=statistics.median(past.first_token_s for _, past in streamed) * 1000,
        gateway_first_ms=statistics.median(through.first_token_s for through, _ in streamed) * 1000,
        added_first_ms=_estimated(_added_first_ms, streamed),
        direct_tokens_per_s=statistics.median(past.tokens_per_s for _, past in streamed),
        gateway_tokens_per_s=statistics.median(through.tokens_per_s for through, _ in streamed),
        ratio=_estimated(_ratio, streamed),
    )


def _added_first_ms(pairs: list[Pair]) -> float:
    return statistics.median((through.first_token_s - past.first_token_s) * 1000 for through, past in pairs)


def _ratio(pairs: list[Pair]) -> float:
    return statistics.median(through.tokens_per_s / past.tokens_per_s for through, past in pairs)


def _estimated(of: Callable[[list[Pair]], float], pairs: list[Pair]) -> Estimate:
    chance = random.Random(1)
    drawn = sorted(of(chance.choices(pairs, k=len(pairs))) for _ in range(_RESAMPLED))
    return Estimate(of(pairs), drawn[int(_RESAMPLED * 0.025)], drawn[int(_RESAMPLED * 0.975)])


def load_for(seconds: float, connection: Connection) -> tuple[datetime, datetime, dict[str, float]]:
    """Streams one after the other, and what `nvidia-smi` said in the meantime, on average."""
    query = [
        "nvidia-smi",
        f"--query-gpu={','.join(SMI_FIELDS)}",
        "--format=csv,noheader,nounits",
        "-lms",
        "500",
    ]
    smi = subprocess.Popen(query, stdout=subprocess.PIPE, text=True)
    began, began_s = datetime.now(UTC), time.monotonic()
    while time.monotonic() - began_s < seconds:
        connection.stream()
    ended = datetime.now(UTC)
    smi.terminate()
    said, _ = smi.communicate(timeout=10)
    rows = [[float(value) for value in line.split(",")] for line in said.splitlines() if line.count(",") == 3]
    means = [statistics.fmean(column) for column in zip(*rows[2:-1], strict=True)]
    return began, ended, dict(zip(SMI_FIELDS, means, strict=True))


def shown_means(metrics: dict[str, Any], began: datetime, ended: datetime) -> dict[str, float]:
    """The same from Moorage's metrics; empty while they are not stored yet."""
    inside = [
        at
        for at, time_text in enumerate(metrics["times"])
        if began.timestamp() + 1.5 <= datetime.fromisoformat(time_text).timestamp() <= ended.timestamp() - 1.5
    ]
    for replica in metrics["replicas"]:
        for gpu in replica["gpus"]:
            series = gpu["series"]
            found = {
                name: [series[name][at] for at in inside if series[name][at] is not None] for name in series
            }
            if found and all(len(values) >= len(inside) * 0.6 and values for values in found.values()):
                return {name: statistics.fmean(values) for name, values in found.items()}
    return {}


@dataclass
class MemoryLog:
    """The GPU's memory in use, many times a second."""

    samples: list[tuple[float, int]] = field(default_factory=list)
    """(seconds since 1970, bytes)."""

    def at(self, time_s: float) -> int:
        """As it was last seen before then."""
        return next((used for at_s, used in reversed(self.samples) if at_s <= time_s), 0)


@contextmanager
def watched_memory() -> Iterator[MemoryLog]:
    log, stop = MemoryLog(), threading.Event()
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)

    def watch() -> None:
        while not stop.wait(0.005):
            used = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2).used
            log.samples.append((time.time(), int(used)))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield log
    finally:
        stop.set()
        thread.join(2)
