"""What to do about one container, from what is wanted and what was seen. Pure.

`make_plan` leaves the executor no choices: every row to change, every engine call to make, the state to
show and the moment to look again are in the `Plan`. It is computed from scratch at each pass, so a pass
that died half-way is simply made again.

How a replica goes through its life is in `_observe`; which replicas there should be is in `_shape`; what
the container is called meanwhile is in `_describe`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from moorage.containers import update_plan
from moorage.containers.attention import LONGEST_LOOK, counted_from
from moorage.containers.fewer import why_fewer
from moorage.containers.fixes import with_larger_type, with_setting
from moorage.containers.sleep.planning import is_in_use, while_waking
from moorage.containers.start_limit import NOT_ITS_FAULT, AllowanceSpent, start_again_at, start_limit
from moorage.containers.states import (
    LIVE,
    SERVING,
    ContainerState,
    DesiredState,
    Reason,
    ReplicaState,
    TrialStep,
)
from moorage.containers.verdict import (
    ProbeFailure,
    Verdict,
    verdict_on_exit,
    verdict_when_failing,
    verdict_when_stuck,
    verdict_while_unready,
)
from moorage.containers.views import ENGINE_SILENT, ContainerView, Plan, ReplicaView, Transition
from moorage.engines.base import ObservedReplica, ReplicaPhase
from moorage.kit.ids import ReplicaId
from moorage.machines.states import LOST_AFTER

COLLECT_LIMIT = timedelta(seconds=60)
"""How long a stopped replica waits for its logs to be collected."""
GATEWAY_LIMIT = timedelta(seconds=60)
"""How long an ended replica, or one of a container that falls asleep, waits for every gateway to let go of it; the port of
one that ended waits for as long as it takes."""
FIRST_BACKOFF_S = 1.0
LONGEST_BACKOFF_S = 60.0
REPLACE_AFTER = timedelta(seconds=60)
"""Of failed health checks and no answered request: a server at its limit is slow, one that answers nothing is stuck."""
LOOK_INSIDE_AFTER = timedelta(seconds=1)
"""A server that is not up by then gets looked at from inside, to say why."""
WAITS_FOR_A_MACHINE = "No machine has room for it yet. It starts as soon as one has."
_RESTART_FAILED = "The restart failed, so it goes on as before."
LOOK_AGAIN_S = 5.0
"""For waits that somebody else ends and that a lost notification must not make endless."""


def make_plan(container: ContainerView, replicas: Sequence[ReplicaView], now: datetime) -> Plan:
    observed = [_observe(replica, container, now) for replica in replicas]
    seen = [_moved(replica, move) for replica, move in zip(replicas, observed, strict=True)]
    moves = [move for move in observed if move is not None]
    if (stuck := _stuck(container, seen, now)) is not None:
        moves.append(stuck)
        seen = [_moved(replica, stuck if replica.id == stuck.replica_id else None) for replica in seen]
    container = _with_new_failures(container, seen, moves, now)
    container = update_plan.with_lost(container, seen, moves) if container.beside is not None else container

    failure = _deployment_failure(container, seen, now)
    container = replace(container, failed_generation=container.generation) if failure else container
    gives_up = container.trial is TrialStep.PROVE and _wants_to_run(container) and not _runs(container)
    proven = (
        container.beside is not None and _runs(container) and update_plan.has_proven(container, seen, now)
    )
    create_slots, drains, hold_slots = _shape(container, seen, now, proven=proven)
    drains |= _ended_by_update(container, seen, moves, failure or container.last_failure)
    seen = [_moved(replica, drains.get(replica.id)) for replica in seen]
    moves = [kept for move in moves if (kept := _unless_drained(move, drains)) is not None]

    idle = [replica for replica in seen if not replica.busy and not replica.unreachable]
    plan = Plan(
        state=ContainerState.PENDING,
        failed=failure is not None,
        ensure_image=_runs(container)
        and not container.image_known
        and not container.pulling
        and container.approval is None,
        prepare_trial=container.trial is TrialStep.PREPARE
        and not container.pulling
        and _wants_to_run(container),
        exchange=container.trial is TrialStep.STOP and not _present(seen) and _wants_to_run(container),
        proven=proven,
        go_back=(failure or container.last_failure) if gives_up else None,
        resume=(failure or container.last_failure) if _resumes(container, seen) else None,
        create_slots=create_slots,
        hold_slots=hold_slots,
        transitions=(*moves, *drains.values()),
        # Of this generation only with its image, which may have vanished since the row was written.
        start=tuple(
            replica.id
            for replica in idle
            if replica.state is ReplicaState.REQUESTED
            and not _accepted(replica)
            and (container.image_known or replica.generation != container.generation)
        ),
        stop=tuple(replica.id for replica in idle if _may_stop(replica, container, now)),
        kill=tuple(replica.id for replica in idle if _must_die(replica)),
        remove=tuple(
            replica.id for replica in idle if replica.state is ReplicaState.COLLECTED and replica.observed
        ),
        in_doubt=_in_doubt(seen),
        look_again_in_s=_look_again_in_s(container, seen, now),
    )
    return while_waking(_describe(plan, container, seen, failure, now), container, seen)


def _observe(replica: ReplicaView, container: ContainerView, now: datetime) -> Transition | None:
    """The next step of one replica's life, if what was seen allows it."""
    if replica.unreachable:
        return _out_of_reach(replica, container, now)
    engine = replica.observed
    match replica.state:
        case ReplicaState.REQUESTED:
            if engine is not None and engine.failure is not None:
                return _not_started(replica, engine)
            if engine is not None and engine.phase in (ReplicaPhase.RUNNING, ReplicaPhase.EXITED):
                # Most small servers answer by the time we look for the first time.
                up = replica.probe is not None and replica.probe.failure is None
                return Transition(replica.id, ReplicaState.READY if up else ReplicaState.STARTING, engine)
        case ReplicaState.STARTING | ReplicaState.READY | ReplicaState.ROUTED | ReplicaState.DRAINING:
            if engine is None:
                # Nothing is lost by believing that what is to go has gone.
                waits = replica.doubted and replica.state is not ReplicaState.DRAINING
                return None if replica.busy or waits else _lost(replica, container)
            if engine.phase is ReplicaPhase.EXITED:
                return _exited(replica, engine, container)
            if engine.phase is not ReplicaPhase.RUNNING and replica.state is ReplicaState.DRAINING:
                # Its process never began, so a stop has nothing to end.
                return None if replica.busy else Transition(replica.id, ReplicaState.STOPPED)
            return _progress(replica, container, now)
        case ReplicaState.STOPPED:
            waited_long_enough = _lasted(replica.ended_at, container, now) > COLLECT_LIMIT
            if replica.collected or waited_long_enough or engine is None:
                return Transition(replica.id, ReplicaState.COLLECTED)
        case ReplicaState.COLLECTED:
            # A gateway that is silent, perhaps for good, keeps the port, but neither its row nor its container.
            waited_long_enough = _lasted(replica.ended_at, container, now) > GATEWAY_LIMIT
            let_go = not replica.at_gateways or waited_long_enough
            if engine is None and not replica.busy and let_go:
                return Transition(replica.id, ReplicaState.REMOVED)
        case ReplicaState.REMOVED:
            pass
    return None


