"""Starts that fail are free, and therefore bounded: so many an hour for each slot of a container. Pure."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from moorage.containers.states import Reason
from moorage.containers.verdict import Verdict

WINDOW = timedelta(hours=1)
NOT_ITS_FAULT = (Reason.NODE_LOST, Reason.PORT_TAKEN, Reason.ENGINE_ERROR)
"""Ends that say nothing about the container itself."""


def start_again_at(failed_at: Sequence[datetime], per_hour: int) -> datetime | None:
    """When a slot that failed at these times (of the last hour) may start again; None: at once."""
    return None if len(failed_at) < per_hour else sorted(failed_at)[-per_hour] + WINDOW


def start_limit(per_hour: int, until: datetime) -> Verdict:
    return Verdict(
        Reason.START_LIMIT,
        f"It failed to start {per_hour} times within an hour. It may start again at {until:%H:%M:%S} UTC; "
        "use the time to mend what its logs say.",
    )
