"""Who is held, and for which container. Bounded, and without I/O."""

import asyncio
from dataclasses import dataclass, field
from datetime import datetime

from moorage.gateway.holding.limits import HoldLimits
from moorage.gateway.holding.messages import Refusal

FULL = Refusal(
    503,
    "hold_full",
    "The container is asleep, and too many requests already wait for it or for others of its organization. "
    "Try again in a few seconds.",
    retry_after_s=5,
)


@dataclass(eq=False)
class Held:
    """One request. Its `answer` is there when it is to go on: None to its container, else with a refusal."""

    container_id: str
    organization_id: str
    key_id: str | None
    arrived_at: datetime
    place: int
    answer: asyncio.Future[Refusal | None]


@dataclass(eq=False)
class Kept:
    """What is here of one request's body: longer than it has a place, because it may have to be sent again."""

    organization_id: str
    bytes: int = 0


@dataclass
class _Share:
    """What one organization has of what all share."""

    places: int = 0
    bytes: int = 0


@dataclass
class Places:
    limits: HoldLimits
    most_seen: int = 0
    """Of one container, since this process began."""
    bytes_held: int = 0
    _shared_bytes: int = 0
    """Of those, what is beyond each body's own."""
    _held: dict[str, set[Held]] = field(default_factory=dict)
    _shares: dict[str, _Share] = field(default_factory=dict)
    """Of those who have anything."""

    def take(self, container_id: str, organization_id: str, key_id: str | None, now: datetime) -> Held | None:
        """None where there is none left for it."""
        there = self._held.get(container_id, set())
        free = self.limits.at_once - self.count()
        if len(there) >= self.limits.per_container or self.count_of(organization_id) >= free:
            return None
        answer: asyncio.Future[Refusal | None] = asyncio.get_running_loop().create_future()
        held = Held(container_id, organization_id, key_id, now, len(there) + 1, answer)
        self._held.setdefault(container_id, set()).add(held)
        self._change_share(organization_id, places=1)
        self.most_seen = max(self.most_seen, held.place)
        return held

    def leave(self, held: Held) -> None:
        there = self._held.get(held.container_id, set())
        if held not in there:
            return
        there.remove(held)
        if not there:
            del self._held[held.container_id]
        self._change_share(held.organization_id, places=-1)

    def take_bytes(self, kept: Kept, wanted: int) -> int:
        """How many more of its body may be kept here."""
        share = self._shares.get(kept.organization_id, _Share())
        free = self.limits.bytes_at_once - self._shared_bytes
        of_the_share = max(free - share.bytes, 0)
        of_its_own = max(self.limits.own_bytes - kept.bytes, 0)
        room = min(wanted, self.limits.body_bytes - kept.bytes, of_its_own + of_the_share)
        self._change_bytes(kept, room)
        return room

    def give_back_bytes(self, kept: Kept, unused: int) -> None:
        self._change_bytes(kept, -unused)

    def give_back_all_bytes(self, kept: Kept) -> None:
        self._change_bytes(kept, -kept.bytes)

    def _change_bytes(self, kept: Kept, by: int) -> None:
        before = self._beyond_its_own(kept)
        kept.bytes += by
        self.bytes_held += by
        shared = self._beyond_its_own(kept) - before
        self._shared_bytes += shared
        self._change_share(kept.organization_id, shared_bytes=shared)

    def _beyond_its_own(self, kept: Kept) -> int:
        return max(kept.bytes - self.limits.own_bytes, 0)

    def _change_share(self, organization_id: str, *, places: int = 0, shared_bytes: int = 0) -> None:
        share = self._shares.setdefault(organization_id, _Share())
        share.places += places
        share.bytes += shared_bytes
        if not share.places and not share.bytes:
            del self._shares[organization_id]

    def answer(self, container_id: str, refusal: Refusal | None) -> None:
        """All of one container's; whose answer is there need not wait any longer."""
        for held in self._held.get(container_id, ()):
            if not held.answer.done():
                held.answer.set_result(refusal)

    def waiting(self) -> list[str]:
        """Containers that somebody waits for."""
        return [name for name, there in self._held.items() if any(not held.answer.done() for held in there)]

    def waits_for(self, container_id: str) -> bool:
        return any(not held.answer.done() for held in self._held.get(container_id, ()))

    def a_key(self, container_id: str) -> str | None:
        """Of whoever came first."""
        there = sorted(self._held.get(container_id, ()), key=lambda held: held.arrived_at)
        return next((held.key_id for held in there if held.key_id is not None), None)

    def count_of(self, organization_id: str) -> int:
        share = self._shares.get(organization_id)
        return share.places if share is not None else 0

    def count(self) -> int:
        return sum(len(there) for there in self._held.values())
