"""Nodes ask any controller for an image, and get to the one that leads."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from moorage.entrypoints.pull_relay import PullRelay, holder_name
from moorage.kit.clock import system_clock
from moorage.kit.database import Database
from moorage.reconcile.lease import LeaseKeeper
from tests.database.reconciler_support import eventually
from tests.ports import free_port


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
async def test_the_leader_is_asked_whoever_it_is(database: Database, bytes_: int) -> None:
    told = b"x" * bytes_
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
