"""Who is held, and for which container. Bounded, and without I/O."""

import asyncio
from dataclasses import dataclass, field
from datetime import datetime

from moorage.gateway.holding.limits import HoldLimits
from moorage.gateway.holding.messages import Refusal

FULL = Refusal(
    503,
    "hold_full",
    "The container is asleep, and as many requests as may wait for it to wake already do. Try again in a few seconds.",
    retry_after_s=5,
)


@dataclass(eq=False)
class Held:
    """One request. Its `answer` is there when it is to go on: None to its container, else with a refusal."""

    container_id: str
    key_id: str | None
    arrived_at: datetime
    place: int
    answer: asyncio.Future[Refusal | None]
    body_bytes: int = 0


@dataclass
class Places:
    limits: HoldLimits
    most_seen: int = 0
    """Of one container, since this process began."""
    bytes_held: int = 0
    _held: dict[str, set[Held]] = field(default_factory=dict)

    def take(self, container_id: str, key_id: str | None, now: datetime) -> Held | None:
        """None where there is none left."""
        there = self._held.get(container_id, set())
        if len(there) >= self.limits.per_container or self.count() >= self.limits.at_once:
            return None
        answer: asyncio.Future[Refusal | None] = asyncio.get_running_loop().create_future()
        held = Held(container_id, key_id, now, len(there) + 1, answer)
        self._held.setdefault(container_id, set()).add(held)
        self.most_seen = max(self.most_seen, held.place)
        return held

    def take_bytes(self, held: Held, wanted: int) -> int:
        """How many more of its body may be kept here."""
        room = min(
            wanted,
            self.limits.body_bytes - held.body_bytes,
            self.limits.bytes_at_once - self.bytes_held,
        )
        room = max(room, 0)
        held.body_bytes += room
        self.bytes_held += room
        return room

    def give_back_bytes(self, held: Held, unused: int) -> None:
        held.body_bytes -= unused
        self.bytes_held -= unused

    def leave(self, held: Held) -> None:
        there = self._held.get(held.container_id, set())
        there.discard(held)
        if not there:
            self._held.pop(held.container_id, None)
        self.give_back_bytes(held, held.body_bytes)

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

    def count(self) -> int:
        return sum(len(there) for there in self._held.values())
