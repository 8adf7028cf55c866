"""Which backups go. Pure."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

KEPT_ANYWAY = 3
"""When a machine was off for long, or its clock was wrong, age alone would take the last ones."""
_TIME = "%Y%m%dT%H%M%SZ"
_NAME = re.compile(r"moorage-(\d{8}T\d{6}Z)\.tar\.age")


def backup_name(now: datetime) -> str:
    return f"moorage-{now.astimezone(UTC):{_TIME}}.tar.age"


def outdated(names: Iterable[str], now: datetime, kept_days: int) -> list[str]:
    """What is not named like a backup is nobody's to remove."""
    made = sorted(
        (datetime.strptime(match[1], _TIME).replace(tzinfo=UTC), name)
        for name in names
        if (match := _NAME.fullmatch(name))
    )
    return [name for made_at, name in made[:-KEPT_ANYWAY] if now - made_at > timedelta(days=kept_days)]
