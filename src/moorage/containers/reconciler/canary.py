"""What a pass knows of a canary: the version on trial as something to be loaded, viewed and judged like a container."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from moorage.containers.activity import SYSTEM
from moorage.containers.models import ReplicaRow
from moorage.containers.planning.canary_plan import CanaryPlan, CanaryView
from moorage.containers.reconciler.canary_row import is_of_canary
from moorage.containers.reconciler.funding import Funded
from moorage.containers.reconciler.loading_repository import Loaded
from moorage.containers.rollout import FIRST_CANARY_SLOT, Rollout
from moorage.containers.states import DesiredState, Reason
from moorage.containers.update_rule import Figures, errors_above_bound, slower_than_before
from moorage.containers.verdict import Verdict
from moorage.containers.views import ContainerView, Plan
from moorage.kit.settings import Settings


def loaded_canary(loaded: Loaded) -> Loaded | None:
    """None where there is none, or nothing of the container is to run: then it goes as everything else of it does.

    All replicas are in it, as they are in what is loaded of the container: the slots and their hours are of both."""
    if loaded.canary is None or loaded.desired_state is not DesiredState.RUNNING:
        return None
    return replace(
        loaded,
        container=loaded.canary,
        host=loaded.container,
        first_slot=FIRST_CANARY_SLOT,
        failures=loaded.canary_failures,
        approval=None,
    )


def of_canary(loaded: Loaded, canary: Loaded | None) -> tuple[list[ReplicaRow], list[ReplicaRow]]:
    """The replicas of the version that serves, and those of the one on trial."""
    row = canary.container if canary is not None else None
    mine = [one for one in loaded.replicas if is_of_canary(one, row)]
    return [one for one in loaded.replicas if not is_of_canary(one, row)], mine


def canary_view(loaded: Loaded, view: ContainerView, settings: Settings) -> CanaryView:
    rollout = Rollout.from_json(loaded.container.rollout)
    assert rollout is not None, "a canary has one"
    called_off = None
    if rollout.called_off_by == SYSTEM:
        called_off = Verdict(Reason.IMAGE_NOT_FOUND, "Its image is no longer on its machine.")
    elif rollout.called_off_by is not None:
        called_off = Verdict(Reason.ROLLED_BACK, "It was aborted.")
    new, old = (loaded.figures.get(one, Figures()) for one in (rollout.version, rollout.from_version))
    above_bound = errors_above_bound(new, old, settings.update_error_percent) or slower_than_before(
        new, old, settings.canary_slower_percent, settings.canary_least_answers
    )
    after_s = rollout.promote_after_s
    return CanaryView(
        container=view,
        begun_at=rollout.begun_at,
        longest=timedelta(seconds=settings.canary_longest_s),
        from_version=rollout.from_version,
        above_bound=above_bound,
        called_off=called_off,
        promoted_by=rollout.promoted_by,
        promote_after=timedelta(seconds=after_s) if after_s is not None else None,
        serving_since=rollout.serving_since,
        figures=new,
        least_answers=settings.canary_least_answers,
    )


def with_canary(plan: Plan, canary: CanaryPlan | None) -> Plan:
    """What is planned for the replicas of both."""
    if canary is None:
        return plan
    more = canary.plan
    waits = [one for one in (plan.look_again_in_s, more.look_again_in_s) if one is not None]
    return replace(
        plan,
        create_slots=tuple(dict.fromkeys((*plan.create_slots, *more.create_slots))),
        hold_slots=(*plan.hold_slots, *more.hold_slots),
        transitions=(*plan.transitions, *more.transitions),
        look_again_in_s=min(waits, default=None),
    )


def funded_slots(funded: Funded, plan: Plan) -> Sequence[int]:
    return [slot for slot in plan.create_slots if slot in funded.create_slots]