def _accepted(replica: ReplicaView) -> bool:
    """Its engine is at it by itself."""
    engine = replica.observed
    return engine is not None and engine.phase in (ReplicaPhase.WAITING, ReplicaPhase.PULLING)


def _not_started(replica: ReplicaView, engine: ObservedReplica) -> Transition:
    assert engine.failure is not None
    verdict = Verdict(Reason(engine.failure.code), engine.failure.message)
    return Transition(replica.id, ReplicaState.STOPPED, engine, verdict)


def _out_of_reach(replica: ReplicaView, container: ContainerView, now: datetime) -> Transition | None:
    """What is known of one whose engine does not answer: what the gateways say, and how long it has been silent. What
    they still reach lives on there. What nobody reaches is taken for gone; if its machine comes back with it, the sweep
    removes it there, and no gateway knows it any more."""
    given_up = replica.machine_left or (
        replica.silent_since is not None and _lasted(replica.silent_since, container, now) >= LOST_AFTER
    )
    match replica.state:
        case ReplicaState.STOPPED:
            waited_long_enough = _lasted(replica.ended_at, container, now) > COLLECT_LIMIT
            if replica.collected or waited_long_enough or given_up:
                return Transition(replica.id, ReplicaState.COLLECTED)
        case ReplicaState.COLLECTED:
            waited_long_enough = _lasted(replica.ended_at, container, now) > GATEWAY_LIMIT
            if given_up and (not replica.at_gateways or waited_long_enough):
                return Transition(replica.id, ReplicaState.REMOVED)
        case ReplicaState.REMOVED:
            pass
        case ReplicaState.DRAINING:
            if given_up and (replica.failing is not None or _is_drained(replica, container, now)):
                return Transition(replica.id, ReplicaState.STOPPED)
        case _:
            if given_up and (replica.machine_left or replica.failing is not None or not replica.at_gateways):
                return _lost_with_its_machine(replica, container)
    return None


