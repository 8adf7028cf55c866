"""What is never thrown away."""

from typing import Any

from moorage.containers.reconciler import observation
from moorage.entrypoints import housekeeping
from tests.simulation.planted.bug import Bug, Patch, none_of_them


def _replicas_are_kept(patch: Patch) -> None:
    patch(housekeeping, "purge_replicas", none_of_them)


def _released_hours_are_kept(patch: Patch) -> None:
    patch(housekeeping, "purge_released_hours", none_of_them)


def _activities_are_kept(patch: Patch) -> None:
    rest = [purge for purge in housekeeping._HISTORY if purge is not housekeeping.purge_activities]
    patch(housekeeping, "_HISTORY", tuple(rest))


def _a_process_remembers(patch: Patch) -> None:
    """The health checks of every replica that ever was, also when its container is gone."""
    remember = observation.Observer.remember

    def remember_all(self: Any, loaded: Any, seen: Any) -> Any:
        before = self._history.get(loaded.container.id, {})
        history = remember(self, loaded, seen)
        if before or history:
            self._history[loaded.container.id] = {**before, **history}
        return history

    def forget_probes_alone(self: Any, container_id: str) -> None:
        self._prober.forget(container_id)

    patch(observation.Observer, "remember", remember_all)
    patch(observation.Observer, "forget", forget_probes_alone)


_GROWS = ("nothing grows without end",)
BUGS = (
    Bug("replicas are kept for ever", _GROWS, _replicas_are_kept),
    Bug("released hours are kept for ever", _GROWS, _released_hours_are_kept),
    Bug("activities are kept for ever", _GROWS, _activities_are_kept),
    Bug("a process remembers every replica", _GROWS, _a_process_remembers),
)
