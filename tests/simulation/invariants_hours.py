"""Hours: none paid twice for the same time. What is asked of the database, and what follows from it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

_OVERLAP_S = 75.0
"""An hour that was decided about and could not be renewed may overlap with what was bought later, for no longer than the
lead."""

PAID = """
SELECT 'paid', concat_ws(' ', id, container_id, slot, instance_type,
    extract(epoch FROM expires_at) - {hour_s}, extract(epoch FROM expires_at), extract(epoch FROM sim.clock_timestamp()))
FROM hours WHERE state = 'paid'
"""


@dataclass(frozen=True)
class Paid:
    """Times are those of the database's clock."""

    id: str
    container_id: str
    slot: int
    instance_type: str
    begins_s: float
    ends_s: float
    seen_s: float
    """When it was looked at."""

    @classmethod
    def from_sentence(cls, sentence: str) -> "Paid":
        hour_id, container_id, slot, instance_type, *times = sentence.split()
        begins_s, ends_s, seen_s = (float(time) for time in times)
        return cls(hour_id, container_id, int(slot), instance_type, begins_s, ends_s, seen_s)


@dataclass
class SlotsOfHours:
    """Since when each paid hour is its slot's. What is left of one goes over to another slot of its container where it is
    needed; what had passed of it by then was the other slot's."""

    _since: dict[str, tuple[int, float]] = field(default_factory=dict)

    def twice(self, hours: Iterable[Paid]) -> Iterator[str]:
        """Two paid hours of one slot at the same time."""
        last: dict[tuple[str, int, str], Paid] = {}
        for hour in sorted((self._in_its_slot(hour) for hour in hours), key=lambda one: one.begins_s):
            key = hour.container_id, hour.slot, hour.instance_type
            before = last.get(key)
            if before is not None and min(before.ends_s, hour.ends_s) - hour.begins_s > _OVERLAP_S:
                yield (
                    f"slot {hour.slot} of {hour.container_id} is charged twice for the same time: "
                    f"{before.id}, {hour.id}"
                )
            if before is None or before.ends_s < hour.ends_s:
                last[key] = hour

    def _in_its_slot(self, hour: Paid) -> Paid:
        slot, since_s = self._since.get(hour.id, (hour.slot, hour.begins_s))
        if slot != hour.slot:
            since_s = hour.seen_s
        self._since[hour.id] = hour.slot, since_s
        return replace(hour, begins_s=max(hour.begins_s, since_s))
