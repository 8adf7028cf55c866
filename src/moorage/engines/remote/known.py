"""What is known of a machine's replicas without asking it, to hold its words against. Pure.

A machine may say what it likes of its own replicas. It may not name another's, nor another's container, nor another time
than ours: a replica runs at the latest since the moment in which it was first seen to, and never before it was wanted; it
ended after it was last seen to run. How soon another is started, and what starts cost that come to nothing, follows from that.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from moorage.engines.base import Failure, ObservedReplica, ReplicaPhase
from moorage.engines.remote.codec import WireError
from moorage.engines.remote.machine import Machine, PlacedReplica
from moorage.kit.ids import ContainerId, ReplicaId

_ENGINE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_FORGET_AFTER_S = 600.0
"""Longer than between two lists. A hint about one that went since then is still passed on."""
_RESTARTED = Failure("node_lost", "The replica's machine was restarted. A new replica takes its place.")


@dataclass
class _Known:
    container_id: ContainerId
    seen_at_s: float
    created_at: datetime | None = None
    ran_at: datetime | None = None
    """When it was last seen to run."""
    started_by: datetime | None = None
    ended_by: datetime | None = None


class KnownReplicas:
    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._known: dict[ReplicaId, _Known] = {}

    @property
    def containers(self) -> frozenset[ContainerId]:
        """That have, or just had, a replica there."""
        return frozenset(one.container_id for one in self._known.values())

    def note(self, placed: Mapping[ReplicaId, PlacedReplica], now_s: float) -> None:
        for replica_id, one in placed.items():
            if one.is_here:
                known = self._known.setdefault(replica_id, _Known(one.container_id, now_s))
                known.seen_at_s, known.created_at = now_s, one.created_at

    def forget_old(self, now_s: float) -> None:
        self._known = {
            replica_id: one
            for replica_id, one in self._known.items()
            if now_s - one.seen_at_s < _FORGET_AFTER_S
        }

    def checked(
        self, observed: ObservedReplica, now: datetime, booted_at_s: float = -math.inf
    ) -> ObservedReplica:
        """As it may be believed. Raises `WireError` where it contradicts itself. `booted_at_s` is by the machine's clock."""
        known = self._known.get(observed.replica_id) or _Known(observed.container_id, 0.0)
        started_at, ended_at = self._times(observed, known, now)
        if (observed.exit_code is not None) != (observed.phase is ReplicaPhase.EXITED):
            raise WireError("a replica has an exit code when it has ended, and else none")
        # By name, so that whatever else a machine says of a replica one day is looked at before it is believed.
        return ObservedReplica(
            replica_id=observed.replica_id,
            container_id=known.container_id,
            slot=observed.slot,
            generation=observed.generation,
            engine_id=engine_id_here(self._machine, observed.engine_id),
            phase=observed.phase,
            host=self._machine.address,
            host_port=observed.host_port,
            started_at=started_at,
            ended_at=ended_at,
            exit_code=observed.exit_code,
            out_of_memory=observed.out_of_memory,
            failure=_RESTARTED if _ended_with_its_machine(observed, booted_at_s) else None,
        )

    def _times(
        self, observed: ObservedReplica, known: _Known, now: datetime
    ) -> tuple[datetime | None, datetime | None]:
        if observed.phase not in (ReplicaPhase.RUNNING, ReplicaPhase.EXITED):
            return None, None
        known.started_by = known.started_by or now
        # None where the engine kept no time: it ended before it could begin.
        started_at = min(observed.started_at or known.started_by, known.started_by)
        started_at = max(started_at, known.created_at or started_at)
        if observed.phase is not ReplicaPhase.EXITED:
            known.ran_at = now
            return started_at, None
        known.ended_by = known.ended_by or now
        ended_at = min(observed.ended_at or known.ended_by, known.ended_by)
        return started_at, max(started_at, ended_at, known.ran_at or started_at)


def _ended_with_its_machine(observed: ObservedReplica, booted_at_s: float) -> bool:
    """Nothing that began before its machine was started outlives that. Docker says of it what it says of a process that fails."""
    began_at = observed.started_at if observed.phase is ReplicaPhase.EXITED else None
    return began_at is not None and began_at.timestamp() < booted_at_s


def engine_id_here(machine: Machine, engine_id: str) -> str:
    """With the machine's name before it: two machines can name the same one, and only one of them is asked."""
    if not _ENGINE_ID.fullmatch(engine_id):
        raise WireError("an engine's id is of letters and digits")
    return f"{machine.name}/{engine_id}"


def engine_id_there(machine: Machine, engine_id: str) -> str | None:
    """None for what is not of this machine."""
    name, _, rest = engine_id.rpartition("/")
    return rest if name == machine.name and rest else None
