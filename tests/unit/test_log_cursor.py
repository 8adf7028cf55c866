from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.engines.base import LogChunk, LogStream
from moorage.telemetry.logs.allowance import Allowance
from moorage.telemetry.logs.cursor import (
    DROPPED,
    FORGOTTEN,
    STREAMS_APART_NS,
    Cursor,
    LineAssembler,
    RawLine,
    StreamPosition,
)

OUT, ERR = LogStream.STDOUT, LogStream.STDERR
LIMIT = 100


def chunk(time_ns: int, data: bytes, stream: LogStream = OUT, *, ends: bool = True) -> LogChunk:
    return LogChunk(time_ns, stream, data, ends)


def read(
    chunks: Sequence[LogChunk],
    cursor: Cursor,
    stop_after: int | None = None,
    allowance: Allowance | None = None,
) -> tuple[list[RawLine], Cursor]:
    """What an engine gives from the cursor on, up to the break."""
    assembler = LineAssembler(cursor, LIMIT, allowance or Allowance())
    given_chunks = [one for one in chunks if one.time_ns >= cursor.since_ns]
    lines = assembler.feed(given_chunks[:stop_after])
    if stop_after is None:
        lines += assembler.end()
    return lines, assembler.cursor()


def test_lines_get_their_sequence_in_order_of_arrival() -> None:
    lines, _ = read([chunk(1, b"a"), chunk(1, b"b", ERR), chunk(2, b"c")], Cursor())
    assert [(line.sequence, line.stream, line.head) for line in lines] == [
        (0, OUT, b"a"),
        (1, ERR, b"b"),
        (2, OUT, b"c"),
    ]


def test_parts_are_joined_and_the_other_stream_goes_on() -> None:
    chunks = [
        chunk(5, b"long ", ends=False),
        chunk(6, b"other", ERR),
        chunk(5, b"line", ends=True),
        chunk(7, b"no end", ends=False),
    ]
    lines, _ = read(chunks, Cursor())
    assert [(line.time_ns, line.head) for line in lines] == [(6, b"other"), (5, b"long line"), (7, b"no end")]


def test_only_the_head_of_a_long_line_is_held() -> None:
    parts = [chunk(5, b"x" * 60, ends=False) for _ in range(1000)] + [chunk(5, b"y")]
    lines, _ = read(parts, Cursor())
    assert [(len(line.head), line.total_bytes) for line in lines] == [(LIMIT, 60_001)]


def test_nul_is_taken_out() -> None:
    lines, _ = read([chunk(1, b"a\x00b\x00")], Cursor())
    assert [(line.head, line.total_bytes) for line in lines] == [(b"ab", 2)]


def test_the_cursor_stays_before_an_open_line() -> None:
    _, cursor = read([chunk(1, b"a"), chunk(5, b"long", ends=False), chunk(6, b"b", ERR)], Cursor(), 3)
    assert cursor.positions == {OUT: StreamPosition(1, 1), ERR: StreamPosition(6, 1)}
    assert cursor.since_ns <= 5


@pytest.mark.parametrize("stream_that_talks", [OUT, ERR])
def test_a_silent_stream_does_not_keep_the_cursor_back(stream_that_talks: LogStream) -> None:
    hour_ns = 3600 * 10**9
    silent = ERR if stream_that_talks is OUT else OUT
    chunks = [chunk(1, b"once", silent), chunk(hour_ns, b"later", stream_that_talks)]
    _, cursor = read(chunks, Cursor())
    assert cursor.since_ns == hour_ns - STREAMS_APART_NS


@st.composite
def output(draw: st.DrawFn) -> list[LogChunk]:
    """Within a stream times never fall and the parts of a line share that of its first, however late they are;
    between the streams a chunk may arrive after a later one, by no more than they can be apart."""
    now_ns, chunks = STREAMS_APART_NS, list[LogChunk]()
    last_ns, open_ns = dict.fromkeys(LogStream, 0), dict[LogStream, int]()
    for number in range(draw(st.integers(0, 25))):
        now_ns += draw(st.sampled_from([0, 0, 1, 3 * STREAMS_APART_NS]))
        stream, ends = draw(st.sampled_from(LogStream)), draw(st.booleans())
        late_ns = draw(st.sampled_from([0, 0, 1, STREAMS_APART_NS]))
        time_ns = open_ns.pop(stream, None) or max(last_ns[stream], now_ns - late_ns)
        if not ends:
            open_ns[stream] = time_ns
        last_ns[stream] = time_ns
        chunks.append(chunk(time_ns, b"%d" % number, stream, ends=ends))
    return chunks


