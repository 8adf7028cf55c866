"""Where a reader of logs is: in a list that goes back in time, and in a tail that goes on. Pure."""

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from moorage.kit.errors import FieldError, InvalidInputError
from moorage.kit.pagination import Position

MAX_TAIL_CURSOR_CHARACTERS = 64 * 1024
MAX_SEQUENCE = 2**63 - 1


@dataclass(frozen=True)
class LinePosition:
    """A line in the newest-first order; no two lines of a container have the same."""

    time: datetime
    sequence: int
    replica_id: str


def to_page_position(position: LinePosition) -> Position:
    return Position(position.time, f"{position.sequence}.{position.replica_id}")


def from_page_position(position: Position) -> LinePosition:
    sequence, _, replica_id = position.id.partition(".")
    if not (sequence.isascii() and sequence.isdigit()) or int(sequence) > MAX_SEQUENCE or not replica_id:
        raise _not_ours("cursor", "must be the next_cursor of an earlier page")
    return LinePosition(position.time, int(sequence), replica_id)


@dataclass(frozen=True)
class TailPosition:
    """How far a tail has come in each replica. The order in which lines *arrive* is known within a replica
    only; a position by time would miss a line that is stored after a younger one of another replica."""

    as_of: datetime
    """The database's time. A replica that is not in the map and was finished before then was sent entirely,
    one that was not is new to this tail."""
    next_sequences: Mapping[str, int]


def encode_tail(position: TailPosition) -> str:
    plain = [position.as_of.isoformat(), position.next_sequences]
    return base64.urlsafe_b64encode(json.dumps(plain, separators=(",", ":")).encode()).decode()


def decode_tail(cursor: str) -> TailPosition:
    try:
        as_of, next_sequences = json.loads(base64.urlsafe_b64decode(cursor.encode()))
        position = TailPosition(
            datetime.fromisoformat(as_of),
            {str(replica_id): int(sequence) for replica_id, sequence in next_sequences.items()},
        )
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError, binascii.Error) as exc:
        raise _not_ours("Last-Event-ID", "must be the id of an event of this stream") from exc
    inside = all(0 <= sequence <= MAX_SEQUENCE for sequence in position.next_sequences.values())
    if position.as_of.tzinfo is None or not inside or any("\x00" in key for key in position.next_sequences):
        raise _not_ours("Last-Event-ID", "must be the id of an event of this stream")
    return position


def _not_ours(field: str, message: str) -> InvalidInputError:
    return InvalidInputError(
        "The cursor is not one that this API gave out.", fields=(FieldError(field, message),)
    )