def _lost_with_its_machine(replica: ReplicaView, container: ContainerView) -> Transition:
    if not _wants_to_run(container):
        return Transition(replica.id, ReplicaState.STOPPED)
    message = "The machine of the replica does not answer any more; a new one takes its place on another."
    return Transition(replica.id, ReplicaState.STOPPED, verdict=Verdict(Reason.NODE_LOST, message))


def _unless_drained(move: Transition, drains: Mapping[ReplicaId, Transition]) -> Transition | None:
    """What goes in the same pass never was ready: nobody sends it anything, and nobody pays for it."""
    if move.to is not ReplicaState.READY or move.replica_id not in drains:
        return move
    return replace(move, to=ReplicaState.STARTING) if move.observed is not None else None


def _progress(replica: ReplicaView, container: ContainerView, now: datetime) -> Transition | None:
    if replica.evicted is not None and replica.state is not ReplicaState.DRAINING:
        return Transition(replica.id, ReplicaState.DRAINING, verdict=replica.evicted)
    if replica.state is ReplicaState.STARTING:
        if replica.probe is not None and replica.probe.failure is None:
            return Transition(replica.id, ReplicaState.READY)
        if (spent := _spent_for(container, replica.slot)) is not None:
            return Transition(replica.id, ReplicaState.DRAINING, verdict=spent.verdict)
        if _lasted(replica.started_at, container, now) > container.health_timeout:
            return Transition(replica.id, ReplicaState.DRAINING, verdict=_unready(replica, container))
    if replica.state is ReplicaState.READY and replica.taking_requests:
        return Transition(replica.id, ReplicaState.ROUTED)
    return None


def _exited(replica: ReplicaView, engine: ObservedReplica, container: ContainerView) -> Transition:
    if replica.state is ReplicaState.DRAINING:
        return Transition(replica.id, ReplicaState.STOPPED, engine)
    if replica.evicted is not None:
        # What it had to go for is why it went, whatever it said itself.
        return Transition(replica.id, ReplicaState.STOPPED, engine, replica.evicted)
    if engine.failure is not None:
        # Not its process's doing: its engine says why.
        verdict = Verdict(Reason(engine.failure.code), engine.failure.message)
        return Transition(replica.id, ReplicaState.STOPPED, engine, verdict)
    verdict = verdict_on_exit(
        engine.exit_code,
        engine.out_of_memory,
        container.memory_bytes,
        container.disk_bytes,
        replica.last_lines,
    )
    verdict = with_larger_type(verdict, container.instance_type, container.larger_instance_type)
    return Transition(replica.id, ReplicaState.STOPPED, engine, verdict)


def _lost(replica: ReplicaView, container: ContainerView) -> Transition:
    if replica.state is ReplicaState.DRAINING or not _wants_to_run(container):
        return Transition(replica.id, ReplicaState.STOPPED)
    message = "The replica disappeared from its machine; a new one takes its place."
    return Transition(replica.id, ReplicaState.STOPPED, verdict=Verdict(Reason.NODE_LOST, message))


