"""How long a slot waits after failures before it gets another replica. Pure."""

from datetime import datetime, timedelta

from moorage.containers.start_limit import AllowanceSpent, start_again_at
from moorage.containers.views import ContainerView

FIRST_BACKOFF_S = 1.0
LONGEST_BACKOFF_S = 60.0


def backoff_left_s(container: ContainerView, slot: int, now: datetime) -> float:
    """1 s after the first failure of a slot, doubling to 60 s; 0 when it may start."""
    moments = []
    ends = [ended_at for failed_slot, ended_at in container.recent_failures if failed_slot == slot]
    if ends:
        pause_s = min(FIRST_BACKOFF_S * 2.0 ** (len(ends) - 1), LONGEST_BACKOFF_S)
        moments.append(max(ends) + timedelta(seconds=pause_s))
    limited_until = may_start_at(container, slot)
    if limited_until is not None:
        moments.append(limited_until)
    return (max(moments) - now).total_seconds() if moments else 0.0


def may_start_at(container: ContainerView, slot: int) -> datetime | None:
    if (spent := spent_for(container, slot)) is not None:
        return spent.until
    starts = [ended_at for failed_slot, ended_at in container.failed_starts if failed_slot == slot]
    return start_again_at(starts, container.failed_starts_per_hour)


def spent_for(container: ContainerView, slot: int) -> AllowanceSpent | None:
    spent = container.allowance_spent
    return spent if spent is not None and slot in spent.slots else None
