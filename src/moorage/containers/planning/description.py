"""What the container is called meanwhile, and why it is not what it should be. Pure."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from moorage.containers.fewer import why_fewer
from moorage.containers.planning.failures import why_unready
from moorage.containers.planning.pauses import may_start_at
from moorage.containers.planning.questions import is_accepted, with_process
from moorage.containers.start_limit import start_limit
from moorage.containers.states import LIVE, ContainerState, DesiredState, Reason, ReplicaState, TrialStep
from moorage.containers.verdict import ProbeFailure, Verdict, verdict_when_failing
from moorage.containers.views import ENGINE_SILENT, ContainerView, Plan, ReplicaView
from moorage.engines.base import ReplicaPhase

WAITS_FOR_A_MACHINE = "No machine has room for it yet. It starts as soon as one does."
_RESTART_FAILED = "The restart failed, so the previous replicas keep running."
LOOK_INSIDE_AFTER = timedelta(seconds=1)
"""A server that is not up by then gets looked at from inside, to say why."""


def describe(
    plan: Plan,
    container: ContainerView,
    seen: Sequence[ReplicaView],
    failure: Verdict | None,
    now: datetime,
) -> Plan:
    present = with_process(seen)
    routed = any(replica.state is ReplicaState.ROUTED for replica in seen)
    if container.desired_state is DesiredState.DELETED:
        left = [replica for replica in seen if replica.state is not ReplicaState.REMOVED]
        return replace(plan, state=ContainerState.DELETING, gone=not left)
    if container.desired_state is DesiredState.STOPPED:
        reason = container.stopped_because or Verdict(
            Reason.STOPPED_BY_USER, "Stopped. Start it to serve again."
        )
        return replace(
            plan, state=ContainerState.STOPPING if present else ContainerState.STOPPED, verdict=reason
        )
    if container.trial is TrialStep.STOP:
        return replace(plan, state=ContainerState.STOPPING, verdict=None)
    if plan.go_back is not None:
        state = ContainerState.RUNNING if routed else ContainerState.STARTING
        return replace(plan, state=state, verdict=_went_back(plan.go_back))
    if plan.resume is not None:
        state = ContainerState.RUNNING if routed else ContainerState.STARTING
        return replace(plan, state=state, verdict=_of_a_restart(plan.resume))
    if container.failed_generation == container.generation:
        verdict = failure or container.last_failure
        if not routed:
            return replace(plan, state=ContainerState.FAILED, verdict=verdict)
        return replace(plan, state=ContainerState.RUNNING, verdict=verdict and _of_a_restart(verdict))
    went_back = None
    if container.trial_failure is not None:
        went_back = _went_back(container.trial_failure)
    elif container.restart_failure is not None:
        went_back = _of_a_restart(container.restart_failure)
    if container.asleep:
        return replace(plan, state=ContainerState.RUNNING, verdict=went_back)
    if plan.in_doubt:
        serves = any(replica.state is ReplicaState.ROUTED and not replica.doubted for replica in seen)
        state = ContainerState.RUNNING if serves else ContainerState.STARTING
        return replace(plan, state=state, verdict=container.doubt)
    if routed:
        verdict = (
            _why_failing(container, seen)
            or _why_not_elsewhere(container, seen)
            or why_fewer(container, seen)
            or went_back
        )
        return replace(plan, state=ContainerState.RUNNING, verdict=verdict)
    if container.approval is not None and not present:
        return replace(plan, state=ContainerState.PENDING, verdict=container.approval)
    waits_for_engine = ENGINE_SILENT if container.engine_failing else None
    if not container.image_known:
        state = ContainerState.PULLING if container.pulling else ContainerState.PENDING
        return replace(plan, state=state, verdict=waits_for_engine)
    if not present and not plan.create_slots and container.unpayable_slots:
        return replace(plan, state=ContainerState.PENDING, verdict=container.unpayable_because)
    if not present and not plan.create_slots and container.room_for <= 0:
        return replace(
            plan, state=ContainerState.PENDING, verdict=Verdict(Reason.NO_CAPACITY, container.no_room_message)
        )
    starting = any(replica.state is ReplicaState.STARTING for replica in seen)
    accepted = {replica.observed.phase for replica in seen if is_accepted(replica) and replica.observed}
    if (container.bringing_image or ReplicaPhase.PULLING in accepted) and not starting:
        return replace(plan, state=ContainerState.PULLING, verdict=waits_for_engine)
    if ReplicaPhase.WAITING in accepted and not starting:
        waits = Verdict(Reason.NO_CAPACITY, WAITS_FOR_A_MACHINE)
        return replace(plan, state=ContainerState.PENDING, verdict=waits_for_engine or waits)
    verdict = (
        waits_for_engine
        or _why_no_start(container, seen, now)
        or _why_starting(container, seen, now)
        or went_back
    )
    return replace(plan, state=ContainerState.STARTING, verdict=verdict)


def _why_failing(container: ContainerView, seen: Sequence[ReplicaView]) -> Verdict | None:
    """It serves, but some of its replicas do not answer their health checks."""
    routed = [replica for replica in seen if replica.state is ReplicaState.ROUTED]
    failing = [replica.failing for replica in routed if replica.failing is not None]
    return verdict_when_failing(failing, len(routed), container.health_path) if failing else None


def _why_not_elsewhere(container: ContainerView, seen: Sequence[ReplicaView]) -> Verdict | None:
    """The replicas from before serve on, because there is no other machine to move to."""
    moved = {
        replica.slot
        for replica in seen
        if replica.state in LIVE and replica.generation == container.generation
    }
    waits = container.avoids_nodes and container.image_known and container.room_for <= 0
    if not waits or moved >= set(container.slots):
        return None
    return Verdict(Reason.NO_CAPACITY, container.no_room_message)


def _why_no_start(container: ContainerView, seen: Sequence[ReplicaView], now: datetime) -> Verdict | None:
    """Nothing of it lives, and no slot may start yet because of how often it failed."""
    if any(replica.state in LIVE for replica in seen):
        return None
    untils = []
    for slot in container.slots:
        until = may_start_at(container, slot)
        if until is None or until <= now:
            return None
        untils.append(until)
    if container.allowance_spent is not None and container.allowance_spent.slots:
        return container.allowance_spent.verdict
    return start_limit(container.failed_starts_per_hour, min(untils))


def _why_starting(container: ContainerView, seen: Sequence[ReplicaView], now: datetime) -> Verdict | None:
    """While it starts: what keeps the first replica, once it had a moment to come up."""
    waiting = [
        replica
        for replica in seen
        if replica.state is ReplicaState.STARTING
        and replica.probe is not None
        and _had_a_moment(replica, now)
    ]
    if waiting:
        verdict = why_unready(waiting[0], container)
        # More time is offered when its time is over, not while it still has some.
        early = verdict.fix is not None and verdict.fix.field == "health_check.timeout_s"
        return replace(verdict, fix=None) if early else verdict
    return container.last_failure


def _had_a_moment(replica: ReplicaView, now: datetime) -> bool:
    hangs = replica.probe is not None and replica.probe.failure is ProbeFailure.TIMEOUT
    return hangs or (replica.started_at is not None and now - replica.started_at > LOOK_INSIDE_AFTER)


def _of_a_restart(verdict: Verdict) -> Verdict:
    """What an earlier pass wrote down says so already."""
    if verdict.message.startswith(_RESTART_FAILED):
        return verdict
    return replace(verdict, message=f"{_RESTART_FAILED} {verdict.message}".strip())


def _went_back(failure: Verdict) -> Verdict:
    message = f"The new settings failed, so it runs with the previous ones. {failure.message}"
    return replace(failure, message=message)
