"""Which containers changed, for everybody who watches a project: one connection to Postgres, however many watch.

A notice says only which; whoever hears it reads. What was missed while the connection was down is not known, so then
everybody hears that anything may have changed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from moorage.containers.channels import CHANGES
from moorage.kit.database import Listener

MOST_NAMED = 100
"""Beyond it, reading the list is cheaper than being told each."""


@dataclass
class Watch:
    """What one reader was not told yet."""

    project_id: str
    actor_id: str
    _changed: set[str] = field(default_factory=set)
    _anything: bool = False

    def take(self) -> list[str] | None:
        """The containers that changed since; empty when it may be any of them, None when none did."""
        if not self._changed and not self._anything:
            return None
        changed = [] if self._anything else sorted(self._changed)
        self._changed, self._anything = set(), False
        return changed

    def add(self, container_id: str | None) -> None:
        if container_id is not None and len(self._changed) < MOST_NAMED:
            self._changed.add(container_id)
        else:
            self._anything = True


class Changes:
    def __init__(self, listener: Listener) -> None:
        self._watches: dict[str, list[Watch]] = {}
        listener.hear(CHANGES, self._hear)

    @contextmanager
    def watched(self, project_id: str, actor_id: str) -> Iterator[Watch]:
        watch = Watch(project_id, actor_id)
        self._watches.setdefault(project_id, []).append(watch)
        try:
            yield watch
        finally:
            left = [one for one in self._watches[project_id] if one is not watch]
            if left:
                self._watches[project_id] = left
            else:
                del self._watches[project_id]

    def _hear(self, payload: str) -> None:
        if not payload:
            for some in self._watches.values():
                for watch in some:
                    watch.add(None)
            return
        project_id, container_id = payload.split(" ")
        for watch in self._watches.get(project_id, ()):
            watch.add(container_id)
