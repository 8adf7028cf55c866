"""Engines on whose machines a deployment was found not to start: its image is not built for their processor, their disk is
full, or their engine fails again and again. For a while others are asked instead.

Kept by this process only: whoever leads next finds out again. It belongs to one deployment, so a restart asks them all anew.
"""

from dataclasses import dataclass, field

from moorage.containers.models import ContainerRow
from moorage.containers.states import Reason
from moorage.kit.clock import Clock

_LASTS_S = {
    Reason.IMAGE_ARCHITECTURE_MISMATCH: float("inf"),
    Reason.DISK_FULL: 300.0,
    Reason.ENGINE_ERROR: 60.0,
}
"""What is the machine's fault, and for how long it is taken for granted."""
OF_THE_MACHINE = frozenset(_LASTS_S)


@dataclass
class UnfitEngines:
    clock: Clock
    _until_s: dict[str, tuple[int, dict[str, float]]] = field(init=False, default_factory=dict)
    """By container: the generation, and until when each engine is."""

    def of(self, row: ContainerRow) -> frozenset[str]:
        now_s = self.clock.monotonic()
        return frozenset(engine for engine, until_s in self._found(row).items() if now_s < until_s)

    def add(self, row: ContainerRow, engine: str, because: Reason) -> None:
        until_s = self.clock.monotonic() + _LASTS_S[because]
        self._until_s[row.id] = row.generation, {**self._found(row), engine: until_s}

    def forget(self, container_id: str) -> None:
        self._until_s.pop(container_id, None)

    def forget_all(self) -> None:
        self._until_s.clear()

    def _found(self, row: ContainerRow) -> dict[str, float]:
        generation, engines = self._until_s.get(row.id, (0, {}))
        return engines if generation == row.generation else {}