def _stuck(container: ContainerView, seen: Sequence[ReplicaView], now: datetime) -> Transition | None:
    """The replica that is replaced because it answers nothing: one at a time, the one that has been silent longest,
    and none while another is on its way."""
    live = [replica for replica in seen if replica.state in LIVE]
    slots = set(container.slots)
    coming = any(replica.state is not ReplicaState.ROUTED for replica in live)
    coming |= container.room_for > 0 and not slots <= {replica.slot for replica in live}
    pausing = any(_backoff_left_s(container, slot, now) > 0 for slot in slots)
    silent = [
        (replica.failing_since, replica)
        for replica in live
        if replica.failing_since is not None
        and _lasted(replica.failing_since, container, now) >= REPLACE_AFTER
    ]
    if not silent or coming or pausing or not _runs(container):
        return None
    _, longest = min(silent, key=lambda one: one[0])
    verdict = verdict_when_stuck(longest.failing, container.health_path, int(REPLACE_AFTER.total_seconds()))
    return Transition(longest.id, ReplicaState.DRAINING, verdict=verdict)


def _with_new_failures(
    container: ContainerView, seen: Sequence[ReplicaView], moves: Sequence[Transition], now: datetime
) -> ContainerView:
    """What ends badly in this pass starts its pause in this pass, and is why the container is what it is. Of an
    earlier generation it says nothing about this one."""
    verdicts = {move.replica_id: move.verdict for move in moves if move.verdict is not None}
    failed = [
        replica
        for replica in seen
        if replica.id in verdicts and replica.generation == container.generation and _runs(container)
    ]
    if not failed:
        return container
    failures = (*container.recent_failures, *((replica.slot, now) for replica in failed))
    return replace(container, recent_failures=failures, last_failure=verdicts[failed[-1].id])


def _deployment_failure(
    container: ContainerView, seen: Sequence[ReplicaView], now: datetime
) -> Verdict | None:
    """Why this generation is given up now; None while there is hope.

    Before its first success, a generation fails when none of its replicas is left: what cannot start once
    is not worth starting for ever. After that, it fails when nothing came back for the health timeout, in which
    somebody looked and tried.
    """
    if not _runs(container):
        return None
    if _is_refused(container):
        return container.approval
    if _in_doubt(seen):
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
    if _lasted(unready_since, container, now) > container.health_timeout:
        return newest or Verdict(
            Reason.HEALTH_CHECK_TIMEOUT, "No replica became ready again within the health timeout."
        )
    return None


def _why_not_tried(container: ContainerView, seen: Sequence[ReplicaView]) -> Verdict | None:
    """What is on trial waits for neither credit nor room: what ran before it had both."""
    if container.trial is not TrialStep.PROVE or _present(seen):
        return None
    if len(container.unpayable_slots) >= container.desired_replicas:
        return container.unpayable_because
    spent = container.allowance_spent
    if spent is not None and len(spent.slots) >= container.desired_replicas:
        return spent.verdict
    return Verdict(Reason.NO_CAPACITY, container.no_room_message) if container.room_for <= 0 else None


