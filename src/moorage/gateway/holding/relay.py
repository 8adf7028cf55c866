"""What was held goes back to HAProxy, and the answer to the client."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from moorage.gateway.holding.messages import (
    HEAD_BYTES_MAX,
    HEAD_END,
    LAST_CHUNK,
    Head,
    chunk,
    late_answer,
    parse_head,
)


class AsleepAgainError(Exception):
    """It never reached its container."""


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_PIECE = 65_536
_ANSWER_BYTES_MAX = 65_536
"""Of one that is told as an event."""
_TRIES, _PAUSE_S = 20, 0.1
"""HAProxy may just be loading its configuration anew."""


@asynccontextmanager
async def connected(socket: Path) -> AsyncIterator[Streams]:
    reader, writer = await _connect(socket)
    try:
        yield reader, writer
    finally:
        writer.close()


async def pass_on(
    client: Streams, released: Streams, answered: Callable[[], None], *, whole: bool
) -> str | None:
    """As it comes, in both directions, until one of the two ends; returns the replica that answered, None where the client left
    before one did. A body of which some was left at the client, and whatever becomes of the connection after an upgrade, go the
    same way. `whole`: it was sent with all of its body, so that it can be sent again. `answered` is called when it need not be."""
    upload = asyncio.create_task(_pump(client[0], released[1]))
    answer = asyncio.create_task(released[0].readuntil(HEAD_END))
    try:
        await asyncio.wait({upload, answer}, return_when=asyncio.FIRST_COMPLETED)
        if not answer.done() and _has_left(client[0]):
            call_off(released)
            return None
        raw = await answer
        head = parse_head(raw)
        if whole and head.is_asleep_again:
            raise AsleepAgainError
        answered()
        client[1].write(raw)
        download = asyncio.create_task(_pump(released[0], client[1]))
        try:
            await asyncio.wait({upload, download}, return_when=asyncio.FIRST_COMPLETED)
            # The client may have sent all that it has; only when it has left, nobody wants the answer.
            if not download.done() and not client[0].at_eof():
                await download
        finally:
            download.cancel()
            await asyncio.gather(download, return_exceptions=True)
    finally:
        for task in (upload, answer):
            task.cancel()
        await asyncio.gather(upload, answer, return_exceptions=True)
    return head.replica_id


async def pass_on_events(
    client: asyncio.StreamWriter,
    released: asyncio.StreamReader,
    request_id: str,
    answered: Callable[[], None],
) -> str | None:
    """To a client that has been told 200 and events already."""
    head = parse_head(await released.readuntil(HEAD_END))
    if head.is_asleep_again:
        raise AsleepAgainError
    answered()
    if 200 <= head.status < 300 and head.is_events:
        async for piece in _body(head, released):
            client.write(chunk(piece))
            await client.drain()
    else:
        answer = b""
        async for piece in _body(head, released):
            answer = (answer + piece)[:_ANSWER_BYTES_MAX]
        client.write(chunk(late_answer(head.status, answer, request_id)))
    client.write(LAST_CHUNK)
    await client.drain()
    return head.replica_id


def call_off(released: Streams) -> None:
    """Its container need not work for nobody. At once: what HAProxy has not read of the request would hold up its end."""
    released[1].transport.abort()


def _has_left(client: asyncio.StreamReader) -> bool:
    """HAProxy never ends only one direction: a client of which nothing more comes does not wait for an answer either."""
    return client.at_eof() or client.exception() is not None


async def _connect(socket: Path) -> Streams:
    for _ in range(_TRIES - 1):
        try:
            return await asyncio.open_unix_connection(str(socket), limit=HEAD_BYTES_MAX)
        except (ConnectionError, FileNotFoundError):
            await asyncio.sleep(_PAUSE_S)
    return await asyncio.open_unix_connection(str(socket), limit=HEAD_BYTES_MAX)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_PIECE):
        writer.write(data)
        await writer.drain()


async def _body(head: Head, reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    if head.is_chunked:
        while size := int((await reader.readuntil(b"\r\n")).split(b";")[0].strip(), 16):
            left = size
            while left:
                piece = await reader.read(min(left, _PIECE))
                if not piece:
                    raise asyncio.IncompleteReadError(b"", left)
                left -= len(piece)
                yield piece
            await reader.readexactly(2)
        return
    left_bytes = head.body_bytes
    while left_bytes is None or left_bytes > 0:
        piece = await reader.read(min(_PIECE, left_bytes or _PIECE))
        if not piece:
            if left_bytes:
                raise asyncio.IncompleteReadError(b"", left_bytes)
            return
        left_bytes = None if left_bytes is None else left_bytes - len(piece)
        yield piece
