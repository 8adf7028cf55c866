"""Lines in the binary format of Postgres' COPY. Pure.

Written here because a general encoder looks at every value of every line, while of a batch only four values differ
from line to line. A row is its number of fields, and each field its length and its bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct

from moorage.engines.base import LOCAL_ENGINE
from moorage.telemetry.logs.cursor import RawLine
from moorage.telemetry.logs.streams import NUMBER_OF

COLUMNS = ("replica_id", "container_id", "project_id", "sequence", "time", "stream", "text")
_BEGIN = b"PGCOPY\n\xff\r\n\x00" + bytes(8)
_END = b"\xff\xff"
_FIELD_COUNT = len(COLUMNS).to_bytes(2, "big")
_NUMBERS = Struct(">iqiqihi")
"""Sequence, time and stream, each behind its length, and the length of the text."""
_POSTGRES_EPOCH_US = 946_684_800_000_000
"""2000-01-01."""


@dataclass(frozen=True)
class Source:
    """A replica whose output is not all stored yet."""

    replica_id: str
    container_id: str
    project_id: str
    organization_id: str
    engine_id: str
    engine: str = LOCAL_ENGINE


def binary_rows(source: Source, lines: Sequence[RawLine], texts: Sequence[str]) -> bytes:
    """`texts` is what is shown of each line."""
    same = _FIELD_COUNT + b"".join(
        len(value).to_bytes(4, "big") + value
        for value in (source.replica_id.encode(), source.container_id.encode(), source.project_id.encode())
    )
    numbers = _NUMBERS.pack
    parts = [_BEGIN]
    for (sequence, time_ns, stream, _, _), text in zip(lines, texts, strict=True):
        encoded = text.encode()
        time_us = time_ns // 1000 - _POSTGRES_EPOCH_US
        stream_number = NUMBER_OF[stream]
        parts += (same, numbers(8, sequence, 8, time_us, 2, stream_number, len(encoded)), encoded)
    parts.append(_END)
    return b"".join(parts)
