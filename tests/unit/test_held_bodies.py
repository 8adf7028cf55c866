"""What whoever holds a request makes of its body while it arrives."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.gateway.holding import bodies
from moorage.gateway.holding.bodies import CHUNKS_MAX, PARSED_BYTES_MAX, Body
from moorage.gateway.holding.messages import Head, parse_head

CHUNKED = "Transfer-Encoding: chunked"


def head(*headers: str) -> Head:
    return parse_head("\r\n".join(["POST /v1/x HTTP/1.1", "Host: a", *headers]).encode() + b"\r\n\r\n")


def in_chunks(*pieces: bytes, trailers: bytes = b"") -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n%s\r\n" % trailers


def arrived(raw: bytes, *headers: str) -> Body:
    body = Body(head(*headers))
    body.add(raw)
    return body


@pytest.mark.parametrize(
    ("plain", "streams"),
    [
        (b'{"messages": [], "stream": true}', True),
        (b'{"messages": [{"content": "\\"stream\\": true"}]}', False),
        (b'{"stream": false}', False),
        (b'{"stream": "true"}', False),
        (b'[{"stream": true}]', False),
        (b'{"stream": true', False),
        (b"", False),
    ],
)
def test_what_is_a_stream(plain: bytes, streams: bool) -> None:
    assert arrived(plain, f"Content-Length: {len(plain)}").asks_for_stream() is streams
    chunked = arrived(in_chunks(*[plain] if plain else []), CHUNKED)
    assert chunked.is_whole
    assert chunked.asks_for_stream() is streams


def test_without_a_body_it_is_whole_at_once() -> None:
    assert Body(head()).is_whole
    assert not Body(head("Content-Length: 1")).is_whole
    assert not Body(head(CHUNKED)).is_whole


@given(
    st.lists(st.binary(min_size=1, max_size=50), max_size=5),
    st.sampled_from([b"", b"A: b\r\n", b"A: b\r\nC: d\r\n"]),
    st.integers(1, 7),
)
def test_chunks_are_whole_with_their_last_byte_however_they_arrive(
    pieces: list[bytes], trailers: bytes, step: int
) -> None:
    """What is left of one that is taken for whole would be taken for a client that leaves."""
    plain = [b'{"stream": true, "a": "', *(piece.hex().encode() for piece in pieces), b'"}']
    raw = in_chunks(*plain, trailers=trailers)
    body = Body(head(CHUNKED))
    for begin in range(0, len(raw), step):
        assert not body.is_whole
        body.add(raw[begin : begin + step])
    assert body.is_whole
    assert body.asks_for_stream()
    assert body.raw == raw


class CountedMatches:
    """A pattern that counts how often it is asked."""

    def __init__(self, pattern: re.Pattern[bytes]) -> None:
        self.pattern = pattern
        self.count = 0

    def match(self, raw: bytes, at: int) -> re.Match[bytes] | None:
        self.count += 1
        return self.pattern.match(raw, at)


def test_the_work_grows_with_what_arrives_and_not_with_its_square(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = CountedMatches(bodies._CHUNK_SIZE)
    monkeypatch.setattr(bodies, "_CHUNK_SIZE", counted)
    body = Body(head(CHUNKED))
    for _ in range(5000):
        body.add(b"1\r\na\r\n")
    body.add(in_chunks())
    assert body.is_whole
    assert counted.count == 5001


def test_a_body_of_endless_small_chunks_and_one_without_chunks_are_not_taken_apart() -> None:
    assert arrived(in_chunks(*[b"a"] * (CHUNKS_MAX - 1)), CHUNKED).is_whole
    assert not arrived(in_chunks(*[b"a"] * CHUNKS_MAX), CHUNKED).is_whole
    no_chunks = arrived(b"x" * 1000, CHUNKED)
    no_chunks.add(in_chunks())
    assert not no_chunks.is_whole
    assert not no_chunks.asks_for_stream()


def test_a_long_body_is_whole_and_not_looked_into() -> None:
    plain = b'{"stream": true}'.ljust(PARSED_BYTES_MAX)
    assert arrived(plain, f"Content-Length: {len(plain)}").asks_for_stream()
    longer = arrived(plain + b" ", f"Content-Length: {len(plain) + 1}")
    assert longer.is_whole
    assert not longer.asks_for_stream()
