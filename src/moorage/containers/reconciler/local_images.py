"""Which machines said a moment ago that they have an image which the operator built there. Where there are few, each is asked again."""

from dataclasses import dataclass, field

from moorage.engines.engines import Engines
from moorage.kit.clock import Clock

REMEMBERED_S = 10.0


@dataclass
class LocalImages:
    engines: Engines
    clock: Clock
    _said: dict[str, dict[str, tuple[float, bool]]] = field(init=False, default_factory=dict)
    """By image and engine: until when it counts, and whether it has it."""

    def has(self, image: str, engine: str) -> bool | None:
        """None: it has to be asked."""
        until_s, there = self._said.get(image, {}).get(engine, (0.0, False))
        return there if self.clock.monotonic() < until_s else None

    def note(self, image: str, engine: str, *, there: bool) -> None:
        if not self.engines.pause_s():
            return
        now_s = self.clock.monotonic()
        for name, said in list(self._said.items()):
            if name != image and all(until_s <= now_s for until_s, _ in said.values()):
                del self._said[name]
        self._said.setdefault(image, {})[engine] = now_s + REMEMBERED_S, there