@given(output(), st.lists(st.integers(0, 30), max_size=6))
def test_breaks_lose_and_double_nothing(chunks: list[LogChunk], breaks: list[int]) -> None:
    expected, _ = read(chunks, Cursor())
    cursor, found = Cursor(), list[RawLine]()
    for stop_after in breaks:
        lines, cursor = read(chunks, cursor, stop_after)
        found += lines
    lines, cursor = read(chunks, cursor)
    found += lines
    assert [line.sequence for line in found] == list(range(len(found)))
    for stream in LogStream:
        assert [(line.time_ns, line.head) for line in found if line.stream is stream] == [
            (line.time_ns, line.head) for line in expected if line.stream is stream
        ]
    assert read(chunks, cursor)[0] == []


def test_what_the_engine_forgot_is_said() -> None:
    chunks = [chunk(number, b"%d" % number, OUT if number % 2 else ERR) for number in range(10, 20)]
    _, cursor = read(chunks, Cursor(), stop_after=6)
    assert [line.head for line in read(chunks, cursor)[0]] == [b"16", b"17", b"18", b"19"]
    later, cursor = read(chunks[8:], cursor)
    assert [(line.sequence, line.stream, line.head) for line in later] == [
        (6, None, FORGOTTEN),
        (7, ERR, b"18"),
        (8, None, FORGOTTEN),
        (9, OUT, b"19"),
    ]
    assert read(chunks[8:], cursor)[0] == []


def test_a_stream_that_was_silent_for_long_misses_nothing() -> None:
    hour_ns = 3600 * 10**9
    chunks = [chunk(1, b"once", ERR), *(chunk(hour_ns * number, b"on", OUT) for number in range(1, 9))]
    _, cursor = read(chunks, Cursor(), stop_after=5)
    again, _ = read([*chunks, chunk(hour_ns * 10, b"again", ERR)], cursor)
    assert [line.head for line in again] == [b"on"] * 4 + [b"again"]


def test_what_is_dropped_is_counted_where_it_is_missing() -> None:
    second_ns = 10**9
    chunks = [chunk(second_ns * (100 + number // 10), b"%d" % number) for number in range(100)]
    allowance = Allowance(lines_per_s=2, burst_lines=4)
    lines, cursor = read(chunks, Cursor(), allowance=allowance)
    kept = [line.head for line in lines]
    # Ten lines a second: four at once, then two of each second in which it is open.
    assert kept[:8] == [b"0", b"1", b"2", b"3", DROPPED % 6, b"10", b"11", DROPPED % 8]
    dropped = sum(int(line.head.split()[0]) for line in lines if line.stream is None)
    assert dropped + sum(line.stream is not None for line in lines) == 100
    assert [line.sequence for line in lines] == list(range(len(lines)))
    assert read(chunks, cursor)[0] == []


@given(st.lists(st.integers(1, 40), max_size=8), st.integers(1, 5), st.integers(1, 20))
def test_kept_and_dropped_add_up_across_breaks(breaks: list[int], rate: int, burst: int) -> None:
    """A reader stores, and so moves its cursor, only what it was given; a break may come anywhere."""
    chunks = [chunk(10**9 + 10**8 * number, b"%d" % number) for number in range(200)]
    cursor, kept = Cursor(), list[RawLine]()
    for size in (*breaks, len(chunks)):
        assembler = LineAssembler(cursor, LIMIT, Allowance(rate, burst))
        ahead = [one for one in chunks if one.time_ns >= cursor.since_ns]
        lines = assembler.feed(ahead[: size + 1])
        if lines or size == len(chunks):
            lines += assembler.tell_dropped()
            kept += lines
            cursor = assembler.cursor()
    dropped = sum(int(line.head.split()[0]) for line in kept if line.stream is None)
    numbers = [int(line.head) for line in kept if line.stream is not None]
    assert numbers == sorted(set(numbers))
    assert dropped + len(numbers) == 200
