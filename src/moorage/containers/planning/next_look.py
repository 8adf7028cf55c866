"""When to look again although nobody says that anything changed. Pure."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from moorage.containers.attention import LONGEST_LOOK
from moorage.containers.planning.life import REPLACE_AFTER
from moorage.containers.planning.pauses import backoff_left_s
from moorage.containers.planning.questions import runs, time_passed
from moorage.containers.states import LIVE, ReplicaState
from moorage.containers.views import ContainerView, ReplicaView
from moorage.machines.states import LOST_AFTER

LOOK_AGAIN_S = 5.0
"""For waits that somebody else ends and that a lost notification must not make endless."""


def look_again_in_s(container: ContainerView, seen: Sequence[ReplicaView], now: datetime) -> float | None:
    waits: list[float] = []
    if container.trial is not None:
        waits.append(1.0)
    if runs(container):
        if container.pulling:
            waits.append(1.0)
        elif container.image_known:
            waits += _waits_for_missing(container, seen, now)
    for replica in seen:
        if replica.unreachable and replica.state is not ReplicaState.REMOVED:
            left = LOST_AFTER - time_passed(replica.silent_since, container, now)
            waits.append(min(max(left.total_seconds(), 1.0), LOOK_AGAIN_S))
        elif replica.doubted and replica.state in LIVE:
            waits.append(LOOK_AGAIN_S)
        elif replica.state is ReplicaState.STARTING:
            waits.append(_probe_pause_s(replica, now))
        elif replica.state is ReplicaState.DRAINING and replica.draining_at is not None and not replica.busy:
            left = container.drain_limit - time_passed(replica.draining_at, container, now)
            waits.append(max(min(left.total_seconds(), 1.0), 0.05))
        elif replica.state is ReplicaState.ROUTED and replica.failing_since is not None:
            left = REPLACE_AFTER - time_passed(replica.failing_since, container, now)
            waits.append(max(left.total_seconds(), 1.0))
        elif replica.state not in (ReplicaState.ROUTED, ReplicaState.REMOVED) or (
            container.asleep and replica.state is ReplicaState.ROUTED
        ):
            waits.append(LOOK_AGAIN_S if replica.busy else 1.0)
    # Whatever has to pass first: the operator may change limits meanwhile, and a clock may be set back.
    return min(*waits, LONGEST_LOOK.total_seconds()) if waits else None


def _waits_for_missing(container: ContainerView, seen: Iterable[ReplicaView], now: datetime) -> list[float]:
    taken = {
        replica.slot
        for replica in seen
        if replica.state in LIVE and replica.generation == container.generation and not replica.moving
    }
    missing = [slot for slot in container.slots if slot not in taken]
    pauses = [backoff_left_s(container, slot, now) for slot in missing]
    return [pause_s if pause_s > 0 else LOOK_AGAIN_S for pause_s in pauses]


def _probe_pause_s(replica: ReplicaView, now: datetime) -> float:
    """Often at first, because most small servers are up in a moment; then once a second."""
    age_s = (now - (replica.started_at or replica.created_at)).total_seconds()
    if replica.probing:
        return 1.0
    if age_s < 3:
        return 0.05
    return 0.25 if age_s < 15 else 1.0
