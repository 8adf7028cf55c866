"""Whom to tell what about money, and not twice. Pure."""

from datetime import datetime, timedelta

from moorage.ledger.spending import Limit

ALERT_PERCENTS = (50, 80, 100)
LIMIT_REACHED_PERCENT = ALERT_PERCENTS[-1]
WARNING_HOURS = (24, 1)


def due_alert(limit: Limit, told_percent: int) -> int | None:
    """The highest share of a limit that is spent, if nobody was told of it or a higher one in this month.

    One mail where several are passed at once: who lowered the limit does not want three.
    """
    spent = limit.spent.bought_microusd * 100
    passed = [percent for percent in ALERT_PERCENTS if spent >= percent * limit.limit_microusd]
    return passed[-1] if passed and passed[-1] > told_percent else None


def due_warning(runs_out_at: datetime | None, now: datetime, told_h: int | None) -> int | None:
    """Of the hours within which the credit ends, the fewest; `told_h` is the last warning since money came in."""
    if runs_out_at is None:
        return None
    passed = [hours for hours in WARNING_HOURS if runs_out_at - now <= timedelta(hours=hours)]
    return passed[-1] if passed and (told_h is None or passed[-1] < told_h) else None
