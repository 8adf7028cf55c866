"""A version on trial that gets a share of the requests: what to do about it, beside the version that serves. Pure.

Its replicas are planned as if they were a container of their own (`plan.make_plan`), so they start, are replaced when their
machine is lost, and scale with the container. They are dropped at the first replica that fails by the version's own fault, when
nothing of it can be started, for errors or slowness above the bounds, when somebody calls it off, and when nobody has decided
for too long. To be dropped is to be planned as stopped: nothing of the version that serves is touched.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from moorage.containers.planning.plan import make_plan
from moorage.containers.start_limit import NOT_ITS_FAULT
from moorage.containers.states import LIVE, ContainerState, DesiredState, Reason, ReplicaState
from moorage.containers.update_rule import Figures
from moorage.containers.verdict import Verdict, verdict_when_failing
from moorage.containers.views import ContainerView, Plan, ReplicaView


@dataclass(frozen=True)
class CanaryView:
    container: ContainerView
    """Its settings and replicas, as a container of its own."""
    begun_at: datetime
    longest: timedelta
    from_version: int
    above_bound: Verdict | None = None
    """It answers more errors, or more slowly, than it may."""
    called_off: Verdict | None = None
    promoted_by: str | None = None
    promote_after: timedelta | None = None
    serving_since: datetime | None = None
    figures: Figures = field(default_factory=Figures)
    least_answers: int = 0
    """Before a rule promotes it."""


@dataclass(frozen=True)
class CanaryPlan:
    plan: Plan
    drop: Verdict | None = None
    """Why it is given up."""
    promote: str | None = None
    """The sentence with which it takes over."""
    serves: bool = False
    """A replica of it is at the endpoint."""


def plan_canary(
    canary: CanaryView, mine: Sequence[ReplicaView], others: Sequence[ReplicaView], host: Plan, now: datetime
) -> CanaryPlan:
    """`mine` are its replicas, `others` those of the version that serves, and `host` is what is planned for those."""
    plan = make_plan(canary.container, mine, now)
    routed = {move.replica_id for move in plan.transitions if move.to is ReplicaState.ROUTED}
    serves = any(one.state is ReplicaState.ROUTED or one.id in routed for one in mine)
    drop = _why_dropped(canary, mine, others, plan, host, now)
    if drop is not None:
        stopped = replace(canary.container, desired_state=DesiredState.STOPPED)
        return CanaryPlan(make_plan(stopped, mine, now), drop=drop, serves=serves)
    return CanaryPlan(plan, promote=_why_promoted(canary, serves, now), serves=serves)


def _why_dropped(
    canary: CanaryView,
    mine: Sequence[ReplicaView],
    others: Sequence[ReplicaView],
    plan: Plan,
    host: Plan,
    now: datetime,
) -> Verdict | None:
    if host.failed or host.state is ContainerState.FAILED:
        message = "The version beside it failed."
        return Verdict(host.verdict.reason, f"{message} {host.verdict.message}") if host.verdict else None
    why = canary.called_off or canary.above_bound or _its_own_fault(canary, mine, plan)
    why = why or _fails_checks(canary, mine) or _cannot_start(canary, mine, plan) or _undecided(canary, now)
    answered_by_it = any(one.state is ReplicaState.ROUTED for one in mine)
    answered_by_others = any(one.state is ReplicaState.ROUTED and not one.doubted for one in others)
    # As long as nothing else answers, what answers badly is better than nothing.
    return None if answered_by_it and not answered_by_others else why


def _its_own_fault(canary: CanaryView, mine: Sequence[ReplicaView], plan: Plan) -> Verdict | None:
    names = {one.id for one in mine}
    ended = [
        move.verdict for move in plan.transitions if move.replica_id in names and move.verdict is not None
    ]
    verdicts = [*ended, *([canary.container.last_failure] if canary.container.last_failure else [])]
    if plan.failed and plan.verdict is not None:
        verdicts.append(plan.verdict)
    return next((one for one in verdicts if one.reason not in NOT_ITS_FAULT), None)


def _fails_checks(canary: CanaryView, mine: Sequence[ReplicaView]) -> Verdict | None:
    """At every gateway, three times in a row, while its machine is there: the share of it would wait in vain."""
    routed = [
        one for one in mine if one.state is ReplicaState.ROUTED and not one.unreachable and not one.doubted
    ]
    failing = [one.failing for one in routed if one.failing is not None]
    return verdict_when_failing(failing, len(routed), canary.container.health_path) if failing else None


def _cannot_start(canary: CanaryView, mine: Sequence[ReplicaView], plan: Plan) -> Verdict | None:
    """What serves had room and credit; a canary waits for neither. Unless something of it leaves, and gives room back."""
    container = canary.container
    if plan.create_slots or any(one.state in LIVE or one.state is ReplicaState.DRAINING for one in mine):
        return None
    if container.pulling:
        return None
    slots = set(container.slots)
    if slots and slots <= container.unpayable_slots:
        return container.unpayable_because
    spent = container.allowance_spent
    if spent is not None and slots and slots <= spent.slots:
        return spent.verdict
    return Verdict(Reason.NO_CAPACITY, container.no_room_message) if container.room_for <= 0 else None


def _undecided(canary: CanaryView, now: datetime) -> Verdict | None:
    if now - canary.begun_at < canary.longest:
        return None
    hours = canary.longest.total_seconds() / 3600
    return Verdict(Reason.ROLLED_BACK, f"Nobody promoted it within {hours:g} hours.")


def _why_promoted(canary: CanaryView, serves: bool, now: datetime) -> str | None:
    if not serves or canary.serving_since is None:
        return None
    if canary.promoted_by is not None:
        return "It was promoted."
    if canary.promote_after is None or now - canary.serving_since < canary.promote_after:
        return None
    figures = canary.figures
    if figures.answers < canary.least_answers:
        return None
    minutes = canary.promote_after.total_seconds() / 60
    return (
        f"It served well for {minutes:g} minutes: {figures.error_percent:.1f} % of its {figures.answers:,} answers were "
        "errors."
    )
