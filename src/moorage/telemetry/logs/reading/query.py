"""The filters of every route that reads logs, from the request's query."""

from dataclasses import replace
from datetime import UTC
from typing import Annotated

from fastapi import Depends, Query
from pydantic import AwareDatetime

from moorage.kit.errors import FieldError, InvalidInputError
from moorage.telemetry.logs.reading.repository import LogFilter
from moorage.telemetry.logs.streams import LineStream

_Time = Annotated[AwareDatetime | None, Query()]


async def _wanted(
    instance: Annotated[str | None, Query(pattern="^rep_[a-z2-7]{20}$")] = None,
    stream: LineStream | None = None,
    text: Annotated[str | None, Query(max_length=200)] = None,
    exclude: Annotated[str | None, Query(max_length=200)] = None,
) -> LogFilter:
    for name, words in (("text", text), ("exclude", exclude)):
        if words is not None and "\x00" in words:
            raise InvalidInputError(
                "No line contains NUL.", fields=(FieldError(name, "must not contain NUL"),)
            )
    return LogFilter(replica_id=instance, stream=stream, text=text, exclude=exclude)


async def _wanted_between(
    wanted: Annotated[LogFilter, Depends(_wanted)],
    from_time: Annotated[_Time, Query(alias="from")] = None,
    to_time: Annotated[_Time, Query(alias="to")] = None,
) -> LogFilter:
    try:
        from_utc = from_time.astimezone(UTC) if from_time is not None else None
        to_utc = to_time.astimezone(UTC) if to_time is not None else None
    except OverflowError as exc:  # the first or last day there is, in a far time zone
        raise InvalidInputError("from or to is out of range.") from exc
    return replace(wanted, from_time=from_utc, to_time=to_utc)


Wanted = Annotated[LogFilter, Depends(_wanted)]
"""For what goes on from now."""
WantedBetween = Annotated[LogFilter, Depends(_wanted_between)]
"""`from` is inclusive, `to` exclusive; `text` is found anywhere, and `exclude` nowhere, whatever the case."""
