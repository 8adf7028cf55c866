"""What the engine said of a replica a moment ago, for the pass that follows at once: a deployment waits for both."""

from dataclasses import dataclass, field

from moorage.engines.base import ObservedReplica, ReplicaPhase
from moorage.kit.clock import Clock

FRESH_FOR_S = 1.0


@dataclass
class FreshlySeen:
    """Taken once, and worth nothing after a word of the engine about the container, or after a moment: the engine's
    words may have been lost."""

    clock: Clock
    _seen: dict[str, dict[str, tuple[float, ObservedReplica]]] = field(init=False, default_factory=dict)
    """By container and replica, with the time until which it counts."""
    words: int = field(init=False, default=0)
    """Of the engine, about whatever container. Read it before looking at one."""

    def put(self, container_id: str, observed: ObservedReplica, words: int) -> None:
        """`words` as they were before the look: one since then may have been about this replica."""
        if observed.phase is ReplicaPhase.RUNNING and words == self.words:
            until_s = self.clock.monotonic() + FRESH_FOR_S
            self._seen.setdefault(container_id, {})[observed.replica_id] = until_s, observed

    def take(self, container_id: str, replica_id: str) -> ObservedReplica | None:
        until_s, observed = self._seen.get(container_id, {}).pop(replica_id, (0.0, None))
        return observed if self.clock.monotonic() < until_s else None

    def engine_spoke(self, container_id: str) -> None:
        self.words += 1
        self.forget(container_id)

    def forget(self, container_id: str) -> None:
        self._seen.pop(container_id, None)

    def forget_all(self) -> None:
        self._seen.clear()
