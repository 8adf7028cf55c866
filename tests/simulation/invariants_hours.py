"""Hours: none paid twice for the same time, none held in vain. What is asked of the database, and what follows from it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from tests.simulation.world import World

_OVERLAP_S = 75.0
"""An hour that was decided about and could not be renewed may overlap with what was bought later, for no longer than the
lead."""

PAID = """
SELECT 'paid', concat_ws(' ', id, container_id, slot, instance_type,
    extract(epoch FROM expires_at) - {hour_s}, extract(epoch FROM expires_at), extract(epoch FROM sim.clock_timestamp()))
FROM hours WHERE state = 'paid'
"""
_HELD = """
SELECT h.id, h.container_id, h.slot, CASE WHEN c.deleted_at IS NULL THEN c.state END, (h.slot < c.desired_replicas OR h.slot >= 1000 AND c.trial_image IS NOT NULL),
    EXISTS (SELECT FROM replicas r WHERE r.container_id = h.container_id AND r.slot = h.slot
        AND r.instance_type = h.instance_type AND r.state IN ('ready', 'routed')),
    t.memory_bytes + used.memory_bytes <= {memory_bytes} AND t.vcpu_millis + used.vcpu_millis <= {vcpu_millis}
        AND t.gpu_count + used.gpus <= (SELECT coalesce(sum(jsonb_array_length(gpus)), 0) FROM nodes),
    EXISTS (SELECT FROM replicas r WHERE r.container_id = h.container_id AND r.slot = h.slot AND r.generation = c.generation
        AND r.ended_badly AND r.ended_at > sim.clock_timestamp() - interval '1 hour')
FROM hours h LEFT JOIN containers c ON c.id = h.container_id JOIN instance_types t ON t.name = h.instance_type,
    (SELECT coalesce(sum(u.memory_bytes), 0) AS memory_bytes, coalesce(sum(u.vcpu_millis), 0) AS vcpu_millis,
        coalesce(sum(u.gpu_count), 0) AS gpus
    FROM replicas r JOIN instance_types u ON u.name = r.instance_type
    WHERE r.state IN ('requested', 'starting', 'ready', 'routed', 'draining')) used
WHERE h.state = 'held' ORDER BY h.id
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


@dataclass(frozen=True)
class Held:
    id: str
    container_id: str
    slot: int
    state: str | None
    """Of its container; None when that is gone."""
    wanted: bool
    """The container is to have that many."""
    serves: bool
    """Something is ready in the slot."""
    fits: bool
    """The machine has room for it."""
    failed: bool = False
    """What was started in the slot ended badly within the hour."""

    def has_a_reason(self) -> bool:
        """Once all had its time. What runs may wait for room for one more, or until one that failed too often may be tried again;
        nothing else keeps a slot waiting."""
        if self.state == "RUNNING":
            return self.wanted and not self.serves and (self.failed or not self.fits)
        return self.state not in (None, "STOPPED", "FAILED")


def held_without_a_reason(world: World) -> Iterator[str]:
    machine = world.machine
    room = {
        "memory_bytes": machine.memory_bytes,
        "vcpu_millis": int(machine.cpu_millis * world.settings.cpu_overcommit),
    }
    for hour_id, container_id, slot, state, wanted, serves, fits, failed in world.query(_HELD.format(**room)):
        held = Held(
            hour_id or "",
            container_id or "",
            int(slot or 0),
            state,
            wanted == "t",
            serves == "t",
            fits == "t",
            failed == "t",
        )
        if not held.has_a_reason():
            yield f"{held.id} is held for slot {held.slot} of {held.container_id}, which is {held.state}"
