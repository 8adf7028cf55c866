"""Output is kept byte for byte, however long its lines are."""

from dataclasses import replace

import pytest

from moorage.engines.base import LogChunk, LogStream
from moorage.engines.docker.logs import PART_BYTES, FrameParser, LogPosition
from moorage.kit.errors import EngineError
from tests.engine.conftest import DockerWorld
from tests.engine.contract import logs_of, spec_of


async def test_long_lines_and_bad_bytes(docker_world: DockerWorld) -> None:
    script = (
        'i=0; while [ $i -lt 4000 ]; do printf "aä€aä€"; i=$((i+1)); done; echo; '  # 48,000 bytes in 4 parts
        "head -c 16384 /dev/zero; echo; echo; "  # exactly one full part
        'printf "bad\\377byte\\n"; printf "no newline"'
    )
    spec = replace(await spec_of(docker_world, "prints"), command=("/bin/sh", "-c", script))
    started = await docker_world.engine.start(spec)
    chunks = await logs_of(docker_world, started.engine_id)
    assert {chunk.stream for chunk in chunks} == {LogStream.STDOUT}
    lines, line = [], b""
    for chunk in chunks:
        line += chunk.data
        if chunk.ends_line:
            lines.append(line)
            line = b""
    assert line == b""
    assert lines == [
        "aä€".encode() * 8000,
        bytes(PART_BYTES),
        b"",
        b"bad\xffbyte",
        b"no newline",
    ]


@pytest.mark.long
async def test_many_lines_none_lost(docker_world: DockerWorld) -> None:
    script = "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done"
    spec = replace(await spec_of(docker_world, "prints"), command=("/bin/sh", "-c", script))
    started = await docker_world.engine.start(spec)
    chunks = await logs_of(docker_world, started.engine_id)
    assert [chunk.data for chunk in chunks] == [f"line {number}".encode() for number in range(20000)]
    # Resuming at any line's time gives everything from its first line on, and nothing twice.
    middle = chunks[10000].time_ns
    assert await logs_of(docker_world, started.engine_id, middle) == [
        chunk for chunk in chunks if chunk.time_ns >= middle
    ]


def test_position_continues_where_each_stream_was() -> None:
    def chunk(time_ns: int, stream: LogStream, data: bytes) -> LogChunk:
        return LogChunk(time_ns, stream, data, ends_line=True)

    out, err = LogStream.STDOUT, LogStream.STDERR
    whole = [
        chunk(5, out, b"a"),
        chunk(5, out, b"b"),
        chunk(4, err, b"c"),
        chunk(5, out, b"d"),
        chunk(5, err, b"e"),
    ]
    for read in range(len(whole) + 1):
        position = LogPosition(0)
        position.advance(whole[: read // 2])
        position.advance(whole[read // 2 : read])
        again = [one for one in whole if one.time_ns >= position.resume_at_ns()]
        assert [one for one in again if position.is_new(one)] == whole[read:]


def frame(stream_id: int, payload: bytes) -> bytes:
    return bytes([stream_id, 0, 0, 0]) + len(payload).to_bytes(4, "big") + payload


def test_frames_cut_anywhere() -> None:
    data = (
        frame(2, b"2026-01-02T03:04:05.000000006Z hello\n")
        + frame(1, b"2026-01-02T03:04:05.5Z \n")
        + frame(1, b"2026-01-02T03:04:06Z " + b"x" * PART_BYTES)
        + frame(1, b"2026-01-02T03:04:06Z no line end")
    )
    base_ns = 1767323045_000000000
    out, err = LogStream.STDOUT, LogStream.STDERR
    expected = [
        LogChunk(base_ns + 6, err, b"hello", True),
        LogChunk(base_ns + 500_000_000, out, b"", True),
        LogChunk(base_ns + 1_000_000_000, out, b"x" * PART_BYTES, False),
        LogChunk(base_ns + 1_000_000_000, out, b"no line end", True),
    ]
    for size in (1, 7, 8, 9, 50, 16_000, len(data)):
        parser = FrameParser()
        parts = [data[at : at + size] for at in range(0, len(data), size)]
        assert [chunk for part in parts for chunk in parser.feed(part)] == expected
        assert not parser.is_inside_a_frame
        parser.feed(data[:-1])
        assert parser.is_inside_a_frame


def test_an_engine_that_breaks_off_is_quoted() -> None:
    words = b"Error grabbing logs: log message is too large (808464432 > 1000000)\n"
    with pytest.raises(EngineError, match="broke off: Error grabbing logs: log message is too large"):
        FrameParser().feed(b"\x03\x00\x00\x00" + len(words).to_bytes(4, "big") + words)


@pytest.mark.parametrize(
    "data",
    [
        frame(1, b""),
        frame(1, b"nospace"),
        frame(1, b"yesterday at noon"),
        frame(1, b"2026-01-02T03:04:05.xZ hello"),
        frame(3, b"2026-01-02T03:04:05Z hello"),
        b"\x01\x00\x00\x00\xff\xff\xff\xff",
    ],
)
def test_frame_that_cannot_be_read(data: bytes) -> None:
    with pytest.raises(EngineError):
        FrameParser().feed(data)
