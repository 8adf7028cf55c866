"""What each container did at this gateway, from counters that belong to HAProxy's slots. Pure.

A slot's counters go on when it gets another owner, and each worker has its own. So what is counted is always the growth
since the last look at this slot of this worker, for the container that owned it meanwhile; whoever gives a slot to
another container has to look once more before.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from moorage.kit.ids import ContainerId

SlotUse = tuple[int, int]
"""A worker's pid, and a slot."""


@dataclass(frozen=True)
class SlotCounters:
    """One slot in one worker, as `show stat` has it."""

    in_flight: int = 0
    """Requests, those that wait included."""
    queued: int = 0
    requests: int = 0
    """Since the worker started, as is the next."""
    errors: int = 0
    """Answers of 500 and above, the gateway's own for this slot included."""
    response_ms: int = 0
    """The mean of the last requests."""


@dataclass(frozen=True)
class ContainerUse:
    """One container, since the last time somebody asked."""

    in_flight: int
    queued: int
    requests: int
    errors: int
    response_ms: int

    @property
    def idle(self) -> bool:
        return not (self.in_flight or self.queued or self.requests or self.errors)


@dataclass
class Usage:
    _owners: dict[SlotUse, ContainerId] = field(default_factory=dict)
    _seen: dict[SlotUse, SlotCounters] = field(default_factory=dict)
    _requests: Counter[ContainerId] = field(default_factory=Counter)
    _errors: Counter[ContainerId] = field(default_factory=Counter)

    def to_look_at(self, pid: int, owners: Mapping[int, ContainerId]) -> set[int]:
        """Slots that are about to change hands."""
        return {
            slot
            for slot, owner in owners.items()
            if (pid, slot) in self._owners and self._owners[pid, slot] != owner
        }

    def own(self, pid: int, owners: Mapping[int, ContainerId]) -> None:
        """From now on. A slot that nobody is named for stays with its last owner, whose requests may still end."""
        self._owners |= {(pid, slot): owner for slot, owner in owners.items()}

    def begin(self, pid: int, slots: Mapping[int, SlotCounters]) -> None:
        """What a worker counted before our time was for somebody else to report."""
        self._seen |= {(pid, slot): counters for slot, counters in slots.items()}

    def look(self, pid: int, slots: Mapping[int, SlotCounters]) -> None:
        for slot, now in slots.items():
            before = self._seen.get((pid, slot), SlotCounters())
            owner = self._owners.get((pid, slot))
            # An answer that was overtaken by a later one has nothing to add.
            if now.requests < before.requests or now.errors < before.errors:
                continue
            if owner is not None:
                self._requests[owner] += now.requests - before.requests
                self._errors[owner] += now.errors - before.errors
            self._seen[pid, slot] = now

    def forget_others(self, pids: Iterable[int]) -> None:
        """Workers that have ended."""
        alive = set(pids)
        self._seen = {use: counters for use, counters in self._seen.items() if use[0] in alive}
        self._owners = {use: owner for use, owner in self._owners.items() if use[0] in alive}

    def take(self) -> dict[ContainerId, ContainerUse]:
        """What was counted since the last call, and what is in flight as of the last looks; only who did anything."""
        levels: dict[ContainerId, SlotCounters] = {}
        for slot_use, seen in self._seen.items():
            known_owner = self._owners.get(slot_use)
            if known_owner is None:
                continue
            level = levels.get(known_owner, SlotCounters())
            levels[known_owner] = SlotCounters(
                level.in_flight + seen.in_flight,
                level.queued + seen.queued,
                response_ms=max(level.response_ms, seen.response_ms),
            )
        taken = {}
        for owner, level in levels.items():
            requests, errors = self._requests.pop(owner, 0), self._errors.pop(owner, 0)
            use = ContainerUse(level.in_flight, level.queued, requests, errors, level.response_ms)
            if not use.idle:
                taken[owner] = use
        # Of workers and slots that are gone: what they did is counted all the same.
        for owner in {*self._requests, *self._errors}:
            requests, errors = self._requests.pop(owner, 0), self._errors.pop(owner, 0)
            if requests or errors:
                taken[owner] = ContainerUse(0, 0, requests, errors, 0)
        return taken
