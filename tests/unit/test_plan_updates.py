"""Two versions beside each other: which replicas come and go at each moment, and what never happens."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_plan import NOW, container, replica

from moorage.containers.planning.plan import make_plan
from moorage.containers.states import LIVE, DesiredState, Reason, ReplicaState, TrialStep
from moorage.containers.verdict import Verdict
from moorage.containers.views import Beside, ContainerView, Plan, ReplicaView
from moorage.kit.ids import ReplicaId

OLD, NEW = 1, 2
WATCH = timedelta(seconds=180)
BESIDE = Beside(old_generation=OLD, begun_at=NOW - timedelta(seconds=30), watch=WATCH)
ERRORS = Verdict(Reason.ERRORS_ABOVE_BOUND, "6.4 % of its 1,208 answers were errors.")


def update(**changes: object) -> ContainerView:
    view = container(
        desired_replicas=2, generation=NEW, serving_generation=OLD, trial=TrialStep.PROVE, beside=BESIDE
    )
    return replace(view, **changes)  # type: ignore[arg-type]


def one(
    generation: int, slot: int, state: ReplicaState = ReplicaState.ROUTED, since_s: float = 10, **more: object
) -> ReplicaView:
    return replica(
        state,
        slot,
        id=ReplicaId(f"rep_{generation}_{slot}"),
        generation=generation,
        routed_at=NOW - timedelta(seconds=since_s) if state is ReplicaState.ROUTED else None,
        taking_requests=state is ReplicaState.ROUTED,
        at_gateways=state is ReplicaState.ROUTED,
        **more,
    )


def drained(plan: Plan) -> set[str]:
    return {move.replica_id for move in plan.transitions if move.to is ReplicaState.DRAINING}


BOTH_OLD = [one(OLD, 0), one(OLD, 1)]


def test_one_comes_before_the_others() -> None:
    plan = make_plan(update(), BOTH_OLD, NOW)
    assert (plan.create_slots, drained(plan)) == ((0,), set())
    waits = make_plan(update(), [*BOTH_OLD, one(NEW, 0, ReplicaState.STARTING)], NOW)
    assert (waits.create_slots, drained(waits)) == ((), set())
    serves = make_plan(update(), [*BOTH_OLD, one(NEW, 0)], NOW)
    assert (serves.create_slots, drained(serves)) == ((1,), set())


def test_a_slot_does_not_keep_both_for_as_long_as_the_slowest_takes() -> None:
    """Both use one hour: 59 replicas would serve for what 30 cost."""
    view = update(desired_replicas=30, health_timeout=timedelta(seconds=3600))
    old = [one(OLD, slot) for slot in range(30)]
    slow = one(NEW, 29, ReplicaState.STARTING, started_at=NOW - timedelta(seconds=3500))
    new = [one(NEW, slot, since_s=181) for slot in range(28)] + [one(NEW, 28, since_s=179), slow]
    plan = make_plan(view, [*old, *new], NOW)
    assert not plan.proven
    assert drained(plan) == {f"rep_1_{slot}" for slot in range(28)}


def test_all_of_a_version_that_has_nothing_to_prove_come_at_once() -> None:
    plan = make_plan(update(beside=replace(BESIDE, watch=timedelta())), BOTH_OLD, NOW)
    assert plan.create_slots == (0, 1)


def test_it_has_proven_itself_when_every_slot_has_and_the_time_is_over() -> None:
    news = [one(NEW, 0, since_s=181), one(NEW, 1)]
    plan = make_plan(update(), [*BOTH_OLD, *news], NOW)
    assert plan.proven
    assert drained(plan) == {"rep_1_0", "rep_1_1"}, "in the same pass"
    assert not make_plan(update(), [*BOTH_OLD, one(NEW, 0, since_s=179), one(NEW, 1)], NOW).proven
    assert not make_plan(update(), [*BOTH_OLD, news[0]], NOW).proven
    assert not make_plan(update(watched_since=NOW - timedelta(seconds=60)), [*BOTH_OLD, *news], NOW).proven


def test_without_room_an_old_one_goes_only_when_its_successor_serves() -> None:
    full = update(room_for=0, no_room_message="No room.")
    assert drained(make_plan(full, [*BOTH_OLD, one(NEW, 0, ReplicaState.STARTING)], NOW)) == set()
    plan = make_plan(full, [*BOTH_OLD, one(NEW, 0)], NOW)
    assert (drained(plan), plan.go_back) == ({"rep_1_0"}, None)
    leaving = [one(OLD, 0, ReplicaState.DRAINING), one(OLD, 1), one(NEW, 0)]
    assert drained(make_plan(full, leaving, NOW)) == set(), "one at a time"


@pytest.mark.parametrize("desired_state", list(DesiredState))
def test_an_image_is_fetched_only_for_what_is_to_run(desired_state: DesiredState) -> None:
    """One that is deleted, or whose organization is suspended, still has its draft on trial."""
    view = container(trial=TrialStep.PREPARE, desired_state=desired_state)
    plan = make_plan(view, [one(OLD, 0)], NOW)
    assert plan.prepare_trial == (desired_state is DesiredState.RUNNING)


@pytest.mark.parametrize("state", [ReplicaState.DRAINING, ReplicaState.STOPPED])
def test_the_room_of_what_leaves_is_waited_for(state: ReplicaState) -> None:
    """Also where the new one serves for longer than it may wait: a canary that was promoted, or a long drain."""
    asked_for = replace(BESIDE, begun_at=NOW - timedelta(hours=1))
    full = update(room_for=0, no_room_message="No room.", beside=asked_for)
    new = one(NEW, 0, since_s=3500)
    assert make_plan(full, [one(OLD, 0, state), one(OLD, 1), new], NOW).go_back is None
    nothing_leaves = make_plan(full, [one(OLD, 1), new], NOW)
    assert nothing_leaves.go_back == Verdict(Reason.NO_CAPACITY, "No room.")


def test_what_does_not_fit_at_all_is_given_up_at_once() -> None:
    plan = make_plan(update(room_for=0, no_room_message="No room."), BOTH_OLD, NOW)
    assert plan.go_back == Verdict(Reason.NO_CAPACITY, "No room.")
    assert drained(plan) == set()


def test_what_cannot_be_paid_is_given_up_at_once() -> None:
    view = update(unpayable_slots=frozenset({0, 1}))
    plan = make_plan(view, BOTH_OLD, NOW)
    assert plan.go_back == view.unpayable_because


def test_errors_end_all_of_it_where_something_else_answers() -> None:
    news = [one(NEW, 0), one(NEW, 1)]
    view = update(beside=replace(BESIDE, errors=ERRORS), serving_generation=NEW)
    plan = make_plan(view, [*BOTH_OLD, *news], NOW)
    assert (plan.go_back, drained(plan)) == (ERRORS, {"rep_2_0", "rep_2_1"})
    alone = make_plan(view, news, NOW)
    assert (alone.go_back, drained(alone)) == (ERRORS, set()), "a bad answer is not worse than none"


def test_an_old_one_that_ends_too_early_ends_the_update() -> None:
    ended = one(OLD, 1, observed=None)
    plan = make_plan(update(), [one(OLD, 0), ended, one(NEW, 0, ReplicaState.STARTING)], NOW)
    assert plan.go_back is not None
    assert plan.go_back.reason is Reason.NODE_LOST
    covered = make_plan(update(), [one(OLD, 0), ended, one(NEW, 0), one(NEW, 1)], NOW)
    assert covered.go_back is None, "its successor serves"


def test_an_old_one_that_is_not_ready_by_now_is_not_waited_for() -> None:
    plan = make_plan(update(), [one(OLD, 0), one(OLD, 1, ReplicaState.STARTING)], NOW)
    assert drained(plan) == {"rep_1_1"}


_STATES = st.sampled_from([None, *sorted(LIVE), ReplicaState.DRAINING])


@given(
    st.tuples(_STATES, _STATES),
    st.tuples(_STATES, _STATES),
    st.integers(0, 3),
    st.booleans(),
    st.sampled_from([0.0, 10.0, 500.0]),
    st.sampled_from([None, ERRORS]),
)
def test_a_slot_that_serves_goes_on_serving(
    old: tuple[ReplicaState | None, ...],
    new: tuple[ReplicaState | None, ...],
    room: int,
    payable: bool,
    since_s: float,
    errors: Verdict | None,
) -> None:
    """Whatever the two versions are at: no pass drains the last replica of a slot that is at the endpoint, but for one that
    answers errors while another slot's old one answers."""
    view = update(
        room_for=room,
        unpayable_slots=frozenset() if payable else frozenset({0, 1}),
        beside=replace(BESIDE, errors=errors),
    )
    seen = [
        one(generation, slot, state, since_s)
        for generation, states in ((OLD, old), (NEW, new))
        for slot, state in enumerate(states)
        if state is not None
    ]
    plan = make_plan(view, seen, NOW)
    gone = drained(plan)
    for slot in (0, 1):
        serving = [two for two in seen if two.slot == slot and two.state is ReplicaState.ROUTED]
        if serving and errors is None:
            assert [two for two in serving if two.id not in gone], "nothing of the slot is left"
    if any(two.state is ReplicaState.ROUTED for two in seen):
        assert any(two.state is ReplicaState.ROUTED and two.id not in gone for two in seen)
    assert not (plan.proven and plan.go_back)
    assert len(plan.create_slots) <= room
