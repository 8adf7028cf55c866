"""Keyset pages: the cursor names the last item seen, so a page deep in the past costs what the first does."""

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Generic, TypeVar

from fastapi import Query
from pydantic import BaseModel

from moorage.kit.errors import FieldError, InvalidInputError

ItemT = TypeVar("ItemT")

DEFAULT_PAGE_SIZE = 50
MAX_PAGE_SIZE = 200


class Page(BaseModel, Generic[ItemT]):
    items: list[ItemT]
    next_cursor: str | None = None


@dataclass(frozen=True)
class Position:
    """Where a list that is ordered by (time, id) was left."""

    time: datetime
    id: str


@dataclass(frozen=True)
class PageRequest:
    limit: int
    after: Position | None


async def page_request(
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE_SIZE)] = DEFAULT_PAGE_SIZE,
    cursor: Annotated[str | None, Query(max_length=500)] = None,
) -> PageRequest:
    after = decode_cursor(cursor) if cursor is not None else None
    if after is not None and any("\ud800" <= character <= "\udfff" for character in after.id):
        raise _bad_cursor()  # half a surrogate pair: JSON can carry it, Postgres cannot
    return PageRequest(limit, after)


def page_of(
    rows: Sequence[ItemT], request: PageRequest, position: Callable[[ItemT], Position]
) -> Page[ItemT]:
    """`rows` holds one more than the limit when there is a next page."""
    shown = list(rows[: request.limit])
    more = len(rows) > request.limit
    return Page(items=shown, next_cursor=encode_cursor(position(shown[-1])) if more else None)


def encode_cursor(position: Position) -> str:
    return base64.urlsafe_b64encode(json.dumps([position.time.isoformat(), position.id]).encode()).decode()


def decode_cursor(cursor: str) -> Position:
    try:
        time, last_id = json.loads(base64.urlsafe_b64decode(cursor.encode()))
        aware = datetime.fromisoformat(time)
        # The first and last day there is, in a far time zone, have no time in UTC.
        position = Position(aware.astimezone(UTC), str(last_id))
    except (ValueError, TypeError, OverflowError, binascii.Error) as exc:
        raise _bad_cursor() from exc
    if aware.tzinfo is None or "\x00" in position.id:
        raise _bad_cursor()
    return position


def _bad_cursor() -> InvalidInputError:
    fields = (FieldError("cursor", "must be the next_cursor of an earlier page"),)
    return InvalidInputError("The cursor is not one that this API gave out.", fields=fields)