def _shape(
    container: ContainerView, seen: Sequence[ReplicaView], now: datetime, *, proven: bool
) -> tuple[tuple[int, ...], dict[ReplicaId, Transition], tuple[int, ...]]:
    """Which slots get a new replica, which replicas have to go, and which slots may yet get one."""
    wanted = _wanted_generation(container, seen)
    live = [replica for replica in seen if replica.state in LIVE]
    current = {
        replica.slot: replica for replica in live if replica.generation == wanted and not replica.moving
    }
    slots = container.slots if wanted is not None else range(0)
    draining = [
        replica for replica in seen if replica.state is ReplicaState.DRAINING and replica.generation == wanted
    ]
    # Not wanted for a moment, and wanted again: a slot has one process, so the next waits for the end of this one. What
    # failed has a successor at once; but when that fails too before it has ended, the next waits for the end of one.
    in_slot = Counter(replica.slot for replica in draining)
    leaving = {replica.slot for replica in draining if not replica.replaced or in_slot[replica.slot] > 1}

    missing = [
        slot
        for slot in slots
        if slot not in current
        and slot not in leaving
        and slot not in container.unpayable_slots
        and _backoff_left_s(container, slot, now) <= 0
    ]
    startable = container.image_known and wanted == container.generation and container.approval is None
    updating = container.beside is not None and wanted == container.generation and not proven
    next_ones = update_plan.next_slots(container, seen, missing) if updating else missing
    create = tuple(next_ones[: max(container.room_for, 0)]) if startable else ()

    drains = {}
    serving = {slot: one for slot, one in current.items() if one.state is ReplicaState.ROUTED}
    takes_over = _that_serves_on_the_move(live, wanted) | serving
    awaits_gateways = _lasted(container.asleep_since, container, now) <= GATEWAY_LIMIT
    for replica in live:
        successor = takes_over.get(replica.slot)
        superseded = (
            # Beside a new version the old one serves on, for as long as that has to prove itself.
            ((replica.generation != wanted and not updating) or replica.moving)
            and successor is not None
            and successor.id != replica.id
            and not successor.doubted
        )
        if container.asleep and is_in_use(replica, awaits_gateways=awaits_gateways):
            continue
        # What waits for its turn has nothing to lose, and holds room that those who are wanted need.
        outrun = replica.untried and replica.generation != wanted
        if wanted is None or replica.slot not in slots or superseded or outrun or replica.unfunded:
            drains[replica.id] = Transition(replica.id, ReplicaState.DRAINING)
    if updating:
        going = update_plan.old_past_their_watch(container, seen, now)
        drains |= {one.id: Transition(one.id, ReplicaState.DRAINING) for one in going}
    if updating and startable and next_ones and not create and not drains:
        going = update_plan.old_to_make_room(container, seen)
        drains = {one.id: Transition(one.id, ReplicaState.DRAINING) for one in going}
    elif startable and missing and not create and not drains and not container.avoids_nodes and not updating:
        drains = _make_room(container, seen, missing)
    return create, drains, tuple(slots) if wanted == container.generation else ()


def _ended_by_update(
    container: ContainerView, seen: Sequence[ReplicaView], moves: Sequence[Transition], why: Verdict | None
) -> dict[ReplicaId, Transition]:
    """Of two versions beside each other: of the old one what never served, of one that is given up what does harm."""
    if container.beside is None or not _wants_to_run(container):
        return {}
    if _runs(container):
        came_up = {move.replica_id for move in moves if move.to is ReplicaState.READY}
        going = update_plan.old_to_end(container, seen, came_up)
    else:
        going = update_plan.new_to_end(container, seen, why) if why is not None else []
    return {one.id: Transition(one.id, ReplicaState.DRAINING) for one in going}


def _that_serves_on_the_move(live: Sequence[ReplicaView], wanted: int | None) -> dict[int, ReplicaView]:
    """By slot, of several that have to leave their machines: where what was to take over is itself to go, one process is
    enough until there is a place for another."""
    serving = [
        one
        for one in live
        if one.moving
        and one.generation == wanted
        and one.state is ReplicaState.ROUTED
        and one.failing is None
        and not one.unreachable
    ]
    return {one.slot: one for one in sorted(serving, key=lambda one: one.created_at, reverse=True)}


def _make_room(
    container: ContainerView, seen: Sequence[ReplicaView], missing: Sequence[int]
) -> dict[ReplicaId, Transition]:
    """A new generation takes over beside the old one where both fit. Where nothing more fits, one old replica goes
    before its successor comes, one at a time, and none while the container has less than it should."""
    live = [replica for replica in seen if replica.state in LIVE]
    under_way = any(replica.state in (ReplicaState.DRAINING, ReplicaState.STOPPED) for replica in seen)
    under_way |= any(
        replica.state is not ReplicaState.ROUTED
        for replica in live
        if replica.generation == container.generation
    )
    old = [
        replica for replica in live if replica.generation != container.generation and replica.slot in missing
    ]
    if under_way or not old or len(live) < container.desired_replicas:
        return {}
    return {old[0].id: Transition(old[0].id, ReplicaState.DRAINING)}


def _wanted_generation(container: ContainerView, seen: Sequence[ReplicaView]) -> int | None:
    """The generation whose replicas should run; None when none should.

    A generation that was given up leaves the one before it serving, if that still does: `_resumes`.
    """
    if not _wants_to_run(container) or container.trial is TrialStep.STOP or container.asleep:
        return None
    if container.generation != container.failed_generation:
        return container.generation
    if container.beside is not None:
        return container.beside.old_generation
    return container.serving_generation if _still_serves(container, seen) else None


