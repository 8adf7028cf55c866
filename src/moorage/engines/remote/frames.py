"""The wire format of streams: frames, one after the other. Pure.

    kind 1 | length 4, big-endian | payload

Every stream ends with an `ANSWER`: all of it was given, or why it was not. One that just ends was cut. `IDLE` says that somebody
is still there. Output of a replica is not JSON, because it is any bytes, and much of it:

    time 8 | stream and line end 1 | length 4 | data        as many as fit into one payload
"""

from collections.abc import Iterator, Sequence
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from moorage.engines.base import LogChunk, LogStream
from moorage.engines.remote.codec import WireError

MOST_PAYLOAD_BYTES = 2 * 2**20
MOST_WORDS_BYTES = 1024
"""Of a hint or of how far a pull has come, which are read one by one."""
MOST_ANSWER_BYTES = 64 * 2**10
CHUNKS_AT_A_TIME = 1000
"""What takes them further does so in one go: a payload may be of 160,000 pieces without a byte."""
_FULL_PAYLOAD_BYTES = 256 * 2**10
_HEADER = Struct(">BI")
_CHUNK = Struct(">QBI")
_IS_STDERR, _ENDS_LINE = 1, 2


class FrameKind(IntEnum):
    IDLE = 0
    CHUNKS = 1
    HINT = 2
    LOOK_AGAIN = 3
    """What was missed cannot be told any more."""
    PROGRESS = 4
    ANSWER = 5


_KINDS = {kind.value: kind for kind in FrameKind}
_MOST_BYTES = dict.fromkeys(FrameKind, MOST_WORDS_BYTES) | {
    FrameKind.CHUNKS: MOST_PAYLOAD_BYTES,
    FrameKind.ANSWER: MOST_ANSWER_BYTES,
}


class Frame(NamedTuple):
    kind: FrameKind
    payload: bytes = b""


def to_wire(frame: Frame) -> bytes:
    assert len(frame.payload) <= MOST_PAYLOAD_BYTES, "payloads are cut before they come here"
    return _HEADER.pack(frame.kind, len(frame.payload)) + frame.payload


class FrameParser:
    """From bytes as they arrive to whole frames; never holds more than one of them, and what came with it."""

    def __init__(self) -> None:
        self._held = bytearray()
        """It grows in place: one that is put together anew for each part costs a frame's size for every byte that comes."""

    def feed(self, data: bytes) -> list[Frame]:
        self._held += data
        frames, at = [], 0
        with memoryview(self._held) as held:
            while (start := at + _HEADER.size) <= len(held):
                kind, length = _HEADER.unpack_from(held, at)
                if kind not in _KINDS:
                    raise WireError(f"there are no frames of kind {kind}")
                if length > _MOST_BYTES[_KINDS[kind]]:
                    raise WireError(f"a frame of {length} bytes is too long")
                if start + length > len(held):
                    break
                at = start + length
                frames.append(Frame(_KINDS[kind], bytes(held[start:at])))
        del self._held[:at]
        return frames


def pack_chunks(chunks: Sequence[LogChunk]) -> Iterator[bytes]:
    """Payloads of a good size; a chunk is never cut."""
    parts: list[bytes] = []
    size_bytes = 0
    for time_ns, stream, data, ends_line in chunks:
        if parts and size_bytes + len(data) > _FULL_PAYLOAD_BYTES:
            yield b"".join(parts)
            parts, size_bytes = [], 0
        signs = _IS_STDERR * (stream is LogStream.STDERR) | _ENDS_LINE * ends_line
        parts += (_CHUNK.pack(time_ns, signs, len(data)), data)
        size_bytes += _CHUNK.size + len(data)
    if parts:
        yield b"".join(parts)


def unpack_chunks(payload: bytes, latest_ns: int) -> Iterator[list[LogChunk]]:
    """So many at a time. Nothing is from after `latest_ns`. Raises `WireError`."""
    chunks: list[LogChunk] = []
    at, end = 0, len(payload)
    while at < end:
        if len(chunks) == CHUNKS_AT_A_TIME:
            yield chunks
            chunks = []
        start = at + _CHUNK.size
        if start > end:
            raise WireError("a piece of output breaks off")
        time_ns, signs, length = _CHUNK.unpack_from(payload, at)
        at = start + length
        if at > end or signs > _IS_STDERR | _ENDS_LINE:
            raise WireError("a piece of output breaks off")
        if time_ns > latest_ns:
            raise WireError("there is output from the future")
        stream = LogStream.STDERR if signs & _IS_STDERR else LogStream.STDOUT
        chunks.append(LogChunk(time_ns, stream, payload[start:at], bool(signs & _ENDS_LINE)))
    if chunks:
        yield chunks
