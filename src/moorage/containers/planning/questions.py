"""What each part of the plan asks of a container and its replicas. Pure."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from moorage.containers.attention import counted_from
from moorage.containers.states import LIVE, SERVING, DesiredState, Reason, ReplicaState
from moorage.containers.views import ContainerView, ReplicaView, Transition
from moorage.engines.base import ReplicaPhase


def wants_to_run(container: ContainerView) -> bool:
    return container.desired_state is DesiredState.RUNNING


def runs(container: ContainerView) -> bool:
    return (
        wants_to_run(container)
        and container.generation != container.failed_generation
        and not container.asleep
    )


def is_refused(container: ContainerView) -> bool:
    return container.approval is not None and container.approval.reason is Reason.REPLICA_LIMIT_REFUSED


def still_serves(container: ContainerView, seen: Sequence[ReplicaView]) -> bool:
    """What a restart was to take over from."""
    before = container.serving_generation
    return before != container.generation and any(
        replica.generation == before and replica.state in SERVING for replica in seen
    )


def with_process(seen: Sequence[ReplicaView]) -> list[ReplicaView]:
    """Those that have a process, or may have one."""
    return [replica for replica in seen if replica.state in LIVE or replica.state is ReplicaState.DRAINING]


def is_in_doubt(seen: Sequence[ReplicaView]) -> bool:
    return any(replica.doubted and replica.state in LIVE for replica in seen)


def is_accepted(replica: ReplicaView) -> bool:
    """Its engine is at it by itself."""
    engine = replica.observed
    return engine is not None and engine.phase in (ReplicaPhase.WAITING, ReplicaPhase.PULLING)


def is_drained(replica: ReplicaView, container: ContainerView, now: datetime) -> bool:
    drained = not replica.taking_requests and replica.in_flight == 0
    return drained or time_passed(replica.draining_at, container, now) >= container.drain_limit


def time_passed(since: datetime | None, container: ContainerView, now: datetime) -> timedelta:
    """How long something has lasted while somebody looked; nothing, if it has not begun."""
    return timedelta() if since is None else now - counted_from(since, container.watched_since, now)


def after_move(replica: ReplicaView, move: Transition | None) -> ReplicaView:
    if move is None:
        return replica
    return replace(replica, state=move.to, replaced=replica.replaced or move.verdict is not None)
