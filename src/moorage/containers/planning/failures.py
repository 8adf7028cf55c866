"""When a deployment is given up, and why; why a replica is not ready. Pure."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from moorage.containers.fixes import with_setting
from moorage.containers.planning import update_plan
from moorage.containers.planning.questions import is_in_doubt, is_refused, runs, time_passed, with_process
from moorage.containers.start_limit import NOT_ITS_FAULT
from moorage.containers.states import LIVE, SERVING, Reason, TrialStep
from moorage.containers.verdict import Verdict, verdict_while_unready
from moorage.containers.views import ContainerView, ReplicaView, Transition


def with_new_failures(
    container: ContainerView, seen: Sequence[ReplicaView], moves: Sequence[Transition], now: datetime
) -> ContainerView:
    """What ends badly in this pass starts its pause in this pass, and is why the container is what it is. Of an
    earlier generation it says nothing about this one."""
    verdicts = {move.replica_id: move.verdict for move in moves if move.verdict is not None}
    failed = [
        replica
        for replica in seen
        if replica.id in verdicts and replica.generation == container.generation and runs(container)
    ]
    if not failed:
        return container
    failures = (*container.recent_failures, *((replica.slot, now) for replica in failed))
    return replace(container, recent_failures=failures, last_failure=verdicts[failed[-1].id])


def why_given_up(container: ContainerView, seen: Sequence[ReplicaView], now: datetime) -> Verdict | None:
    """Why this generation is given up now; None while there is hope.

    Before its first success, a generation fails when none of its replicas is left: what cannot start once
    is not worth starting for ever. After that, it fails when nothing came back for the health timeout, in which
    somebody looked and tried.
    """
    if not runs(container):
        return None
    if is_refused(container):
        return container.approval
    if is_in_doubt(seen):
        return None
    if container.beside is not None:
        return update_plan.why_given_up(container, seen, now)
    newest = container.last_failure
    # What wakes is looked at as if it had never served: those who wait for it are told, not kept waiting.
    served = container.serving_generation == container.generation and not container.waking
    if not served:
        mine = [replica for replica in seen if replica.generation == container.generation]
        if any(replica.state in LIVE and not (replica.untried and newest is not None) for replica in mine):
            return None
        if newest is not None and newest.reason in NOT_ITS_FAULT:
            return None
        return newest or _why_not_tried(container, seen)
    # What answers again is back, also when no gateway has it yet.
    back = any(replica.state in SERVING for replica in seen)
    unready_since = None if back else container.unready_since
    if newest is not None and newest.reason in NOT_ITS_FAULT:
        # Machines may be lost one after the other, for longer than it has time.
        return None
    if time_passed(unready_since, container, now) > container.health_timeout:
        return newest or Verdict(
            Reason.HEALTH_CHECK_TIMEOUT, "No replica became ready again within the health timeout."
        )
    return None


def _why_not_tried(container: ContainerView, seen: Sequence[ReplicaView]) -> Verdict | None:
    """What is on trial waits for neither credit nor room: what ran before it had both."""
    if container.trial is not TrialStep.PROVE or with_process(seen):
        return None
    if len(container.unpayable_slots) >= container.desired_replicas:
        return container.unpayable_because
    spent = container.allowance_spent
    if spent is not None and len(spent.slots) >= container.desired_replicas:
        return spent.verdict
    return Verdict(Reason.NO_CAPACITY, container.no_room_message) if container.room_for <= 0 else None


def why_unready(replica: ReplicaView, container: ContainerView) -> Verdict:
    timeout_s = int(container.health_timeout.total_seconds())
    verdict = verdict_while_unready(
        replica.probe,
        replica.sockets,
        container.port,
        container.health_path,
        timeout_s,
        replica.process_limit_reached,
    )
    status = replica.probe.status if replica.probe is not None else None
    return with_setting(verdict, status, replica.sockets, container.port, timeout_s)
