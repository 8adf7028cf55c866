"""Durations and times as people type and read them. Pure: `now` is an argument."""

import re
from datetime import UTC, datetime, timedelta

from moorage_cli.errors import UsageError

_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_DURATION = re.compile(r"(?:[0-9]{1,9}[smhdw])+")
_PART = re.compile(r"([0-9]+)([smhdw])")


def parse_duration(text: str) -> timedelta | None:
    """`90s`, `10m`, `1h30m`, `30d`; None when it is not a duration."""
    if not _DURATION.fullmatch(text):
        return None
    return timedelta(seconds=sum(int(count) * _UNITS_S[unit] for count, unit in _PART.findall(text)))


def time_before(text: str, now: datetime, option: str) -> datetime:
    """`10m` is ten minutes before now; an ISO time is itself."""
    return _time(text, now, option, sign=-1)


def time_after(text: str, now: datetime, option: str) -> datetime:
    return _time(text, now, option, sign=1)


def parse_time(text: str) -> datetime:
    """A time as the API writes it."""
    return datetime.fromisoformat(text)


def shown_age(since: datetime, now: datetime) -> str:
    """`41s`, `12m`, `3h`, `9d`: enough for a table."""
    seconds = max(0, int((now - since).total_seconds()))
    for unit, limit_s in (("s", 120), ("m", 7200), ("h", 172800)):
        if seconds < limit_s:
            return f"{seconds // _UNITS_S[unit]}{unit}"
    return f"{seconds // 86400}d"


def shown_roughly(seconds: float) -> str:
    """`41 s`, `3 min 40 s`, `1 h 5 min`: of what is not known to the second."""
    whole = max(1, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"


def shown_time(text: str | None) -> str:
    """The API's UTC time in the zone of whoever reads it."""
    return parse_time(text).astimezone().strftime("%Y-%m-%d %H:%M:%S") if text else "-"


def shown_log_time(text: str) -> str:
    return parse_time(text).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def _time(text: str, now: datetime, option: str, sign: int) -> datetime:
    try:
        duration = parse_duration(text)
        # A time without a zone is meant in the zone of whoever types it.
        return now + sign * duration if duration is not None else datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise UsageError(
            f"{option} must be a duration such as 10m or 30d, or a time such as 2026-01-31T12:00:00Z."
        ) from None