def _still_serves(container: ContainerView, seen: Sequence[ReplicaView]) -> bool:
    """What a restart was to take over from."""
    before = container.serving_generation
    return before != container.generation and any(
        replica.generation == before and replica.state in SERVING for replica in seen
    )


def _resumes(container: ContainerView, seen: Sequence[ReplicaView]) -> bool:
    """A restart was given up, and what it was to take over from serves: that is the deployment again, so what ends of it is
    replaced, and it scales, moves and sleeps like any other. One that the operator refused would be refused again at once."""
    given_up = container.failed_generation == container.generation and _wants_to_run(container)
    return (
        given_up
        and not _is_refused(container)
        and container.serving_image_known
        and not container.asleep
        and container.trial is None
        and _still_serves(container, seen)
    )


def _is_refused(container: ContainerView) -> bool:
    return container.approval is not None and container.approval.reason is Reason.REPLICA_LIMIT_REFUSED


def _runs(container: ContainerView) -> bool:
    return (
        _wants_to_run(container)
        and container.generation != container.failed_generation
        and not container.asleep
    )


def _wants_to_run(container: ContainerView) -> bool:
    return container.desired_state is DesiredState.RUNNING


def _present(seen: Sequence[ReplicaView]) -> list[ReplicaView]:
    """Those that have a process, or may have one."""
    return [replica for replica in seen if replica.state in LIVE or replica.state is ReplicaState.DRAINING]


def _in_doubt(seen: Sequence[ReplicaView]) -> bool:
    return any(replica.doubted and replica.state in LIVE for replica in seen)


def _may_stop(replica: ReplicaView, container: ContainerView, now: datetime) -> bool:
    """Drained, or out of time. A replica that no gateway has was never in use."""
    if replica.state is not ReplicaState.DRAINING or replica.observed is None or replica.evicted is not None:
        return False
    return _is_drained(replica, container, now)


def _is_drained(replica: ReplicaView, container: ContainerView, now: datetime) -> bool:
    drained = not replica.taking_requests and replica.in_flight == 0
    return drained or _lasted(replica.draining_at, container, now) >= container.drain_limit


def _must_die(replica: ReplicaView) -> bool:
    """Every moment that it lives takes something from the others."""
    return (
        replica.evicted is not None
        and replica.state is ReplicaState.DRAINING
        and replica.observed is not None
    )


def _describe(
    plan: Plan,
    container: ContainerView,
    seen: Sequence[ReplicaView],
    failure: Verdict | None,
    now: datetime,
) -> Plan:
    present = _present(seen)
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
    accepted = {replica.observed.phase for replica in seen if _accepted(replica) and replica.observed}
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


def _of_a_restart(verdict: Verdict) -> Verdict:
    """What an earlier pass wrote down says so already."""
    if verdict.message.startswith(_RESTART_FAILED):
        return verdict
    return replace(verdict, message=f"{_RESTART_FAILED} {verdict.message}".strip())


def _went_back(failure: Verdict) -> Verdict:
    message = f"The new settings failed, so it runs with those from before. {failure.message}"
    return replace(failure, message=message)


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
        verdict = _unready(waiting[0], container)
        # More time is offered when its time is over, not while it still has some.
        early = verdict.fix is not None and verdict.fix.field == "health_check.timeout_s"
        return replace(verdict, fix=None) if early else verdict
    return container.last_failure


def _why_failing(container: ContainerView, seen: Sequence[ReplicaView]) -> Verdict | None:
    """It serves, but some of its replicas do not answer their health checks."""
    routed = [replica for replica in seen if replica.state is ReplicaState.ROUTED]
    failing = [replica.failing for replica in routed if replica.failing is not None]
    return verdict_when_failing(failing, len(routed), container.health_path) if failing else None


def _had_a_moment(replica: ReplicaView, now: datetime) -> bool:
    hangs = replica.probe is not None and replica.probe.failure is ProbeFailure.TIMEOUT
    return hangs or (replica.started_at is not None and now - replica.started_at > LOOK_INSIDE_AFTER)


