"""Starts that fail are free, and therefore bounded: so many an hour for each slot of a container, and so much time of
each organization a day. Each start keeps the whole installation busy for a moment, so those that somebody asks for have a
pace. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from moorage.containers.states import Reason
from moorage.containers.verdict import Verdict
from moorage.kit.money import format_usd

WINDOW = timedelta(hours=1)
PACE = timedelta(minutes=1)
NOT_ITS_FAULT = (
    Reason.NODE_LOST,
    Reason.MACHINE_RECLAIMED,
    Reason.PORT_TAKEN,
    Reason.ENGINE_ERROR,
    Reason.GPU_LOST,
    Reason.GPU_BUSY,
)
"""Ends that say nothing about the container itself."""


def start_again_at(failed_at: Sequence[datetime], per_hour: int) -> datetime | None:
    """When a slot that failed at these times (of the last hour) may start again; None: at once."""
    return None if len(failed_at) < per_hour else sorted(failed_at)[-per_hour] + WINDOW


def start_limit(per_hour: int, until: datetime) -> Verdict:
    return Verdict(
        Reason.START_LIMIT,
        f"It failed to start {per_hour} times within an hour. It may start again at {until:%H:%M:%S} UTC. "
        "Meanwhile fix what its logs show.",
    )


def wait_for_pace_s(ages_s: Sequence[float], per_minute: int) -> int | None:
    """How long the next start of a container waits, of whose starts these are as old; None: not at all."""
    within = sorted(age_s for age_s in ages_s if age_s < PACE.total_seconds())
    if len(within) < per_minute:
        return None
    return max(1, math.ceil(PACE.total_seconds() - within[per_minute - 1]))


@dataclass(frozen=True)
class AllowanceSpent:
    """The organization has used the time that the day has for starts that come to nothing."""

    until: datetime
    verdict: Verdict
    slots: frozenset[int] = frozenset()
    """Of a container: those that nobody has paid for. Nothing starts in them before then."""


def allowance_spent(used_microusd: int, per_day_microusd: int, now: datetime) -> AllowanceSpent | None:
    """None while there is some left."""
    if used_microusd < per_day_microusd:
        return None
    midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    message = (
        f"Failed starts have used up this organization's daily allowance ({format_usd(per_day_microusd)} at the replicas' "
        f"price). Replicas can start again at {midnight:%Y-%m-%d %H:%M} UTC, when the next day begins. Meanwhile fix what "
        "the logs show, or ask the operator."
    )
    return AllowanceSpent(midnight, Verdict(Reason.START_LIMIT, message))
