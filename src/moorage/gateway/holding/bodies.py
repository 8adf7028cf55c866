"""The body of a request that is held, as it arrives. Pure.

Every packet of a client may be a piece, so a piece costs what is in it and never what came before: the loop that reads bodies also
applies routes and ends revoked keys, for everybody.
"""

import json
import re
from dataclasses import dataclass, field

from moorage.gateway.holding.messages import HEAD_END, Head

_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[^\r\n]{0,200}\r\n")
_CHUNK_SIZE_BYTES_MAX = 15 + 200 + 2
CHUNKS_MAX = 10_000
"""Of a body that we take apart. HAProxy joins what it reads, so only a client that sends next to nothing in each packet has more;
its body is passed on without our knowing where it ends."""

PARSED_BYTES_MAX = 2**20
"""A longer one is not looked into: what JSON makes of it may be twenty times as large, and nothing else happens meanwhile."""


@dataclass
class Body:
    head: Head
    raw: bytearray = field(default_factory=bytearray)
    """Byte for byte as it came."""
    is_whole: bool = field(init=False)
    _next_chunk_at: int = field(init=False, default=0)
    """In `raw`, or beyond its end where that chunk has not arrived."""
    _chunks: int = field(init=False, default=0)
    _trailers_at: int | None = field(init=False, default=None)
    """Once the last chunk is there: from where on the end of what follows it is looked for."""

    def __post_init__(self) -> None:
        self.is_whole = self._is_whole()

    def add(self, piece: bytes) -> None:
        self.raw += piece
        self.is_whole = self.is_whole or self._is_whole()

    def forget(self) -> None:
        """It will not be sent again."""
        self.raw.clear()

    def asks_for_stream(self) -> bool:
        """`"stream": true` in what OpenAI clients send. False while it is not whole."""
        if (
            not self.is_whole
            or len(self.raw) > PARSED_BYTES_MAX
            or b'"stream"' not in (plain := self._plain())
        ):
            return False
        try:
            asked = json.loads(plain)
        except (ValueError, RecursionError):
            return False
        return isinstance(asked, dict) and asked.get("stream") is True

    def _is_whole(self) -> bool:
        if not self.head.is_chunked:
            return len(self.raw) >= (self.head.body_bytes or 0)
        if self._trailers_at is None:
            self._step_over_chunks()
        return self._trailers_at is not None and self._trailers_end()

    def _step_over_chunks(self) -> None:
        while self._next_chunk_at < len(self.raw) and self._chunks < CHUNKS_MAX:
            line = _CHUNK_SIZE.match(self.raw, self._next_chunk_at)
            if line is None:
                if len(self.raw) - self._next_chunk_at >= _CHUNK_SIZE_BYTES_MAX:
                    self._chunks = CHUNKS_MAX  # These are no chunks, whatever else arrives.
                return
            size = int(line[1], 16)
            if size == 0:
                # The end of this line may be half of the blank one that ends it all.
                self._trailers_at = line.end() - 2
                return
            self._next_chunk_at = line.end() + size + 2
            self._chunks += 1

    def _trailers_end(self) -> bool:
        assert self._trailers_at is not None, "the last chunk is there"
        if self.raw.find(HEAD_END, self._trailers_at) >= 0:
            return True
        self._trailers_at = max(self._trailers_at, len(self.raw) - len(HEAD_END) + 1)
        return False

    def _plain(self) -> bytes:
        """Without the marks of its chunks. Of one that is whole."""
        if not self.head.is_chunked:
            return bytes(self.raw)
        parts: list[bytearray] = []
        at = 0
        while (line := _CHUNK_SIZE.match(self.raw, at)) is not None and (size := int(line[1], 16)):
            parts.append(self.raw[line.end() : line.end() + size])
            at = line.end() + size + 2
        return b"".join(parts)
