"""A machine that says as much as it can, as fast as it can: what it costs us is bounded, and everybody else has their turn."""

import asyncio
import contextlib
import json
import threading
from dataclasses import replace
from struct import Struct
from typing import Any

import pytest
from aiohttp import web

from moorage.engines.base import (
    Image,
    ImageRequest,
    LogChunk,
    LogStream,
    ObservedReplica,
    PullProgress,
    ReplicaPhase,
)
from moorage.engines.remote import connection, output
from moorage.engines.remote import engine as engine_module
from moorage.engines.remote.codec import to_bytes
from moorage.engines.remote.frames import (
    CHUNKS_AT_A_TIME,
    Frame,
    FrameKind,
    FrameParser,
    pack_chunks,
    to_wire,
)
from moorage.engines.remote.messages import Envelope, open_envelope
from moorage.kit.clock import processor_time_s, system_clock
from moorage.kit.errors import EngineError
from moorage.kit.ids import new_container_id, new_replica_id
from tests.unit.remote_machines import engine_at, envelope, machine_that, says, streams

HERE = "machine-1/abc123"
_CHUNK = Struct(">QBI")
RUNNING = ObservedReplica(
    replica_id=new_replica_id(),
    container_id=new_container_id(),
    slot=0,
    generation=1,
    engine_id="abc123",
    phase=ReplicaPhase.RUNNING,
    host=None,
    host_port=20001,
    started_at=None,
    ended_at=None,
    exit_code=None,
    out_of_memory=False,
)


def test_a_frame_that_comes_byte_by_byte_is_not_copied_for_each() -> None:
    parser = FrameParser()
    whole = to_wire(Frame(FrameKind.CHUNKS, bytes(2 * 2**20)))
    parser.feed(whole[:-20_000])
    before_s = processor_time_s()
    found = [
        frame for at in range(len(whole) - 20_000, len(whole)) for frame in parser.feed(whole[at : at + 1])
    ]
    assert [len(frame.payload) for frame in found] == [2 * 2**20]
    assert processor_time_s() - before_s < 1.0, "it took thirteen seconds"


async def test_output_in_pieces_without_a_byte_comes_a_few_at_a_time() -> None:
    many = Frame(FrameKind.CHUNKS, _CHUNK.pack(1, 0, 0) * 100_000)
    async with machine_that(streams(to_wire(many), 1)) as port:
        engine = engine_at(port)
        bundles = engine.logs(HERE, 0)
        assert [len(await anext(bundles)) for _ in range(50)] == [CHUNKS_AT_A_TIME] * 50
        await engine.close()


