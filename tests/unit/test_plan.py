"""Timelines of one container: what the plan does at each moment, and what it must never do."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from moorage.containers.planning.next_look import LOOK_AGAIN_S
from moorage.containers.planning.plan import make_plan
from moorage.containers.states import LIVE, ContainerState, DesiredState, Reason, ReplicaState, TrialStep
from moorage.containers.verdict import Probe, ProbeFailure, Verdict
from moorage.containers.views import ContainerView, Plan, ReplicaView
from moorage.engines.base import ListeningSocket, ObservedReplica, ReplicaPhase
from moorage.kit.ids import ContainerId, ReplicaId

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
EXITED = Verdict(Reason.EXITED, "The process ended with exit code 1. See its last log lines.")


def container(**changes: object) -> ContainerView:
    view = ContainerView(
        desired_state=DesiredState.RUNNING,
        desired_replicas=1,
        generation=1,
        failed_generation=0,
        serving_generation=0,
        unready_since=None,
        image_known=True,
        pulling=False,
        port=8000,
        health_path="/health",
        health_timeout=timedelta(seconds=60),
        drain_limit=timedelta(seconds=30),
        memory_bytes=2**30,
        disk_bytes=10 * 2**30,
        room_for=10,
        no_room_message="Waits for cpu-small.",
        recent_failures=(),
        last_failure=None,
    )
    return replace(view, **changes)  # type: ignore[arg-type]


def replica(state: ReplicaState, slot: int = 0, **changes: object) -> ReplicaView:
    name = ReplicaId(f"rep_{slot}")
    phase = (
        ReplicaPhase.EXITED
        if state in (ReplicaState.STOPPED, ReplicaState.COLLECTED)
        else ReplicaPhase.RUNNING
    )
    view = ReplicaView(
        id=name,
        slot=slot,
        generation=1,
        state=state,
        created_at=NOW - timedelta(seconds=5),
        started_at=NOW - timedelta(seconds=4),
        draining_at=NOW - timedelta(seconds=1) if state is ReplicaState.DRAINING else None,
        ended_at=None,
        collected=False,
        observed=None if state is ReplicaState.REQUESTED else engine_says(name, phase),
        probe=None,
        sockets=(),
        busy=False,
        at_gateways=state is ReplicaState.ROUTED,
        taking_requests=state is ReplicaState.ROUTED,
        in_flight=0,
    )
    return replace(view, **changes)  # type: ignore[arg-type]


def engine_says(
    name: ReplicaId, phase: ReplicaPhase, exit_code: int | None = None, oom: bool = False
) -> ObservedReplica:
    return ObservedReplica(
        replica_id=name,
        container_id=ContainerId("ctr_a"),
        slot=0,
        generation=1,
        engine_id=f"engine-{name}",
        phase=phase,
        host="127.0.0.1",
        host_port=20000,
        started_at=NOW - timedelta(seconds=4),
        ended_at=NOW if phase is ReplicaPhase.EXITED else None,
        exit_code=exit_code,
        out_of_memory=oom,
    )


def moves(plan: Plan) -> dict[str, ReplicaState]:
    return {move.replica_id: move.to for move in plan.transitions}


def test_a_new_container_asks_for_its_image_first() -> None:
    plan = make_plan(container(image_known=False), [], NOW)
    assert plan.ensure_image
    assert plan.create_slots == ()
    assert plan.state is ContainerState.PENDING


def test_while_the_image_is_pulled_it_says_so_and_asks_only_once() -> None:
    plan = make_plan(container(image_known=False, pulling=True), [], NOW)
    assert plan.state is ContainerState.PULLING
    assert not plan.ensure_image


def test_with_the_image_every_slot_gets_a_row() -> None:
    plan = make_plan(container(desired_replicas=3), [], NOW)
    assert plan.create_slots == (0, 1, 2)
    assert plan.state is ContainerState.STARTING


def test_only_as_many_as_there_is_room_for() -> None:
    assert make_plan(container(desired_replicas=3, room_for=2), [], NOW).create_slots == (0, 1)


def test_without_any_room_it_waits_and_says_for_what() -> None:
    plan = make_plan(container(room_for=0), [], NOW)
    assert (plan.state, plan.verdict and plan.verdict.reason) == (ContainerState.PENDING, Reason.NO_CAPACITY)
    assert plan.look_again_in_s is not None


def test_one_that_serves_says_what_its_other_replicas_wait_for() -> None:
    serving = [replica(ReplicaState.ROUTED, slot) for slot in (0, 1)]
    full = container(desired_replicas=3, serving_generation=1, room_for=0)
    plan = make_plan(full, serving, NOW)
    assert plan.state is ContainerState.RUNNING
    assert plan.verdict == Verdict(Reason.NO_CAPACITY, "2 of 3 replicas run. Waits for cpu-small.")
    unpaid = make_plan(replace(full, room_for=5, unpayable_slots=frozenset({2})), serving, NOW)
    assert unpaid.verdict is not None
    assert unpaid.verdict.message == f"2 of 3 replicas run. {full.unpayable_because.message}"
    refused = Verdict(Reason.AWAITING_APPROVAL, "Three are too many.")
    asked = make_plan(replace(full, approval=refused), serving, NOW)
    assert asked.verdict == replace(refused, message="2 of 3 replicas run. Three are too many.")
    leaving = replica(ReplicaState.DRAINING, 2)
    for others, view in (((), replace(full, room_for=1)), ((leaving,), full)):
        assert make_plan(view, [*serving, *others], NOW).verdict is None


def test_a_requested_replica_is_started_again_after_a_crash() -> None:
    assert make_plan(container(), [replica(ReplicaState.REQUESTED)], NOW).start == ("rep_0",)


def test_but_not_while_its_start_is_under_way() -> None:
    assert make_plan(container(), [replica(ReplicaState.REQUESTED, busy=True)], NOW).start == ()


def test_a_lost_reply_is_adopted() -> None:
    found = replica(ReplicaState.REQUESTED, observed=engine_says(ReplicaId("rep_0"), ReplicaPhase.RUNNING))
    plan = make_plan(container(), [found], NOW)
    assert moves(plan) == {"rep_0": ReplicaState.STARTING}
    assert plan.start == ()


def test_ready_when_the_probe_passes_and_running_only_once_a_gateway_has_it() -> None:
    plan = make_plan(container(), [replica(ReplicaState.STARTING, probe=Probe(None, 200))], NOW)
    assert moves(plan) == {"rep_0": ReplicaState.READY}
    assert plan.state is ContainerState.STARTING
    plan = make_plan(container(), [replica(ReplicaState.READY, taking_requests=True, at_gateways=True)], NOW)
    assert moves(plan) == {"rep_0": ReplicaState.ROUTED}
    assert plan.state is ContainerState.RUNNING


def test_a_running_container_needs_no_further_look() -> None:
    plan = make_plan(container(serving_generation=1), [replica(ReplicaState.ROUTED)], NOW)
    assert plan.look_again_in_s is None
    assert plan.transitions == ()


def test_what_ends_before_it_ever_served_fails_the_deployment() -> None:
    ended = replica(
        ReplicaState.STARTING, observed=engine_says(ReplicaId("rep_0"), ReplicaPhase.EXITED, exit_code=1)
    )
    plan = make_plan(container(), [ended], NOW)
    assert plan.failed
    assert plan.state is ContainerState.FAILED
    assert plan.verdict == EXITED
    assert plan.create_slots == ()


def test_what_came_up_with_its_cache_before_and_does_not_now_is_told_that_it_may_be_broken() -> None:
    exited = engine_says(ReplicaId("rep_0"), ReplicaPhase.EXITED, exit_code=1)
    late = {"started_at": NOW - timedelta(seconds=61), "probe": Probe(ProbeFailure.REFUSED)}
    for how in ({"observed": exited}, late):
        starting = replica(ReplicaState.STARTING, cache_worked=True, **how)
        said = make_plan(container(), [starting], NOW).verdict
        assert said is not None
        assert "The same settings started from its cache before, so the cache may be damaged." in said.message
        assert "moor caches delete" in said.message
        first = make_plan(container(), [replace(starting, cache_worked=False)], NOW).verdict
        assert first is not None
        assert said.message.startswith(first.message)
        assert "cache" not in first.message
    # One that serves ends for other reasons.
    serves = replica(ReplicaState.ROUTED, cache_worked=True, observed=exited)
    (move,) = make_plan(container(serving_generation=1), [serves], NOW).transitions
    assert move.verdict == EXITED


def test_out_of_memory_is_named() -> None:
    ended = replica(
        ReplicaState.STARTING,
        observed=engine_says(ReplicaId("rep_0"), ReplicaPhase.EXITED, exit_code=137, oom=True),
    )
    verdict = make_plan(container(), [ended], NOW).verdict
    assert verdict is not None
    assert verdict.reason is Reason.OUT_OF_MEMORY
    assert "1 GiB" in verdict.message


def test_one_replica_that_ends_does_not_fail_the_others() -> None:
    ended = replica(
        ReplicaState.STARTING, 0, observed=engine_says(ReplicaId("rep_0"), ReplicaPhase.EXITED, exit_code=1)
    )
    plan = make_plan(container(desired_replicas=2), [ended, replica(ReplicaState.STARTING, 1)], NOW)
    assert not plan.failed
    assert plan.state is ContainerState.STARTING


def test_after_the_health_timeout_the_verdict_says_what_is_wrong() -> None:
    late = replica(
        ReplicaState.STARTING,
        started_at=NOW - timedelta(seconds=61),
        probe=Probe(ProbeFailure.REFUSED),
        sockets=(ListeningSocket("127.0.0.1", 8000),),
    )
    plan = make_plan(container(), [late], NOW)
    assert plan.state is ContainerState.FAILED
    assert plan.verdict is not None
    assert plan.verdict.reason is Reason.LISTENS_ON_LOOPBACK_ONLY
    assert plan.verdict.message.startswith("Listens on 127.0.0.1:8000; expected 0.0.0.0:8000.")
    assert plan.stop == ("rep_0",)


def test_a_served_container_replaces_what_ended_after_a_pause() -> None:
    served = container(serving_generation=1, recent_failures=((0, NOW),), last_failure=EXITED)
    plan = make_plan(served, [replica(ReplicaState.STOPPED, ended_at=NOW)], NOW)
    assert plan.create_slots == ()
    assert plan.state is ContainerState.STARTING
    assert plan.look_again_in_s is not None
    assert plan.look_again_in_s <= 1.0
    later = make_plan(served, [replica(ReplicaState.STOPPED, ended_at=NOW)], NOW + timedelta(seconds=1.1))
    assert later.create_slots == (0,)


def test_the_pause_doubles_up_to_a_minute() -> None:
    failures = tuple((0, NOW - timedelta(seconds=index)) for index in range(20))
    served = container(serving_generation=1, recent_failures=failures, last_failure=EXITED)
    assert make_plan(served, [], NOW + timedelta(seconds=59)).create_slots == ()
    assert make_plan(served, [], NOW + timedelta(seconds=61)).create_slots == (0,)


def test_the_pause_begins_in_the_pass_that_sees_the_end() -> None:
    ended = replica(
        ReplicaState.ROUTED, observed=engine_says(ReplicaId("rep_0"), ReplicaPhase.EXITED, exit_code=1)
    )
    plan = make_plan(container(serving_generation=1), [ended], NOW)
    assert moves(plan) == {"rep_0": ReplicaState.STOPPED}
    assert plan.create_slots == ()


def test_a_served_container_that_comes_back_at_the_last_moment_does_not_fail() -> None:
    late = container(serving_generation=1, unready_since=NOW - timedelta(seconds=61), last_failure=EXITED)
    back = replica(ReplicaState.READY, taking_requests=True, at_gateways=True)
    plan = make_plan(late, [back], NOW)
    assert (plan.failed, plan.state) == (False, ContainerState.RUNNING)


def test_a_served_container_that_answers_again_after_nobody_looked_for_long_does_not_fail() -> None:
    """The controller or the engine was away for longer than the health timeout; no gateway has it yet."""
    late = container(serving_generation=1, unready_since=NOW - timedelta(hours=1), last_failure=EXITED)
    answers = replica(ReplicaState.STARTING, probe=Probe(None, 200), started_at=NOW - timedelta(hours=1))
    plan = make_plan(late, [answers], NOW)
    assert (plan.failed, moves(plan)) == (False, {"rep_0": ReplicaState.READY})
    assert plan.state is ContainerState.STARTING
    silent = replica(
        ReplicaState.STARTING, probe=Probe(ProbeFailure.TIMEOUT), started_at=NOW - timedelta(hours=1)
    )
    assert make_plan(late, [silent], NOW).failed


def test_a_replica_that_was_created_but_never_ran_does_not_drain_for_ever() -> None:
    never_ran = engine_says(ReplicaId("rep_0"), ReplicaPhase.CREATED)
    stopping = container(desired_state=DesiredState.STOPPED)
    plan = make_plan(stopping, [replica(ReplicaState.DRAINING, observed=never_ran)], NOW)
    assert moves(plan) == {"rep_0": ReplicaState.STOPPED}
    busy = replica(ReplicaState.DRAINING, observed=never_ran, busy=True)
    assert moves(make_plan(stopping, [busy], NOW)) == {}


DOUBT = Verdict(Reason.NODE_LOST, "3 of 4 replicas on the machine one are missing at once.")


def missing(state: ReplicaState, slot: int = 0, **changes: object) -> ReplicaView:
    return replica(state, slot, observed=None, doubted=True, **changes)


def test_what_is_missing_in_doubt_is_neither_replaced_nor_shown_as_serving() -> None:
    wanted = container(desired_replicas=2, serving_generation=1, doubt=DOUBT)
    plan = make_plan(wanted, [missing(ReplicaState.ROUTED), missing(ReplicaState.ROUTED, 1)], NOW)
    assert (moves(plan), plan.create_slots, plan.in_doubt) == ({}, (), True)
    assert (plan.state, plan.verdict) == (ContainerState.STARTING, DOUBT)
    assert plan.look_again_in_s is not None
    half = make_plan(wanted, [missing(ReplicaState.ROUTED), replica(ReplicaState.ROUTED, 1)], NOW)
    assert (half.state, half.verdict) == (ContainerState.RUNNING, DOUBT)


def test_time_in_doubt_does_not_count_against_a_container() -> None:
    long_ago = NOW - timedelta(minutes=10)
    wanted = container(serving_generation=1, unready_since=long_ago, doubt=DOUBT, last_failure=EXITED)
    assert not make_plan(wanted, [missing(ReplicaState.ROUTED)], NOW).failed


def test_doubt_is_never_in_the_way_of_a_stop() -> None:
    for wish in (DesiredState.STOPPED, DesiredState.DELETED):
        going = container(desired_state=wish, serving_generation=1, doubt=DOUBT)
        assert moves(make_plan(going, [missing(ReplicaState.ROUTED)], NOW)) == {
            "rep_0": ReplicaState.DRAINING
        }
        draining = make_plan(going, [missing(ReplicaState.DRAINING)], NOW)
        assert moves(draining) == {"rep_0": ReplicaState.STOPPED}
        assert not draining.in_doubt


def test_a_deployment_does_not_fail_because_its_machine_lost_it() -> None:
    lost = replica(ReplicaState.STARTING, observed=None)
    plan = make_plan(container(), [lost], NOW)
    assert moves(plan) == {"rep_0": ReplicaState.STOPPED}
    assert (plan.failed, plan.state) == (False, ContainerState.STARTING)


def test_while_a_health_check_is_under_way_nobody_has_to_look() -> None:
    young = replica(ReplicaState.STARTING, started_at=NOW)
    assert make_plan(container(), [young], NOW).look_again_in_s == 0.05
    assert make_plan(container(), [replace(young, probing=True)], NOW).look_again_in_s == 1.0


def test_a_slot_that_is_wanted_again_waits_for_the_end_of_what_drains_in_it() -> None:
    resumed = container(serving_generation=1)
    assert make_plan(resumed, [replica(ReplicaState.DRAINING)], NOW).create_slots == ()
    assert make_plan(resumed, [replica(ReplicaState.STOPPED)], NOW).create_slots == (0,)
    failed = replica(ReplicaState.DRAINING, replaced=True)
    assert make_plan(resumed, [failed], NOW).create_slots == (0,), "what failed is replaced at once"
    both = [failed, replace(failed, id=ReplicaId("rep_after_it"))]
    assert make_plan(resumed, both, NOW).create_slots == (), "its successor failed too, and neither has ended"
    ended = replace(failed, state=ReplicaState.STOPPED)
    assert make_plan(resumed, [ended, both[1]], NOW).create_slots == (0,)
    before = replica(ReplicaState.DRAINING, generation=0)
    assert make_plan(resumed, [before], NOW).create_slots == (0,), "another generation comes beside it"


def test_an_engine_that_fails_its_calls_is_named() -> None:
    for known in (False, True):
        verdict = make_plan(container(image_known=known, engine_failing=True), [], NOW).verdict
        assert verdict is not None
        assert verdict.reason is Reason.ENGINE_ERROR


def test_a_served_container_that_does_not_come_back_fails() -> None:
    gone = container(serving_generation=1, unready_since=NOW - timedelta(seconds=61), last_failure=EXITED)
    plan = make_plan(gone, [], NOW)
    assert (plan.failed, plan.state, plan.verdict) == (True, ContainerState.FAILED, EXITED)


HOUR = timedelta(hours=1)


def test_time_in_which_nobody_looked_does_not_count_against_a_container() -> None:
    """The controller was away for an hour, nothing of it lives, and it gets its whole time from when somebody looks."""
    back = container(serving_generation=1, unready_since=NOW - HOUR, last_failure=EXITED, watched_since=NOW)
    plan = make_plan(back, [], NOW)
    assert (plan.failed, plan.create_slots, plan.state) == (False, (0,), ContainerState.STARTING)
    ended = replica(ReplicaState.ROUTED, observed=engine_says(ReplicaId("rep_0"), ReplicaPhase.EXITED, 1))
    plan = make_plan(back, [ended], NOW)
    assert (plan.failed, moves(plan)) == (False, {"rep_0": ReplicaState.STOPPED})
    assert not make_plan(back, [], NOW + timedelta(seconds=59)).failed
    assert make_plan(back, [], NOW + timedelta(seconds=61)).failed, "hope ends all the same"


def test_a_start_that_nobody_looked_at_gets_its_time_when_somebody_does() -> None:
    starts = replica(ReplicaState.STARTING, started_at=NOW - HOUR, probe=Probe(ProbeFailure.TIMEOUT))
    back = container(watched_since=NOW - timedelta(seconds=59))
    assert moves(make_plan(back, [starts], NOW)) == {}
    assert moves(make_plan(back, [starts], NOW + timedelta(seconds=2))) == {"rep_0": ReplicaState.DRAINING}


def test_a_drain_that_nobody_watched_gets_its_time_when_somebody_does() -> None:
    """Also when the gateways hear of it only now."""
    back = container(desired_state=DesiredState.STOPPED, serving_generation=1, watched_since=NOW)
    drains = replica(ReplicaState.DRAINING, draining_at=NOW - HOUR, in_flight=1, at_gateways=True)
    plan = make_plan(back, [drains], NOW)
    assert (plan.stop, plan.look_again_in_s) == ((), 1.0)
    assert make_plan(back, [drains], NOW + timedelta(seconds=30)).stop == ("rep_0",)


def test_logs_and_gateways_have_their_time_after_nobody_looked() -> None:
    back = container(desired_state=DesiredState.STOPPED, watched_since=NOW)
    ended = replica(ReplicaState.STOPPED, ended_at=NOW - HOUR)
    assert moves(make_plan(back, [ended], NOW)) == {}
    assert moves(make_plan(back, [ended], NOW + timedelta(seconds=61))) == {"rep_0": ReplicaState.COLLECTED}
    held = replica(ReplicaState.COLLECTED, ended_at=NOW - HOUR, observed=None, at_gateways=True)
    assert moves(make_plan(back, [held], NOW)) == {}
    assert moves(make_plan(back, [held], NOW + timedelta(seconds=61))) == {"rep_0": ReplicaState.REMOVED}


def test_a_moment_that_lies_ahead_counts_from_when_the_clock_was_found_set_back() -> None:
    back = container(desired_state=DesiredState.STOPPED, serving_generation=1, watched_since=NOW)
    drains = replica(ReplicaState.DRAINING, draining_at=NOW + HOUR, in_flight=1, at_gateways=True)
    assert make_plan(back, [drains], NOW).stop == ()
    assert make_plan(back, [drains], NOW + timedelta(seconds=30)).stop == ("rep_0",)


def test_stop_drains_first_and_stops_when_nothing_is_in_flight() -> None:
    stopping = container(desired_state=DesiredState.STOPPED, serving_generation=1)
    plan = make_plan(stopping, [replica(ReplicaState.ROUTED)], NOW)
    assert moves(plan) == {"rep_0": ReplicaState.DRAINING}
    assert plan.stop == ()
    assert plan.state is ContainerState.STOPPING
    busy = replica(ReplicaState.DRAINING, at_gateways=True, in_flight=2)
    assert make_plan(stopping, [busy], NOW).stop == ()
    assert make_plan(stopping, [replica(ReplicaState.DRAINING)], NOW).stop == ("rep_0",)


def test_while_a_stop_is_under_way_nobody_looks_many_times_a_second() -> None:
    """Its end asks for a pass; an engine that hangs must not cost twenty a second for every replica that waits for it."""
    stopping = container(desired_state=DesiredState.STOPPED)
    overdue = replica(ReplicaState.DRAINING, busy=True, draining_at=NOW - timedelta(hours=1))
    assert make_plan(stopping, [overdue], NOW).look_again_in_s == LOOK_AGAIN_S


def test_a_drain_has_a_limit() -> None:
    stuck = replica(
        ReplicaState.DRAINING, at_gateways=True, in_flight=2, draining_at=NOW - timedelta(seconds=30)
    )
    assert make_plan(container(desired_state=DesiredState.STOPPED), [stuck], NOW).stop == ("rep_0",)


def test_stopped_replicas_wait_for_their_logs_but_not_for_ever() -> None:
    stopping = container(desired_state=DesiredState.STOPPED)
    waiting = replica(ReplicaState.STOPPED, ended_at=NOW - timedelta(seconds=59))
    assert moves(make_plan(stopping, [waiting], NOW)) == {}
    assert make_plan(stopping, [waiting], NOW).state is ContainerState.STOPPED
    collected = replace(waiting, collected=True)
    assert moves(make_plan(stopping, [collected], NOW)) == {"rep_0": ReplicaState.COLLECTED}
    assert moves(make_plan(stopping, [waiting], NOW + timedelta(seconds=2))) == {
        "rep_0": ReplicaState.COLLECTED
    }


def test_a_gateway_that_stays_silent_does_not_hold_a_row_for_ever() -> None:
    deleting = container(desired_state=DesiredState.DELETED)
    ended_at = NOW - timedelta(seconds=60)
    held = replica(ReplicaState.COLLECTED, observed=None, ended_at=ended_at, at_gateways=True)
    assert moves(make_plan(deleting, [held], NOW)) == {}
    assert moves(make_plan(deleting, [held], NOW + timedelta(seconds=1))) == {"rep_0": ReplicaState.REMOVED}
    let_go = replace(held, at_gateways=False)
    assert moves(make_plan(deleting, [let_go], NOW)) == {"rep_0": ReplicaState.REMOVED}


def test_a_deleted_container_is_gone_when_nothing_is_left() -> None:
    deleting = container(desired_state=DesiredState.DELETED)
    assert not make_plan(deleting, [replica(ReplicaState.COLLECTED)], NOW).gone
    assert make_plan(deleting, [], NOW).gone


def test_a_restart_keeps_the_old_replica_until_the_new_one_is_routed() -> None:
    restarted = container(generation=2, serving_generation=1)
    old = replica(ReplicaState.ROUTED)
    new = replica(ReplicaState.READY, id=ReplicaId("rep_new"), generation=2)
    assert make_plan(restarted, [old], NOW).create_slots == (0,)
    assert moves(make_plan(restarted, [old, new], NOW)) == {}
    routed = replace(new, state=ReplicaState.ROUTED, taking_requests=True, at_gateways=True)
    assert moves(make_plan(restarted, [old, routed], NOW)) == {"rep_0": ReplicaState.DRAINING}


def test_a_restart_that_fails_leaves_the_old_replica_serving() -> None:
    restarted = container(generation=2, serving_generation=1)
    old = replica(ReplicaState.ROUTED)
    name = ReplicaId("rep_new")
    new = replica(
        ReplicaState.STARTING,
        id=name,
        generation=2,
        observed=engine_says(name, ReplicaPhase.EXITED, exit_code=1),
    )
    plan = make_plan(restarted, [old, new], NOW)
    assert plan.failed
    assert plan.state is ContainerState.RUNNING
    assert plan.verdict is not None
    assert plan.verdict.message.startswith("The restart failed, so the previous replicas keep running.")
    assert "rep_0" not in moves(plan)
    assert plan.resume is not None
    # The next pass reads what this one wrote.
    later = replace(restarted, failed_generation=2, last_failure=plan.verdict)
    assert make_plan(later, [old], NOW).verdict == plan.verdict
    resumed = replace(restarted, generation=3, failed_generation=2, serving_generation=3)
    told = make_plan(replace(resumed, restart_failure=plan.verdict), [replace(old, generation=3)], NOW)
    assert (told.state, told.verdict, told.resume) == (ContainerState.RUNNING, plan.verdict, None)


def test_what_does_not_serve_any_more_is_not_gone_back_to() -> None:
    failed = container(
        generation=2, serving_generation=1, failed_generation=2, last_failure=Verdict(Reason.EXITED, "Ended.")
    )
    old = replica(ReplicaState.ROUTED)
    assert make_plan(failed, [old], NOW).resume is not None
    gone = make_plan(failed, [replace(old, state=ReplicaState.STARTING)], NOW)
    assert (gone.state, gone.resume) == (ContainerState.FAILED, None)
    for other in (
        replace(failed, desired_state=DesiredState.STOPPED),
        replace(failed, desired_state=DesiredState.DELETED),
        replace(failed, trial=TrialStep.PREPARE),
        replace(failed, asleep_since=NOW),
        # Nothing could be started for it, and an image that is not found would end what serves.
        replace(failed, serving_image_known=False),
        # It would be refused again at once, with every pass.
        replace(failed, approval=Verdict(Reason.REPLICA_LIMIT_REFUSED, "Refused.")),
    ):
        assert make_plan(other, [old], NOW).resume is None


def test_without_room_for_both_an_old_replica_goes_first_one_at_a_time() -> None:
    restarted = container(generation=2, serving_generation=1, desired_replicas=2, room_for=0)
    old = [replica(ReplicaState.ROUTED, slot) for slot in range(2)]
    assert moves(make_plan(restarted, old, NOW)) == {"rep_0": ReplicaState.DRAINING}
    going = replica(ReplicaState.DRAINING)
    assert moves(make_plan(restarted, [going, old[1]], NOW)) == {}
    assert moves(make_plan(restarted, [old[1]], NOW)) == {}, "somebody else took the room: no less than this"
    coming = replica(ReplicaState.STARTING, id=ReplicaId("rep_new"), generation=2)
    assert moves(make_plan(restarted, [coming, old[1]], NOW)) == {}
    assert moves(make_plan(replace(restarted, image_known=False), old, NOW)) == {}, (
        "not before its image is here"
    )


@given(st.integers(1, 5), st.integers(0, 3))
def test_a_restart_keeps_as_many_serving_as_fit(count: int, spare: int) -> None:
    """Played to its end, with room for so many more: all but one serve at every moment, all of them if one more fits."""
    view = container(generation=2, serving_generation=1, desired_replicas=count)
    replicas = [replica(ReplicaState.ROUTED, slot, id=ReplicaId(f"old_{slot}")) for slot in range(count)]
    fewest = count
    for step in range(60 * count):
        replicas = [as_time_passes(one) for one in replicas]
        present = [one for one in replicas if one.state in LIVE or one.state is ReplicaState.DRAINING]
        plan = make_plan(replace(view, room_for=count + spare - len(present)), replicas, NOW)
        after = moves(plan)
        replicas = [
            replace(
                one,
                state=after.get(one.id, one.state),
                observed=engine_says(one.id, ReplicaPhase.EXITED, 0) if one.id in plan.stop else one.observed,
            )
            for one in replicas
        ]
        replicas = [one for one in replicas if one.state is not ReplicaState.REMOVED]
        replicas += [
            replica(ReplicaState.REQUESTED, slot, id=ReplicaId(f"new_{slot}_{step}"), generation=2)
            for slot in plan.create_slots
        ]
        assert len([one for one in replicas if one.state in LIVE]) <= count + spare
        fewest = min(fewest, len([one for one in replicas if one.state is ReplicaState.ROUTED]))
    assert {(one.generation, one.state) for one in replicas} == {(2, ReplicaState.ROUTED)}
    assert len(replicas) == count
    assert fewest >= (count if spare else count - 1)


def as_time_passes(one: ReplicaView) -> ReplicaView:
    """The engine, the gateway and the collector do their part."""
    if one.state is ReplicaState.REQUESTED:
        return replace(one, observed=engine_says(one.id, ReplicaPhase.RUNNING), probe=Probe(None, 200))
    if one.state is ReplicaState.READY:
        return replace(one, taking_requests=True, at_gateways=True)
    if one.state is ReplicaState.DRAINING:
        return replace(one, taking_requests=False, at_gateways=False, draining_at=NOW)
    if one.state is ReplicaState.STOPPED:
        return replace(one, collected=True)
    return replace(one, observed=None) if one.state is ReplicaState.COLLECTED else one


def silent(seconds: float, slot: int = 0, **changes: object) -> ReplicaView:
    failing = Probe(ProbeFailure.STATUS, 500)
    since = NOW - timedelta(seconds=seconds)
    return replica(ReplicaState.ROUTED, slot, failing_since=since, failing=failing, **changes)


def test_one_that_fails_its_checks_serves_on_and_the_container_says_so() -> None:
    served = container(serving_generation=1, desired_replicas=2)
    plan = make_plan(served, [silent(30), replica(ReplicaState.ROUTED, 1)], NOW)
    assert moves(plan) == {}
    assert plan.state is ContainerState.RUNNING
    assert plan.verdict is not None
    assert plan.verdict.reason is Reason.HEALTH_CHECK_STATUS
    assert "1 of 2 replicas fails: GET /health answered 500" in plan.verdict.message
    assert plan.look_again_in_s == 30


def test_one_that_answers_nothing_for_a_minute_is_replaced_after_a_pause() -> None:
    served = container(serving_generation=1, desired_replicas=2)
    plan = make_plan(served, [silent(60), replica(ReplicaState.ROUTED, 1)], NOW)
    assert moves(plan) == {"rep_0": ReplicaState.DRAINING}
    assert plan.transitions[0].verdict is not None
    assert plan.transitions[0].verdict.reason is Reason.HEALTH_CHECK_STATUS
    assert (plan.state, plan.create_slots) == (ContainerState.RUNNING, ())
    drained = replica(ReplicaState.DRAINING, replaced=True)
    after = replace(served, recent_failures=((0, NOW),))
    again = make_plan(after, [drained, replica(ReplicaState.ROUTED, 1)], NOW + timedelta(seconds=1.1))
    assert again.create_slots == (0,)


def test_without_another_one_the_container_starts_again_with_the_reason() -> None:
    plan = make_plan(container(serving_generation=1), [silent(61)], NOW)
    assert (plan.state, plan.failed) == (ContainerState.STARTING, False)
    assert plan.verdict is not None
    assert "answered no request for 60 s" in plan.verdict.message


def test_one_at_a_time_the_longest_silent_first_and_none_while_another_comes_up() -> None:
    served = container(serving_generation=1, desired_replicas=3)
    healthy = replica(ReplicaState.ROUTED, 2)
    assert moves(make_plan(served, [silent(70), silent(90, 1), healthy], NOW)) == {
        "rep_1": ReplicaState.DRAINING
    }
    for state in (ReplicaState.REQUESTED, ReplicaState.STARTING, ReplicaState.READY):
        coming = replica(state, 1, busy=True)
        assert (
            ReplicaState.DRAINING not in moves(make_plan(served, [silent(70), coming, healthy], NOW)).values()
        )
    pausing = replace(served, recent_failures=((1, NOW),))
    assert moves(make_plan(pausing, [silent(70), healthy], NOW)) == {}


def test_a_replica_that_flaps_does_not_take_the_healthy_ones_with_it() -> None:
    failures = tuple((0, NOW - timedelta(seconds=index)) for index in range(9))
    served = container(
        serving_generation=1, desired_replicas=2, recent_failures=failures, last_failure=EXITED
    )
    ended = replica(
        ReplicaState.ROUTED, observed=engine_says(ReplicaId("rep_0"), ReplicaPhase.EXITED, exit_code=1)
    )
    plan = make_plan(served, [ended, replica(ReplicaState.ROUTED, 1)], NOW)
    assert moves(plan) == {"rep_0": ReplicaState.STOPPED}
    assert (plan.state, plan.failed, plan.create_slots) == (ContainerState.RUNNING, False, ())


states = st.sampled_from(list(ReplicaState))
replicas_of_any_kind = st.lists(
    st.builds(
        lambda state, slot, generation, gone, busy, in_flight, silent_s: replica(
            state,
            slot,
            id=ReplicaId(f"rep_{slot}_{generation}_{state}"),
            generation=generation,
            observed=None if gone else engine_says(ReplicaId(f"rep_{slot}"), ReplicaPhase.RUNNING),
            busy=busy,
            in_flight=in_flight,
            taking_requests=state is ReplicaState.ROUTED,
            failing_since=NOW - timedelta(seconds=silent_s) if silent_s else None,
        ),
        states,
        st.integers(0, 4),
        st.integers(1, 2),
        st.booleans(),
        st.booleans(),
        st.integers(0, 3),
        st.sampled_from([0, 59, 61, 99]),
    ),
    max_size=6,
    unique_by=lambda view: view.id,
)
containers_of_any_kind = st.builds(
    lambda desired, count, generation, failed, image, room: container(
        desired_state=desired,
        desired_replicas=count,
        generation=generation,
        failed_generation=failed,
        image_known=image,
        room_for=room,
    ),
    st.sampled_from(list(DesiredState)),
    st.integers(1, 4),
    st.integers(1, 2),
    st.integers(0, 2),
    st.booleans(),
    st.integers(0, 5),
)


@given(containers_of_any_kind, replicas_of_any_kind)
def test_always(view: ContainerView, replicas: list[ReplicaView]) -> None:
    plan = make_plan(view, replicas, NOW)
    after = {one.id: one.state for one in replicas} | moves(plan)
    live_slots = [
        (one.generation, one.slot)
        for one in replicas
        if after[one.id] in LIVE and one.generation == view.generation
    ]
    wanted = view.desired_state is DesiredState.RUNNING
    assert wanted or not plan.create_slots, "stopped means nothing new"
    assert wanted or not any(state in LIVE for state in after.values()), "stopped means nothing stays"
    assert len(plan.create_slots) <= view.room_for
    assert not set(plan.create_slots) & {slot for _, slot in live_slots}, "never two for one slot"
    assert all(slot < view.desired_replicas for slot in plan.create_slots)
    assert not set(plan.start) & set(plan.stop)
    assert not any(one.busy for one in replicas if one.id in {*plan.start, *plan.stop, *plan.remove})
    assert view.image_known or not plan.create_slots
    assert make_plan(view, replicas, NOW) == plan, "the same input, the same plan"
    given_up = [move for move in plan.transitions if move.verdict and move.to is ReplicaState.DRAINING]
    assert len([move for move in given_up if "no request" in (move.verdict or EXITED).message]) <= 1
