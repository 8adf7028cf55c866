"""Nodes ask any controller for an image, and get to the one that leads."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from moorage.entrypoints.pull_relay import PullRelay, RelayLimits, holder_name
from moorage.kit.clock import system_clock
from moorage.kit.database import Database
from moorage.outbound.pulls.proxy import PullProxy
from moorage.reconcile.lease import LeaseKeeper
from tests.database.reconciler_support import eventually
from tests.ports import free_port

HEAD = b"GET /v2/ HTTP/1.1\r\nHost: images\r\n\r\n"
SILENCES = [b"", b"GET /v2/ HTTP/1.1\r\nHost: ima"]


@contextlib.asynccontextmanager
async def proxy(name: bytes) -> AsyncIterator[int]:
    """In place of a controller's pull proxy: says who it is, and what it was told."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        told = await reader.read()
        writer.write(name + b" was told " + told)
        await writer.drain()
        writer.close()

    port = free_port()
    async with await asyncio.start_server(answer, "127.0.0.1", port):
        yield port


async def ask(port: int, told: bytes) -> bytes | None:
    """None where the connection is closed on us."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(told)
        writer.write_eof()
        return await reader.read() or None
    except OSError:
        return None
    finally:
        writer.close()


@pytest.mark.parametrize("bytes_", [5, 5_000_000])
@pytest.mark.long
async def test_the_leader_is_asked_whoever_it_is(database: Database, bytes_: int) -> None:
    told = HEAD + b"x" * bytes_
    async with proxy(b"first") as first, proxy(b"second") as second:
        keepers = {
            name: LeaseKeeper(database, "containers", holder_name(name, f"127.0.0.1:{port}"), system_clock)
            for name, port in (("first", first), ("second", second))
        }
        port = free_port()
        async with PullRelay(database, "127.0.0.1", port) as relay:
            following = asyncio.create_task(relay.follow_leader())
            assert await ask(port, told) is None, "nobody leads"
            lease = await keepers["first"].acquire()
            assert lease is not None

            async def is_answered_by(name: bytes) -> bool:
                return await ask(port, told) == name + b" was told " + told

            await eventually(lambda: is_answered_by(b"first"), "the first is asked")
            await keepers["first"].release(lease)
            assert await keepers["second"].acquire() is not None
            await eventually(lambda: is_answered_by(b"second"), "the second is asked")
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)


async def is_closed(reader: asyncio.StreamReader) -> bool:
    """By the other side, within a deadline; whatever it says before is read."""
    async with asyncio.timeout(20):
        with contextlib.suppress(ConnectionError):
            await reader.read()
    return True


@contextlib.asynccontextmanager
async def relay_to(database: Database, leader: int, limits: RelayLimits) -> AsyncIterator[int]:
    port = free_port()
    async with PullRelay(database, "127.0.0.1", port, limits) as relay:
        relay.leader = ("127.0.0.1", leader)
        yield port


@contextlib.asynccontextmanager
async def connected(port: int, said: bytes) -> AsyncIterator[asyncio.StreamReader]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(said)
    await writer.drain()
    try:
        yield reader
    finally:
        writer.close()


@contextlib.asynccontextmanager
async def counting() -> AsyncIterator[tuple[int, list[bytes]]]:
    """In place of a pull proxy that never answers: where it is, and what each connection began with."""
    begun: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        begun.append(await reader.read(2**16))
        await reader.read()
        writer.close()

    port = free_port()
    async with await asyncio.start_server(listen, "127.0.0.1", port):
        yield port, begun


@pytest.mark.parametrize("said", SILENCES)
async def test_who_says_no_whole_head_is_closed_and_never_gets_to_the_leader(
    database: Database, said: bytes
) -> None:
    async with (
        counting() as (leader, begun),
        relay_to(database, leader, RelayLimits(head_within_s=0.2)) as port,
        connected(port, said) as reader,
    ):
        assert await is_closed(reader)
        assert begun == []


async def test_who_falls_silent_later_is_closed(database: Database) -> None:
    async with (
        counting() as (leader, begun),
        relay_to(database, leader, RelayLimits(idle_s=0.2)) as port,
        connected(port, HEAD) as reader,
    ):
        assert await is_closed(reader)

        async def was_asked() -> bool:
            return begun == [HEAD]

        await eventually(was_asked, "it got to the leader before")


async def test_a_head_without_end_is_closed(database: Database) -> None:
    async with (
        counting() as (leader, begun),
        relay_to(database, leader, RelayLimits()) as port,
        connected(port, b"GET /v2/ HTTP/1.1\r\nX: " + b"x" * 2**17) as reader,
    ):
        assert await is_closed(reader)
        assert begun == []


async def test_where_there_are_too_many_the_silent_make_room_and_then_nobody_does(
    database: Database,
) -> None:
    async with (
        counting() as (leader, begun),
        relay_to(database, leader, RelayLimits(most_connections=2)) as port,
        connected(port, b"") as oldest,
        connected(port, b"GET") as second,
        connected(port, HEAD),
        connected(port, HEAD),
    ):
        assert await is_closed(oldest)
        assert await is_closed(second)

        async def both_are_there() -> bool:
            return begun == [HEAD, HEAD]

        await eventually(both_are_there, "nodes that speak get through")
        async with connected(port, HEAD) as refused:
            assert await is_closed(refused)
        assert begun == [HEAD, HEAD]


@pytest.mark.parametrize("said", SILENCES)
async def test_a_pull_proxy_waits_for_a_head_for_a_while_only(said: bytes) -> None:
    async with PullProxy(
        system_clock,
        allowed_registries=(),
        max_image_bytes=1,
        pulls_per_organization=1,
        head_within_s=0.2,
    ) as pulls:
        assert pulls.port is not None
        async with connected(pulls.port, said) as reader:
            assert await is_closed(reader)
