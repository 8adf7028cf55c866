"""How far a start is, in figures for people: bytes of its image, bytes of weights in its cache, or what is done with those.

Also where others serve meanwhile: of what takes over from a replica that moves or has an older version, of one more, and of what
a request has woken.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from moorage.containers.caches.turns import not_their_turn
from moorage.containers.models import ReplicaRow
from moorage.containers.reconciler.cache_turns import turns_of, warm_versions
from moorage.containers.reconciler.cache_watch import CacheWatch
from moorage.containers.reconciler.engine_calls import EngineCalls
from moorage.containers.reconciler.loading_repository import Loaded
from moorage.containers.reconciler.observation import Seen
from moorage.containers.reconciler.operations import Operations
from moorage.containers.spec import ContainerSettings
from moorage.containers.states import ContainerState, ReplicaState
from moorage.containers.views import Plan

_COMING = (ReplicaState.REQUESTED, ReplicaState.STARTING, ReplicaState.READY)
"""Not at the endpoint yet."""


@dataclass
class StartProgress:
    calls: EngineCalls
    cache_watch: CacheWatch
    operations: Operations

    def of(self, loaded: Loaded, plan: Plan, seen: Seen, *, brings_image: bool) -> dict[str, Any] | None:
        """Once what is planned is written: no pass follows the one that finds a replica at the endpoint. `brings_image`: to the
        machine of one of its replicas."""
        there = {move.replica_id for move in plan.transitions if move.to not in _COMING}
        coming = [row for row in loaded.replicas if row.state in _COMING and row.id not in there]
        match plan.state:
            case ContainerState.PULLING:
                return self._pulled(loaded)
            case ContainerState.STARTING:
                return self._started(loaded, seen, coming)
            case ContainerState.RUNNING if coming:
                starts = any(row.state != ReplicaState.REQUESTED for row in coming)
                return (
                    self._pulled(loaded)
                    if brings_image and not starts
                    else self._started(loaded, seen, coming)
                )
        return None

    def _pulled(self, loaded: Loaded) -> dict[str, Any]:
        pulled = self.calls.pull_progress.get(loaded.container.id)
        done, total = (pulled.done_bytes, pulled.total_bytes) if pulled else (0, 0)
        return {"phase": "pull", "done_bytes": done, "total_bytes": total}

    def _started(self, loaded: Loaded, seen: Seen, coming: Sequence[ReplicaRow]) -> dict[str, Any]:
        started = [row.started_at for row in coming if row.started_at]
        limit_s = ContainerSettings.from_json(loaded.container.settings).health_timeout_s
        since = min(started).isoformat() if started else None
        known = self._step(loaded, coming) | self._waiting(loaded, seen)
        return {"phase": "start", "started_at": since, "limit_s": limit_s, **known}

    def _step(self, loaded: Loaded, coming: Sequence[ReplicaRow]) -> dict[str, Any]:
        """Of the replica that has been starting for longest."""
        starting = [row for row in coming if row.state == ReplicaState.STARTING]
        first = min(starting, key=lambda row: row.created_at, default=None)
        return self.cache_watch.step(first.engine, loaded.container.id) if first is not None else {}

    def _waiting(self, loaded: Loaded, seen: Seen) -> dict[str, int]:
        """How many replicas begin only once another has filled the cache of their machine."""
        turns = turns_of(loaded.replicas, seen, self.operations.busy_keys())
        waiting = not_their_turn(turns, warm_versions(loaded))
        return {"waiting": len(waiting)} if waiting else {}