def _unready(replica: ReplicaView, container: ContainerView) -> Verdict:
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


def _backoff_left_s(container: ContainerView, slot: int, now: datetime) -> float:
    """1 s after the first failure of a slot, doubling to 60 s; 0 when it may start."""
    moments = []
    ends = [ended_at for failed_slot, ended_at in container.recent_failures if failed_slot == slot]
    if ends:
        pause_s = min(FIRST_BACKOFF_S * 2.0 ** (len(ends) - 1), LONGEST_BACKOFF_S)
        moments.append(max(ends) + timedelta(seconds=pause_s))
    limited_until = _limited_until(container, slot)
    if limited_until is not None:
        moments.append(limited_until)
    return (max(moments) - now).total_seconds() if moments else 0.0


def _limited_until(container: ContainerView, slot: int) -> datetime | None:
    if (spent := _spent_for(container, slot)) is not None:
        return spent.until
    starts = [ended_at for failed_slot, ended_at in container.failed_starts if failed_slot == slot]
    return start_again_at(starts, container.failed_starts_per_hour)


def _spent_for(container: ContainerView, slot: int) -> AllowanceSpent | None:
    spent = container.allowance_spent
    return spent if spent is not None and slot in spent.slots else None


def _why_no_start(container: ContainerView, seen: Sequence[ReplicaView], now: datetime) -> Verdict | None:
    """Nothing of it lives, and no slot may start yet because of how often it failed."""
    if any(replica.state in LIVE for replica in seen):
        return None
    untils = []
    for slot in container.slots:
        until = _limited_until(container, slot)
        if until is None or until <= now:
            return None
        untils.append(until)
    if container.allowance_spent is not None and container.allowance_spent.slots:
        return container.allowance_spent.verdict
    return start_limit(container.failed_starts_per_hour, min(untils))


def _look_again_in_s(container: ContainerView, seen: Sequence[ReplicaView], now: datetime) -> float | None:
    waits: list[float] = []
    if container.trial is not None:
        waits.append(1.0)
    if _runs(container):
        if container.pulling:
            waits.append(1.0)
        elif container.image_known:
            waits += _waits_for_missing(container, seen, now)
    for replica in seen:
        if replica.unreachable and replica.state is not ReplicaState.REMOVED:
            left = LOST_AFTER - _lasted(replica.silent_since, container, now)
            waits.append(min(max(left.total_seconds(), 1.0), LOOK_AGAIN_S))
        elif replica.doubted and replica.state in LIVE:
            waits.append(LOOK_AGAIN_S)
        elif replica.state is ReplicaState.STARTING:
            waits.append(_probe_pause_s(replica, now))
        elif replica.state is ReplicaState.DRAINING and replica.draining_at is not None and not replica.busy:
            left = container.drain_limit - _lasted(replica.draining_at, container, now)
            waits.append(max(min(left.total_seconds(), 1.0), 0.05))
        elif replica.state is ReplicaState.ROUTED and replica.failing_since is not None:
            left = REPLACE_AFTER - _lasted(replica.failing_since, container, now)
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
    pauses = [_backoff_left_s(container, slot, now) for slot in missing]
    return [pause_s if pause_s > 0 else LOOK_AGAIN_S for pause_s in pauses]


def _probe_pause_s(replica: ReplicaView, now: datetime) -> float:
    """Often at first, because most small servers are up in a moment; then once a second."""
    age_s = (now - (replica.started_at or replica.created_at)).total_seconds()
    if replica.probing:
        return 1.0
    if age_s < 3:
        return 0.05
    return 0.25 if age_s < 15 else 1.0


def _lasted(since: datetime | None, container: ContainerView, now: datetime) -> timedelta:
    """How long something has lasted while somebody looked; nothing, if it has not begun."""
    return timedelta() if since is None else now - counted_from(since, container.watched_since, now)


def _moved(replica: ReplicaView, move: Transition | None) -> ReplicaView:
    if move is None:
        return replica
    return replace(replica, state=move.to, replaced=replica.replaced or move.verdict is not None)
