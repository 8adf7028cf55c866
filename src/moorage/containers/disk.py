"""Who has taken too much of a machine's disk, and when to look. Pure.

An engine that can bounds each replica's disk itself. Where it cannot, the machine's free space is looked at every
second, which costs nothing, and what each replica wrote only now and then: after a minute, or as soon as the free space
has fallen by much since the last time. Whoever wrote more than its instance type has is ended, and before the machine
itself is full, whoever wrote most.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from moorage.containers.states import Reason
from moorage.containers.verdict import Verdict, size_in_words
from moorage.engines.base import DiskSpace

LOOK_EVERY_S = 60.0
REST_PER_LOOK = 10.0
"""A look that took a second is not repeated for ten: whoever writes a million files must not keep us busy. Unless the
machine's own reserve is touched."""
FALLEN_BYTES = 256 * 1024**2
FALLEN_SHARE = 0.02
"""Of the free space. On a small disk less has to be missing for a look."""
RESERVE_BYTES = 4 * 1024**3
RESERVE_SHARE = 0.05
"""Of the whole disk, and no more than the bytes: what stays free for the machine itself."""
WORTHWHILE_SHARE = 0.1
"""Of the reserve. Ending a replica that wrote less would help nobody."""


@dataclass(frozen=True)
class DiskUse:
    replica_id: str
    limit_bytes: int
    """Its instance type's disk."""
    written_bytes: int
    cache_bytes: int = 0
    """What its cache holds, which has a bound of its own; but whoever fills a disk with it has filled the disk."""

    @property
    def taken_bytes(self) -> int:
        return self.written_bytes + self.cache_bytes


@dataclass(frozen=True)
class LastLook:
    at_s: float
    """When it ended, on the monotonic clock."""
    took_s: float
    free_bytes: int
    next_in_s: float = LOOK_EVERY_S
    """The next one, if nothing happens until then."""


def must_look(last: LastLook | None, space: DiskSpace, now_s: float) -> bool:
    if last is None:
        return True
    passed_s = now_s - last.at_s
    if passed_s < last.took_s * (REST_PER_LOOK if space.free_bytes >= reserve_bytes(space) else 1.0):
        return False
    fallen_bytes = last.free_bytes - space.free_bytes
    fallen = fallen_bytes >= min(FALLEN_BYTES, last.free_bytes * FALLEN_SHARE) and fallen_bytes > 0
    return fallen or passed_s >= last.next_in_s


def evictions(uses: Iterable[DiskUse], going: Collection[str], space: DiskSpace) -> Mapping[str, Verdict]:
    """By replica: why it has to go. What those that go already have written will be free as soon as they are gone."""
    uses = list(uses)
    coming_bytes = sum(use.written_bytes for use in uses if use.replica_id in going)
    uses = [use for use in uses if use.replica_id not in going]
    over = {use.replica_id: _wrote_too_much(use) for use in uses if use.written_bytes > use.limit_bytes}
    reserve = reserve_bytes(space)
    if over or space.free_bytes + coming_bytes >= reserve:
        return over
    most = max(uses, key=lambda use: use.taken_bytes, default=None)
    if most is None or most.taken_bytes < reserve * WORTHWHILE_SHARE:
        return {}
    return {most.replica_id: _wrote_most(most)}


def reserve_bytes(space: DiskSpace) -> float:
    return min(RESERVE_BYTES, space.total_bytes * RESERVE_SHARE)


def _wrote_too_much(use: DiskUse) -> Verdict:
    return Verdict(
        Reason.DISK_FULL,
        f"Moorage ended it because it wrote {size_in_words(use.written_bytes)} to its disk of "
        f"{size_in_words(use.limit_bytes)}. Write less inside the container, or choose an instance type with "
        "a larger disk.",
    )


def _wrote_most(use: DiskUse) -> Verdict:
    return Verdict(
        Reason.DISK_FULL,
        "Moorage ended it because the machine's disk was almost full and it had written the most, "
        f"{size_in_words(use.taken_bytes)}. Write less inside the container, or ask the operator for a "
        "larger disk.",
    )
