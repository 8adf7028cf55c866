"""Which replicas there should be: which slots get one, which have to go. Pure."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from moorage.containers.planning import update_plan
from moorage.containers.planning.life import GATEWAY_LIMIT
from moorage.containers.planning.pauses import backoff_left_s
from moorage.containers.planning.questions import is_refused, runs, still_serves, time_passed, wants_to_run
from moorage.containers.sleep.planning import is_in_use
from moorage.containers.states import LIVE, ReplicaState, TrialStep
from moorage.containers.verdict import Verdict
from moorage.containers.views import ContainerView, ReplicaView, Transition
from moorage.kit.ids import ReplicaId


def shape(
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
        and backoff_left_s(container, slot, now) <= 0
    ]
    startable = container.image_known and wanted == container.generation and container.approval is None
    updating = container.beside is not None and wanted == container.generation and not proven
    next_ones = update_plan.next_slots(container, seen, missing) if updating else missing
    create = tuple(next_ones[: max(container.room_for, 0)]) if startable else ()

    drains = {}
    serving = {slot: one for slot, one in current.items() if one.state is ReplicaState.ROUTED}
    takes_over = _that_serves_on_the_move(live, wanted) | serving
    falls_asleep = container.asleep and wants_to_run(container)
    falls_asleep &= time_passed(container.asleep_since, container, now) <= GATEWAY_LIMIT
    for replica in live:
        successor = takes_over.get(replica.slot)
        superseded = (
            # Beside a new version the old one serves on, for as long as that has to prove itself.
            ((replica.generation != wanted and not updating) or replica.moving)
            and successor is not None
            and successor.id != replica.id
            and not successor.doubted
            # It came up and answers nothing any more: what serves waits for it, or for the one after it.
            and successor.failing_since is None
        )
        if falls_asleep and is_in_use(replica):
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


def ended_by_update(
    container: ContainerView, seen: Sequence[ReplicaView], moves: Sequence[Transition], why: Verdict | None
) -> dict[ReplicaId, Transition]:
    """Of two versions beside each other: of the old one what never served, of one that is given up what does harm."""
    if container.beside is None or not wants_to_run(container):
        return {}
    if runs(container):
        came_up = {move.replica_id for move in moves if move.to is ReplicaState.READY}
        going = update_plan.old_to_end(container, seen, came_up)
    else:
        going = update_plan.new_to_end(container, seen, why) if why is not None else []
    return {one.id: Transition(one.id, ReplicaState.DRAINING) for one in going}


def _wanted_generation(container: ContainerView, seen: Sequence[ReplicaView]) -> int | None:
    """The generation whose replicas should run; None when none should.

    A generation that was given up leaves the one before it serving, if that still does: `resumes`.
    """
    if not wants_to_run(container) or container.trial is TrialStep.STOP or container.asleep:
        return None
    if container.generation != container.failed_generation:
        return container.generation
    if container.beside is not None:
        return container.beside.old_generation
    return container.serving_generation if still_serves(container, seen) else None


def resumes(container: ContainerView, seen: Sequence[ReplicaView]) -> bool:
    """A restart was given up, and what it was to take over from serves: that is the deployment again, so what ends of it is
    replaced, and it scales, moves and sleeps like any other. One that the operator refused would be refused again at once."""
    given_up = container.failed_generation == container.generation and wants_to_run(container)
    return (
        given_up
        and not is_refused(container)
        and container.serving_image_known
        and not container.asleep
        and container.trial is None
        and still_serves(container, seen)
    )


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
