"""Engines on whose machines an image was found not to run, because it is not built for their processor.

Kept by this process only: whoever leads next finds out again. It belongs to one deployment, so a restart asks them all anew.
"""

from dataclasses import dataclass, field

from moorage.containers.models import ContainerRow


@dataclass
class UnfitEngines:
    _engines: dict[str, tuple[int, frozenset[str]]] = field(init=False, default_factory=dict)
    """By container: the generation, and the engines."""

    def of(self, row: ContainerRow) -> frozenset[str]:
        generation, engines = self._engines.get(row.id, (0, frozenset()))
        return engines if generation == row.generation else frozenset()

    def add(self, row: ContainerRow, engine: str) -> None:
        self._engines[row.id] = row.generation, self.of(row) | {engine}

    def forget(self, container_id: str) -> None:
        self._engines.pop(container_id, None)
