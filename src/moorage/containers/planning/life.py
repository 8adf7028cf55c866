"""The next step of one replica's life, from what its engine, its gateways and its health checks say. Pure."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from moorage.containers.fixes import with_larger_type
from moorage.containers.planning.failures import why_unready
from moorage.containers.planning.pauses import backoff_left_s, spent_for
from moorage.containers.planning.questions import is_drained, runs, time_passed, wants_to_run
from moorage.containers.states import LIVE, Reason, ReplicaState
from moorage.containers.verdict import Verdict, verdict_on_exit, verdict_when_stuck, with_doubt_about_cache
from moorage.containers.views import ContainerView, ReplicaView, Transition
from moorage.engines.base import ObservedReplica, ReplicaPhase
from moorage.machines.states import LOST_AFTER

COLLECT_LIMIT = timedelta(seconds=60)
"""How long a stopped replica waits for its logs to be collected."""
GATEWAY_LIMIT = timedelta(seconds=60)
"""How long an ended replica, or one of a container that falls asleep, waits for every gateway to let go of it, and for requests
that nobody pays to stay awake for; the port of one that ended waits for as long as it takes."""
REPLACE_AFTER = timedelta(seconds=60)
"""Of failed health checks and no answered request: a server at its limit is slow, one that answers nothing is stuck."""


def next_step(replica: ReplicaView, container: ContainerView, now: datetime) -> Transition | None:
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
            waited_long_enough = time_passed(replica.ended_at, container, now) > COLLECT_LIMIT
            if replica.collected or waited_long_enough or engine is None:
                return Transition(replica.id, ReplicaState.COLLECTED)
        case ReplicaState.COLLECTED:
            # A gateway that is silent, perhaps for good, keeps the port, but neither its row nor its container.
            waited_long_enough = time_passed(replica.ended_at, container, now) > GATEWAY_LIMIT
            let_go = not replica.at_gateways or waited_long_enough
            if engine is None and not replica.busy and let_go:
                return Transition(replica.id, ReplicaState.REMOVED)
        case ReplicaState.REMOVED:
            pass
    return None


def _out_of_reach(replica: ReplicaView, container: ContainerView, now: datetime) -> Transition | None:
    """What is known of one whose engine does not answer: what the gateways say, and how long it has been silent. What
    they still reach lives on there. What nobody reaches is taken for gone; if its machine comes back with it, the sweep
    removes it there, and no gateway knows it any more."""
    given_up = replica.machine_left or (
        replica.silent_since is not None and time_passed(replica.silent_since, container, now) >= LOST_AFTER
    )
    match replica.state:
        case ReplicaState.STOPPED:
            waited_long_enough = time_passed(replica.ended_at, container, now) > COLLECT_LIMIT
            if replica.collected or waited_long_enough or given_up:
                return Transition(replica.id, ReplicaState.COLLECTED)
        case ReplicaState.COLLECTED:
            waited_long_enough = time_passed(replica.ended_at, container, now) > GATEWAY_LIMIT
            if given_up and (not replica.at_gateways or waited_long_enough):
                return Transition(replica.id, ReplicaState.REMOVED)
        case ReplicaState.REMOVED:
            pass
        case ReplicaState.DRAINING:
            if given_up and (replica.failing is not None or is_drained(replica, container, now)):
                return Transition(replica.id, ReplicaState.STOPPED)
        case _:
            if given_up and (replica.machine_left or replica.failing is not None or not replica.at_gateways):
                return _lost_with_its_machine(replica, container)
    return None


def _not_started(replica: ReplicaView, engine: ObservedReplica) -> Transition:
    assert engine.failure is not None
    verdict = Verdict(Reason(engine.failure.code), engine.failure.message)
    return Transition(replica.id, ReplicaState.STOPPED, engine, verdict)


def _lost_with_its_machine(replica: ReplicaView, container: ContainerView) -> Transition:
    if not wants_to_run(container):
        return Transition(replica.id, ReplicaState.STOPPED)
    message = "The replica's machine no longer answers. A new replica takes its place on another machine."
    return Transition(replica.id, ReplicaState.STOPPED, verdict=Verdict(Reason.NODE_LOST, message))


def _progress(replica: ReplicaView, container: ContainerView, now: datetime) -> Transition | None:
    if replica.evicted is not None and replica.state is not ReplicaState.DRAINING:
        return Transition(replica.id, ReplicaState.DRAINING, verdict=replica.evicted)
    if replica.state is ReplicaState.STARTING:
        if replica.probe is not None and replica.probe.failure is None:
            return Transition(replica.id, ReplicaState.READY)
        if (spent := spent_for(container, replica.slot)) is not None:
            return Transition(replica.id, ReplicaState.DRAINING, verdict=spent.verdict)
        if time_passed(replica.started_at, container, now) > container.health_timeout:
            verdict = _doubting_its_cache(replica, why_unready(replica, container))
            return Transition(replica.id, ReplicaState.DRAINING, verdict=verdict)
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
        replica.download_kept_bytes if replica.state is ReplicaState.STARTING else None,
    )
    verdict = with_larger_type(verdict, container.instance_type, container.larger_instance_type)
    return Transition(replica.id, ReplicaState.STOPPED, engine, _doubting_its_cache(replica, verdict))


def _doubting_its_cache(replica: ReplicaView, verdict: Verdict) -> Verdict:
    """The same settings came up with it before: if nothing outside has changed, what it holds has."""
    if replica.state is not ReplicaState.STARTING or not replica.cache_worked:
        return verdict
    return with_doubt_about_cache(verdict)


def _lost(replica: ReplicaView, container: ContainerView) -> Transition:
    if replica.state is ReplicaState.DRAINING or not wants_to_run(container):
        return Transition(replica.id, ReplicaState.STOPPED)
    message = "The replica disappeared from its machine. A new one takes its place."
    return Transition(replica.id, ReplicaState.STOPPED, verdict=Verdict(Reason.NODE_LOST, message))


def replaced_as_stuck(
    container: ContainerView, seen: Sequence[ReplicaView], now: datetime
) -> Transition | None:
    """The replica that is replaced because it answers nothing: one at a time, the one that has been silent longest,
    and none while another is on its way."""
    live = [replica for replica in seen if replica.state in LIVE]
    slots = set(container.slots)
    coming = any(replica.state is not ReplicaState.ROUTED for replica in live)
    coming |= container.room_for > 0 and not slots <= {replica.slot for replica in live}
    pausing = any(backoff_left_s(container, slot, now) > 0 for slot in slots)
    silent = [
        (replica.failing_since, replica)
        for replica in live
        if replica.failing_since is not None
        and time_passed(replica.failing_since, container, now) >= REPLACE_AFTER
    ]
    if not silent or coming or pausing or not runs(container):
        return None
    _, longest = min(silent, key=lambda one: one[0])
    verdict = verdict_when_stuck(longest.failing, container.health_path, int(REPLACE_AFTER.total_seconds()))
    return Transition(longest.id, ReplicaState.DRAINING, verdict=verdict)
