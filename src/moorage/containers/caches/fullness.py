"""What of a machine's caches has to go, and who has to end because its cache is full. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from moorage.containers.disk import reserve_bytes
from moorage.containers.states import Reason
from moorage.containers.verdict import Verdict, size_in_words
from moorage.engines.base import DiskSpace

PLENTY = 2.0
"""Reserves of the disk: with less, caches that nobody uses go, before replicas have to."""


@dataclass(frozen=True)
class Idle:
    """A cache that no replica has."""

    container_id: str
    size_bytes: int
    used_at: datetime


def is_short(space: DiskSpace) -> bool:
    return space.free_bytes < reserve_bytes(space) * PLENTY


def outdated(caches: Sequence[Idle], space: DiskSpace | None, kept: timedelta, now: datetime) -> list[Idle]:
    """Those that were not used for too long; where the disk is almost full, others too, the longest unused first."""
    by_age = sorted(caches, key=lambda one: one.used_at)
    going = [one for one in by_age if now - one.used_at > kept]
    if space is None:
        return going
    missing_bytes = reserve_bytes(space) * PLENTY - space.free_bytes - sum(one.size_bytes for one in going)
    for one in by_age:
        if missing_bytes <= 0:
            break
        if one not in going:
            going.append(one)
            missing_bytes -= one.size_bytes
    return going


def cache_full(size_bytes: int, limit_bytes: int) -> Verdict:
    return Verdict(
        Reason.DISK_FULL,
        f"Moorage ended it because its cache is full: {size_in_words(size_bytes)} of "
        f"{size_in_words(limit_bytes)}, and all of it is in use. Give it a larger cache (cache.size_gib), or a smaller "
        "model.",
    )
