"""One source asks the API no faster, and no more at once, than it may: the rest is refused before the API hears of it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from gateway_support import Place, eventually, table
from test_gateway_shares import OTHER_SOURCE, ask, own_place

PER_S, AT_ONCE = 3, 4


@contextlib.asynccontextmanager
async def served(**limits: object) -> AsyncIterator[tuple[Place, list[str], asyncio.Event]]:
    """With an API that answers once it may."""
    heard, may_answer = list[str](), asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                heard.append(head.decode().split()[1])
                await may_answer.wait()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                await writer.drain()
        writer.close()

    with own_place(**limits) as place:
        assert place.config.api_socket is not None
        server = await asyncio.start_unix_server(answer, place.config.api_socket)
        place.config.api_socket.chmod(0o777)
        async with server:
            gateway = place.dataplane()
            await gateway.start()
            await gateway.apply(table([], []))
            try:
                yield place, heard, may_answer
            finally:
                place.kill()


def asked_for(path: str) -> str:
    return f"GET {path} HTTP/1.1\r\nHost: g\r\n\r\n"


async def test_faster_than_it_may() -> None:
    async with served(management_requests_per_s_per_source=PER_S) as (place, heard, may_answer):
        may_answer.set()
        answers = [await ask(place.management_port, asked_for("/")) for _ in range(15 * PER_S)]
        assert [one.status for one in answers] == [200] * (10 * PER_S) + [429] * (5 * PER_S)
        assert len(heard) == 10 * PER_S
        assert b"too_many_at_once" in answers[-1].body
        assert (await ask(place.management_port, asked_for("/"), OTHER_SOURCE)).status == 200


async def test_more_at_once_than_it_may() -> None:
    async with served(management_requests_at_once_per_source=AT_ONCE) as (place, heard, may_answer):
        port = place.management_port
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(ask(port, asked_for("/page"))) for _ in range(3 * AT_ONCE)]
            streams = [group.create_task(ask(port, asked_for("/logs/stream"))) for _ in range(3 * AT_ONCE)]
            await eventually(lambda: sum(one.done() for one in asked + streams) == 4 * AT_ONCE)
            # What is let in may be heard later than the rest is refused.
            await eventually(lambda: len(heard) >= 2 * AT_ONCE)
            assert (heard.count("/page"), heard.count("/logs/stream")) == (AT_ONCE, AT_ONCE)
            other = group.create_task(ask(port, asked_for("/other"), OTHER_SOURCE))
            await eventually(lambda: "/other" in heard)
            may_answer.set()
        assert sorted(one.result().status for one in asked) == [200] * AT_ONCE + [429] * 2 * AT_ONCE
        assert other.result().status == 200
        # What has ended no longer counts.
        assert (await ask(port, asked_for("/page"))).status == 200
