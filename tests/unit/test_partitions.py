from datetime import UTC, date, datetime

import pytest

from moorage.telemetry.partitions import plan_partitions


@pytest.mark.parametrize(
    ("now", "create", "drop"),
    [
        # The last line of the 2nd was written just before the 3rd; on the 9th at 24:00 it is 7 days old.
        (datetime(2026, 3, 9, 23, 59, tzinfo=UTC), (date(2026, 3, 10),), ()),
        (
            datetime(2026, 3, 10, 0, 0, tzinfo=UTC),
            (date(2026, 3, 10), date(2026, 3, 11)),
            (date(2026, 3, 2),),
        ),
        (
            datetime(2026, 3, 11, 12, 0, tzinfo=UTC),
            (date(2026, 3, 11), date(2026, 3, 12)),
            (date(2026, 3, 2), date(2026, 3, 3)),
        ),
        (
            datetime.fromisoformat("2026-03-09T20:00:00-05:00"),
            (date(2026, 3, 10), date(2026, 3, 11)),
            (date(2026, 3, 2),),
        ),
    ],
)
def test_days(now: datetime, create: tuple[date, ...], drop: tuple[date, ...]) -> None:
    existing = {date(2026, 3, day) for day in range(2, 10)}
    plan = plan_partitions(existing, now, retention_days=7)
    assert (plan.create, plan.drop) == (create, drop)
