"""Since when all gateways can say what was asked of a container. Pure.

A second without a sample is a second without a request only while its gateway reports. One that is silent may serve requests that
nobody hears of, so while one is, nothing counts as idle; and what happened while one was, nobody knows, so idleness begins anew.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

SILENT_AFTER = timedelta(seconds=5)


@dataclass(frozen=True)
class Reporting:
    """One gateway's last stretch of reports without a gap; None where it has made none."""

    since: datetime | None
    until: datetime | None


@dataclass(frozen=True)
class Known:
    """In this time every gateway reported every second."""

    since: datetime
    until: datetime


def known_by_all(gateways: Sequence[Reporting], now: datetime) -> Known | None:
    """None: one of them is silent, or there is none."""
    stretches = [
        (one.since, one.until) for one in gateways if one.since is not None and one.until is not None
    ]
    if not stretches or len(stretches) < len(gateways):
        return None
    until = min(until for _, until in stretches)
    return Known(max(since for since, _ in stretches), until) if now - until <= SILENT_AFTER else None
