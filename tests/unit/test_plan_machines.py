"""The plan where there are several machines: silence, loss, and replicas that move."""

from dataclasses import replace
from datetime import timedelta

import pytest
from test_plan import NOW, container, engine_says, moves, replica

from moorage.containers.planning.plan import make_plan
from moorage.containers.states import ContainerState, DesiredState, Reason, ReplicaState
from moorage.containers.verdict import Probe, ProbeFailure, Verdict
from moorage.containers.views import ReplicaView
from moorage.engines.base import Failure, ReplicaPhase
from moorage.machines.states import LOST_AFTER

FAILING = Probe(ProbeFailure.TIMEOUT)
SERVED = container(serving_generation=1)


def silent(
    state: ReplicaState, slot: int = 0, *, for_s: float | None = None, **changes: object
) -> ReplicaView:
    since = None if for_s is None else NOW - timedelta(seconds=for_s)
    return replica(state, slot, observed=None, unreachable=True, silent_since=since, **changes)


LONG = LOST_AFTER.total_seconds()


@pytest.mark.parametrize(
    ("view", "to"),
    [
        (silent(ReplicaState.ROUTED, for_s=LONG), None),
        (silent(ReplicaState.ROUTED, for_s=LONG - 1, failing=FAILING), None),
        (silent(ReplicaState.ROUTED, for_s=LONG, failing=FAILING), ReplicaState.STOPPED),
        # No other machine answers: it is not known for how long.
        (silent(ReplicaState.ROUTED, failing=FAILING), None),
        (silent(ReplicaState.ROUTED, machine_left=True), ReplicaState.STOPPED),
        (silent(ReplicaState.STARTING, for_s=LONG - 1), None),
        (silent(ReplicaState.STARTING, for_s=LONG), ReplicaState.STOPPED),
        (silent(ReplicaState.REQUESTED, for_s=LONG), ReplicaState.STOPPED),
        (silent(ReplicaState.REQUESTED, for_s=LONG, busy=True), ReplicaState.STOPPED),
        (silent(ReplicaState.READY, for_s=LONG, at_gateways=True), None),
        (
            silent(ReplicaState.DRAINING, for_s=LONG, taking_requests=False, in_flight=1, at_gateways=True),
            None,
        ),
        (silent(ReplicaState.DRAINING, for_s=LONG, taking_requests=False), ReplicaState.STOPPED),
        (silent(ReplicaState.STOPPED, for_s=1), None),
        (silent(ReplicaState.STOPPED, for_s=1, collected=True), ReplicaState.COLLECTED),
        (silent(ReplicaState.STOPPED, for_s=LONG), ReplicaState.COLLECTED),
        (silent(ReplicaState.COLLECTED, for_s=1), None),
        (silent(ReplicaState.COLLECTED, for_s=LONG), ReplicaState.REMOVED),
        (silent(ReplicaState.COLLECTED, for_s=LONG, at_gateways=True, ended_at=NOW), None),
    ],
)
def test_what_becomes_of_one_whose_engine_does_not_answer(view: ReplicaView, to: ReplicaState | None) -> None:
    plan = make_plan(replace(SERVED, room_for=1), [view], NOW)
    assert moves(plan) == ({} if to is None else {view.id: to})
    assert (plan.start, plan.stop, plan.kill, plan.remove) == ((), (), (), ())
    if to is None:
        assert plan.look_again_in_s is not None
        assert plan.look_again_in_s <= 5.0


@pytest.mark.parametrize(
    "seen",
    [
        silent(ReplicaState.REQUESTED, for_s=LONG - 5),
        silent(ReplicaState.STARTING, for_s=LONG),
        replica(ReplicaState.REQUESTED),
    ],
)
def test_machines_that_are_lost_one_after_the_other_give_no_container_up(seen: ReplicaView) -> None:
    """Its replica was lost, and so is the machine of the next: longer than its health timeout, and not for its sake."""
    lost = Verdict(Reason.NODE_LOST, "The machine of the replica does not answer any more.")
    late = container(serving_generation=1, unready_since=NOW - timedelta(seconds=61), last_failure=lost)
    assert not make_plan(late, [seen], NOW).failed
    its_own = replace(late, last_failure=Verdict(Reason.EXITED, "It ended."))
    assert make_plan(its_own, [replica(ReplicaState.REQUESTED)], NOW).failed


def test_two_that_move_in_one_slot_are_one_too_many() -> None:
    serves = replica(ReplicaState.ROUTED, id="rep_a", moving=True, created_at=NOW - timedelta(hours=1))
    starts = replica(ReplicaState.STARTING, id="rep_b", moving=True, created_at=NOW)
    plan = make_plan(replace(SERVED, room_for=0), [serves, starts], NOW)
    assert moves(plan) == {starts.id: ReplicaState.DRAINING}
    # Not for one that nobody reaches, and with a third that serves both go.
    cut_off = replace(serves, failing=FAILING)
    assert moves(make_plan(replace(SERVED, room_for=0), [cut_off, starts], NOW)) == {}
    third = replica(ReplicaState.ROUTED, id="rep_c", created_at=NOW)
    plan = make_plan(replace(SERVED, room_for=0), [serves, starts, third], NOW)
    assert moves(plan) == dict.fromkeys((serves.id, starts.id), ReplicaState.DRAINING)


