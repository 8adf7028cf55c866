"""Servers that tenants run answer more often than they were asked, and hold up nobody else."""

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest
from yarl import URL

from moorage.containers.reconciler.probe import probe_replica
from moorage.containers.reconciler.prober import Prober
from moorage.containers.verdict import ProbeFailure
from moorage.kit.clock import system_clock
from moorage.outbound.addresses import Reach, registry_origin, system_lookup
from moorage.outbound.transport import Transport, TransportError

LONGEST_S = 0.05
FLOODS = {
    "interim answers": b"HTTP/1.1 100 C\r\n\r\n" * 14_000,
    "answers": b"HTTP/1.1 404 C\r\nContent-Length: 0\r\n\r\n" * 7000,
    "answers behind a body": b"HTTP/1.1 200 C\r\nContent-Length: 3\r\n\r\nyes" * 7000,
}


class Server:
    """In a thread of its own, so that what it costs is not taken for what its answers cost."""

    def __init__(self, answer: bytes, times: int) -> None:
        self._answer, self._times = answer, times
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listening.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._give, args=(connection,), daemon=True).start()

    def _give(self, connection: socket.socket) -> None:
        with connection:
            try:
                connection.recv(65536)
                for _ in range(self._times):
                    connection.sendall(self._answer)
            except OSError:
                return


@pytest.fixture(params=FLOODS)
def flood(request: pytest.FixtureRequest) -> Iterator[Server]:
    server = Server(FLOODS[request.param], times=8)
    yield server
    server.close()


class Loop:
    """How much of this thread's own time the loop was held for at once."""

    def __init__(self) -> None:
        self.longest_s = 0.0

    async def watch(self) -> None:
        while True:
            began_s = time.thread_time()
            await asyncio.sleep(0)
            self.longest_s = max(self.longest_s, time.thread_time() - began_s)


@pytest.fixture
async def loop_watch() -> Loop:
    return Loop()


async def test_a_probe_holds_up_nobody(flood: Server, loop_watch: Loop) -> None:
    prober = Prober(lambda _: None)
    watching = asyncio.create_task(loop_watch.watch())
    try:
        await probe_replica(prober._http_session(), "127.0.0.1", flood.port, "/health", timeout_s=2.0)
    finally:
        watching.cancel()
        await prober.close()
    assert loop_watch.longest_s < LONGEST_S


async def test_a_server_that_users_name_holds_up_nobody(flood: Server, loop_watch: Loop) -> None:
    authority = f"127.0.0.1:{flood.port}"
    reach = Reach(registry_origin(authority), (authority,), system_lookup)
    watching = asyncio.create_task(loop_watch.watch())
    try:
        async with Transport(reach, system_clock, total_timeout_s=2.0) as transport:
            for _ in range(2):
                with contextlib.suppress(TransportError):
                    await transport.get(URL(f"http://{authority}/v2/"), max_bytes=2**16, accept="*/*")
    finally:
        watching.cancel()
    assert loop_watch.longest_s < LONGEST_S


async def test_a_few_interim_answers_are_well() -> None:
    hints = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 3
    server = Server(hints + b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", times=1)
    prober = Prober(lambda _: None)
    probe = await probe_replica(prober._http_session(), "127.0.0.1", server.port, "/health")
    await prober.close()
    server.close()
    assert (probe.failure, probe.status) == (None, 200)


async def test_a_server_that_never_gives_its_own_answer_has_failed() -> None:
    server = Server(FLOODS["interim answers"], times=8)
    prober = Prober(lambda _: None)
    probe = await probe_replica(prober._http_session(), "127.0.0.1", server.port, "/health", timeout_s=5.0)
    await prober.close()
    server.close()
    assert probe.failure is ProbeFailure.REFUSED, "at once, and not when its time is up"


async def test_a_body_that_looks_like_answers_arrives() -> None:
    body = b"HTTP/1.1 200 OK\r\n\r\n" * 20_000
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    server = Server(head + body, times=1)
    authority = f"127.0.0.1:{server.port}"
    reach = Reach(registry_origin(authority), (authority,), system_lookup)
    async with Transport(reach, system_clock) as transport:
        answer = await transport.get(URL(f"http://{authority}/"), max_bytes=2**20, accept="*/*")
    server.close()
    assert answer.body == body
