"""Times that somebody sends."""

from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime


def _in_utc(time: datetime) -> datetime:
    try:
        return time.astimezone(UTC)
    except OverflowError as exc:
        raise ValueError("must be a time between the years 1 and 9999 in UTC, too") from exc


Moment = Annotated[AwareDatetime, AfterValidator(_in_utc)]
"""In UTC, so that the database has it too: the last day there is, in a far time zone, is beyond it."""
