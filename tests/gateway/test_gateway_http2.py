"""Over HTTP/2 one connection carries many requests: they are shared out as connections are."""

import asyncio
import contextlib
import os
import ssl
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from gateway_support import Container, Place, eventually, make_place, new_key, run_container, table

from moorage.gateway.table import Route
from moorage.kit import ids
from tests.certificates import write_certificate

AT_ONCE, PER_SOURCE, ASKED = 40, 10, 60
PROJECT, CONTAINER = ids.new_project_id(), ids.new_container_id()
KEY = new_key(PROJECT)
OTHER_SOURCE = "127.0.0.2"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, SETTINGS = 0, 1, 4
_ENDS_STREAM_AND_HEADERS, _ENDS_HEADERS = 5, 4


@dataclass
class Http2Connection:
    """Just enough of the protocol to ask many things at once."""

    writer: asyncio.StreamWriter
    answers: Counter[int] = field(default_factory=Counter)
    """Frames that the other side sent, by their type."""

    def ask(self, path: str, times: int, *, unfinished: bytes | None = None) -> None:
        """`unfinished`: the beginning of a body of which nothing more comes."""
        fields = {
            ":method": "GET" if unfinished is None else "POST",
            ":scheme": "https",
            ":authority": "g",
            ":path": path,
            "authorization": f"Bearer {KEY.secret}",
        }
        # Each a literal with a name of its own: nothing has to be remembered.
        block = b"".join(b"\0" + _text(name) + _text(value) for name, value in fields.items())
        flags = _ENDS_STREAM_AND_HEADERS if unfinished is None else _ENDS_HEADERS
        for number in range(times):
            self.writer.write(_frame(HEADERS, flags, 2 * number + 1, block))
            if unfinished is not None:
                self.writer.write(_frame(DATA, 0, 2 * number + 1, unfinished))

    async def read(self, reader: asyncio.StreamReader) -> None:
        while head := await reader.read(9):
            head += await reader.readexactly(9 - len(head))
            await reader.readexactly(int.from_bytes(head[:3]))
            self.answers[head[3]] += 1


def _text(value: str) -> bytes:
    assert len(value) < 127, "longer ones are spelled otherwise"
    return bytes([len(value)]) + value.encode()


def _frame(kind: int, flags: int, stream: int, content: bytes) -> bytes:
    return len(content).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + content


@contextlib.asynccontextmanager
async def http2_connection(port: int, source: str = "127.0.0.1") -> AsyncIterator[Http2Connection]:
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    tls.set_alpn_protocols(["h2"])
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls, local_addr=(source, 0))
    connection = Http2Connection(writer)
    writer.write(PREFACE + _frame(SETTINGS, 0, 0, b""))
    reading = asyncio.create_task(connection.read(reader))
    try:
        yield connection
    finally:
        reading.cancel()
        writer.close()


@contextlib.contextmanager
def place_with_certificates(per_source: int | None) -> Iterator[Place]:
    with tempfile.TemporaryDirectory(prefix="moor-gw-") as folder:
        Path(folder).chmod(0o755)
        certificate = Path(folder) / "certificate.pem"
        write_certificate(certificate, "localhost")
        place = make_place(
            Path(folder),
            endpoint_certificate=certificate,
            management_certificate=certificate,
            endpoint_connections=AT_ONCE,
            management_connections=AT_ONCE,
            endpoint_connections_per_source=per_source,
            management_connections_per_source=per_source,
            server_idle_timeout_s=60,
        )
        try:
            yield place
        finally:
            place.kill()


@contextlib.asynccontextmanager
async def serving(container: Container, per_source: int | None) -> AsyncIterator[Place]:
    with place_with_certificates(per_source) as place:
        gateway = place.dataplane()
        await gateway.start()
        route = Route(CONTAINER, PROJECT, (container.server(),), max_concurrency=10 * ASKED)
        await gateway.apply(table([route], [KEY]))
        yield place


@pytest.mark.parametrize("address", ["endpoints", "management"])
async def test_one_source_has_its_part_of_the_requests_too(container: Container, address: str) -> None:
    async with (
        serving(container, PER_SOURCE) as place,
        run_container(unix_path=place.config.api_socket) as api,
    ):
        port, path, asked = {
            "endpoints": (place.port, f"/c/{CONTAINER}/hold", container),
            "management": (place.management_port, "/hold", api),
        }[address]
        async with http2_connection(port) as greedy, http2_connection(port, OTHER_SOURCE) as other:
            greedy.ask(path, ASKED)
            await eventually(lambda: greedy.answers[HEADERS] == ASKED - PER_SOURCE)
            await eventually(lambda: asked.waiting == PER_SOURCE)
            other.ask(path, 1)
            await eventually(lambda: asked.waiting == PER_SOURCE + 1)
            # What has ended makes room.
            asked.release.set()
            await eventually(lambda: greedy.answers[HEADERS] == ASKED)
        async with http2_connection(port) as again:
            again.ask(path, PER_SOURCE)
            await eventually(lambda: len(asked.seen) == 2 * PER_SOURCE + 1)


async def test_all_sources_together_have_as_many_requests_as_connections(container: Container) -> None:
    async with serving(container, None) as place, http2_connection(place.port) as greedy:
        greedy.ask(f"/c/{CONTAINER}/hold", ASKED)
        await eventually(lambda: greedy.answers[HEADERS] == ASKED - AT_ONCE)
        await eventually(lambda: container.waiting == AT_ONCE)


async def test_without_a_certificate_nobody_speaks_it(place: Place, gateway: object) -> None:
    for port in (place.port, place.management_port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(PREFACE + _frame(SETTINGS, 0, 0, b""))
        async with asyncio.timeout(10):
            assert (await reader.read(12)).startswith(b"HTTP/1.1 400")
        writer.close()


def resident_bytes(pid: int) -> int:
    fields = Path(f"/proc/{pid}/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.long
async def test_a_refused_request_is_not_waited_for(container: Container) -> None:
    """A thousand requests of one source to the management address, each with a body that never ends: all but its part are
    refused at once, and what they sent so far is not kept."""
    connections, each = 20, 50
    async with serving(container, connections) as place, AsyncExitStack() as stack:
        gateway = place.dataplane()
        await gateway.start()
        pid = (await gateway.process.master.workers()).current_pid
        greedy = [
            await stack.enter_async_context(http2_connection(place.management_port))
            for _ in range(connections)
        ]
        before = resident_bytes(pid)
        for connection in greedy:
            connection.ask("/slow", each, unfinished=b"x" * 1000)

        def refused() -> int:
            return sum(connection.answers[HEADERS] for connection in greedy)

        # Long before a body that does not come would be given up.
        await eventually(lambda: refused() == connections * each - connections, within_s=8)
        more = resident_bytes(pid) - before
        assert more < connections * each * 16 * 1024 / 2, "half of what a buffer for each would take"
        print(
            f"\n{connections * each} unfinished requests, {refused()} refused, HAProxy grew by {more / 1e6:.1f} MB"
        )