def test_what_is_lost_is_no_fault_of_its_own_and_its_slot_is_filled() -> None:
    lost = silent(ReplicaState.ROUTED, for_s=LONG, failing=FAILING)
    plan = make_plan(SERVED, [lost], NOW)
    [move] = plan.transitions
    assert move.verdict is not None
    assert move.verdict.reason is Reason.NODE_LOST
    after = make_plan(
        replace(SERVED, recent_failures=((0, NOW),), last_failure=move.verdict),
        [replace(lost, state=ReplicaState.STOPPED, at_gateways=False)],
        NOW + timedelta(seconds=2),
    )
    assert after.create_slots == (0,)
    assert not after.failed


def test_a_machine_that_is_silent_while_nobody_looked_gets_its_time() -> None:
    view = silent(ReplicaState.ROUTED, for_s=3600, failing=FAILING)
    back = replace(SERVED, watched_since=NOW - timedelta(seconds=5))
    assert moves(make_plan(back, [view], NOW)) == {}


def test_stopped_by_its_owner_it_ends_without_a_reason() -> None:
    stopped = replace(SERVED, desired_state=DesiredState.STOPPED)
    plan = make_plan(stopped, [silent(ReplicaState.ROUTED, for_s=LONG, failing=FAILING)], NOW)
    assert [move.verdict for move in plan.transitions if move.to is ReplicaState.STOPPED] == [None]


def test_what_its_engine_is_at_is_not_started_again() -> None:
    for phase in (ReplicaPhase.WAITING, ReplicaPhase.PULLING):
        seen = replace(engine_says(replica(ReplicaState.REQUESTED).id, phase), host=None, host_port=None)
        plan = make_plan(container(), [replica(ReplicaState.REQUESTED, observed=seen)], NOW)
        assert (moves(plan), plan.start) == ({}, ())
        going = make_plan(
            container(desired_state=DesiredState.STOPPED),
            [replica(ReplicaState.DRAINING, observed=seen)],
            NOW,
        )
        assert moves(going) == {"rep_0": ReplicaState.STOPPED}
    created = engine_says(replica(ReplicaState.REQUESTED).id, ReplicaPhase.CREATED)
    assert make_plan(container(), [replica(ReplicaState.REQUESTED, observed=created)], NOW).start == (
        "rep_0",
    )


def test_a_failure_that_is_seen_later_ends_it_like_one_that_was_raised() -> None:
    name = replica(ReplicaState.REQUESTED).id
    failure = Failure("start_command_not_found", "The start command was not found.")
    seen = replace(engine_says(name, ReplicaPhase.CREATED), failure=failure)
    plan = make_plan(container(), [replica(ReplicaState.REQUESTED, observed=seen)], NOW)
    assert moves(plan) == {name: ReplicaState.STOPPED}
    assert (plan.state, plan.failed) == (ContainerState.FAILED, True)
    assert plan.verdict is not None
    assert plan.verdict.reason is Reason.START_COMMAND_NOT_FOUND


def test_one_that_moves_serves_until_its_successor_does() -> None:
    moving = replica(ReplicaState.ROUTED, moving=True)
    plan = make_plan(SERVED, [moving], NOW)
    assert (plan.create_slots, moves(plan), plan.state) == ((0,), {}, ContainerState.RUNNING)
    # Nothing has room: it stays.
    full = make_plan(replace(SERVED, room_for=0), [moving], NOW)
    assert (full.create_slots, moves(full), full.verdict) == ((), {}, None)
    for state in (ReplicaState.REQUESTED, ReplicaState.STARTING, ReplicaState.READY):
        coming = replace(replica(state), id=replica(state, 7).id)
        assert moving.id not in moves(make_plan(SERVED, [moving, coming], NOW)), state
    serves = replace(replica(ReplicaState.ROUTED), id=replica(ReplicaState.ROUTED, 7).id)
    assert moves(make_plan(SERVED, [moving, serves], NOW)) == {moving.id: ReplicaState.DRAINING}


def test_what_serves_does_not_give_way_to_one_that_came_up_and_answers_nothing_any_more() -> None:
    silent = replica(ReplicaState.ROUTED, id="rep_next", failing_since=NOW - timedelta(seconds=5))
    for serves in (
        replica(ReplicaState.ROUTED, moving=True),
        replica(ReplicaState.ROUTED, generation=0),
    ):
        assert serves.id not in moves(make_plan(SERVED, [serves, silent], NOW))
        answers = replace(silent, failing_since=None)
        assert moves(make_plan(SERVED, [serves, answers], NOW)) == {serves.id: ReplicaState.DRAINING}


def test_while_the_image_is_brought_to_its_machine_it_says_so() -> None:
    plan = make_plan(container(bringing_image=True), [replica(ReplicaState.REQUESTED, busy=True)], NOW)
    assert plan.state is ContainerState.PULLING
