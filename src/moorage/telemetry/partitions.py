"""Which days of a table that is divided by days have to be there, and which may go. Pure."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

DAYS_AHEAD = 1


@dataclass(frozen=True)
class PartitionPlan:
    create: tuple[date, ...]
    drop: tuple[date, ...]


def plan_partitions(existing: Collection[date], now: datetime, retention_days: int) -> PartitionPlan:
    """A day goes when its last line is `retention_days` old. With 7 days, the first line of a day is kept for
    almost 8: on the 10th at 00:00, all of the 2nd goes and all of the 3rd stays."""
    today = now.astimezone(UTC).date()
    wanted = (today + timedelta(days=days) for days in range(DAYS_AHEAD + 1))
    return PartitionPlan(
        create=tuple(day for day in wanted if day not in existing),
        drop=tuple(sorted(day for day in existing if day < today - timedelta(days=retention_days))),
    )