@pytest.mark.long
async def test_output_with_times_of_its_own_is_read_at_our_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    """How much is kept follows from the times of the lines: a line for each second since 1970 is no flood by those."""
    monkeypatch.setattr(output, "_CHUNKS_PER_S", 500.0)
    monkeypatch.setattr(output, "_CHUNKS_AT_ONCE", 2_000.0)

    async def prints(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for second in range(0, 10**9, 100):
            lines = [
                LogChunk(one * 10**9, LogStream.STDOUT, b"x", ends_line=True)
                for one in range(second, second + 100)
            ]
            for payload in pack_chunks(lines):
                await response.write(to_wire(Frame(FrameKind.CHUNKS, payload)))
                await asyncio.sleep(0)
        return response

    async with machine_that(prints) as port:
        engine = engine_at(port)
        read, began_s = 0, system_clock.monotonic()
        async for bundle in engine.logs(HERE, 0):
            read += len(bundle)
            passed_s = system_clock.monotonic() - began_s
            assert read <= 2_000 + 500 * passed_s + 2 * CHUNKS_AT_A_TIME
            if passed_s > 1.0:
                break
        await engine.close()
    assert read > 2_000


async def test_frames_are_taken_at_a_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_FRAMES_PER_S", 200.0)
    monkeypatch.setattr(connection, "_FRAMES_AT_ONCE", 2_000.0)
    small = to_wire(Frame(FrameKind.PROGRESS, b"1")) * 100
    async with machine_that(streams(small)) as port:
        engine = engine_at(port)
        taken, began_s = 0, system_clock.monotonic()
        async for frames in engine._connection.frames("ensure_image", b"{}"):
            taken += len(frames)
            passed_s = system_clock.monotonic() - began_s
            if passed_s > 1.0:
                break
        await engine.close()
    assert taken <= 2_000 + 200 * passed_s + 65536 * 2 / len(small) * 100


async def test_a_long_answer_is_read_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list as long as it may be takes a second to read, and is asked for every three."""
    threads: list[threading.Thread] = []

    def noted(text: bytes, answer: Any) -> Envelope:
        threads.append(threading.current_thread())
        return open_envelope(text, answer)

    monkeypatch.setattr(engine_module, "open_envelope", noted)
    listed = [replace(RUNNING, replica_id=new_replica_id()) for _ in range(2_000)]
    for length, beside in ((1, False), (2_000, True)):
        async with machine_that(says(listed[:length])) as port:
            engine = engine_at(port)
            assert len(await engine.list_replicas()) == min(length, 100)
            await engine.close()
        assert (threads[-1] is not threading.main_thread()) == beside


async def test_a_list_is_no_longer_than_a_machine_can_have() -> None:
    listed = [json.loads(to_bytes(replace(RUNNING, replica_id=new_replica_id()))) for _ in range(2_501)]
    async with machine_that(says(listed)) as port:
        engine = engine_at(port)
        with pytest.raises(EngineError, match="2500"):
            await engine.list_replicas()
        await engine.close()


async def test_of_how_far_a_pull_has_come_only_the_last_word_is_read() -> None:
    told: list[PullProgress] = []
    progress = b"".join(
        to_wire(Frame(FrameKind.PROGRESS, to_bytes(PullProgress(one, 1_000)))) for one in range(1_000)
    )
    image = Image("sha256:" + "1" * 64, None, 1, "amd64", ())
    answer = to_wire(Frame(FrameKind.ANSWER, envelope(image)))
    async with machine_that(streams(progress + answer, 1)) as port:
        engine = engine_at(port, infrastructure="operator")
        found = await engine.ensure_image(ImageRequest("local/a:1", local=True), told.append)
        await engine.close()
    assert found.engine_ref == image.engine_ref
    assert told[-1].done_bytes == 999
    assert len(told) < 50, "a word for each frame"


async def test_a_body_in_very_many_pieces_is_given_up() -> None:
    progress = to_wire(Frame(FrameKind.PROGRESS, b"1"))
    pieces = b"".join(b"1\r\n" + progress[at : at + 1] + b"\r\n" for at in range(len(progress)))

    async def in_pieces(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + pieces * 5_000)
        await writer.drain()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(in_pieces, "127.0.0.1", 0)
    engine = engine_at(int(server.sockets[0].getsockname()[1]))
    async with asyncio.timeout(5):
        with pytest.raises(EngineError) as caught:
            async for _ in engine._connection.frames("watch", b"{}"):
                pass
    assert caught.value.code == connection.AWAY
    await engine.close()
    server.close()


async def test_words_between_pieces_are_given_up() -> None:
    """They are no content, so nobody who reads that would ever make the machine wait."""
    sent_bytes = 0

    async def endlessly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent_bytes
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;")
        with contextlib.suppress(ConnectionError):
            while True:
                writer.write(b"word" * 2**14)
                sent_bytes += 2**16
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(endlessly, "127.0.0.1", 0)
    engine = engine_at(int(server.sockets[0].getsockname()[1]))
    async with asyncio.timeout(20):
        with pytest.raises(EngineError) as caught:
            async for _ in engine._connection.frames("watch", b"{}"):
                pass
    assert caught.value.code == connection.AWAY
    assert sent_bytes < 2**25, "what the kernel holds, and little more"
    await engine.close()
    server.close()


@pytest.mark.long
async def test_output_that_is_broken_off_again_and_again_is_not_asked_for_as_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(output, "_FIRST_PAUSE_S", 0.001)
    asked = 0

    async def breaks_off(request: web.Request) -> web.StreamResponse:
        nonlocal asked
        asked += 1
        (line,) = pack_chunks([LogChunk(asked, LogStream.STDOUT, b"x", ends_line=True)])
        return await streams(to_wire(Frame(FrameKind.CHUNKS, line)), 1)(request)

    async with machine_that(breaks_off) as port:
        engine = engine_at(port)
        began_s = system_clock.monotonic()
        async for _ in engine.logs(HERE, 0):
            passed_s = system_clock.monotonic() - began_s
            if passed_s > 1.5:
                break
        await engine.close()
    assert asked <= 30 + passed_s + 1


async def test_output_in_frames_of_a_line_each_is_read_to_its_end() -> None:
    """As a replica prints that has little to say, and that fast."""
    lines = 20_000
    (empty,) = pack_chunks([LogChunk(1, LogStream.STDOUT, b"", ends_line=True)])
    frame = to_wire(Frame(FrameKind.CHUNKS, empty))
    end = to_wire(Frame(FrameKind.ANSWER, envelope()))

    async def in_pieces(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        writer.write((b"%x\r\n%b\r\n" % (len(frame), frame)) * lines)
        writer.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(end), end))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(in_pieces, "127.0.0.1", 0)
    engine = engine_at(int(server.sockets[0].getsockname()[1]))
    async with asyncio.timeout(20):
        assert sum([len(bundle) async for bundle in engine.logs(HERE, 0)]) == lines
    await engine.close()
    server.close()
