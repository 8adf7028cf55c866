"""The part of a plan that is about a version beside the one that it is to take over from. Pure.

First one replica of the new version; once that serves, the others. The old ones serve on until the new version has served
well for its time; where there is no room for both, an old one goes once its successor serves, and never before. The new
version is given up at the first replica that fails by its own fault, for errors above the bound, when somebody calls it
off, when nothing of it can be started, and when an old replica ends before its successor serves: only the settings that are
the container's can be started, and what served comes first.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime

from moorage.containers.attention import counted_from
from moorage.containers.start_limit import NOT_ITS_FAULT
from moorage.containers.states import LIVE, SERVING, Reason, ReplicaState
from moorage.containers.verdict import Verdict
from moorage.containers.views import Beside, ContainerView, ReplicaView, Transition
from moorage.kit.ids import ReplicaId


def with_lost(
    container: ContainerView, seen: Sequence[ReplicaView], moves: Sequence[Transition]
) -> ContainerView:
    """Told of an old replica that ended in this pass, if nothing of its slot serves."""
    ended = {move.replica_id: move.verdict for move in moves if move.verdict is not None}
    served = {one.slot for one in seen if one.state is ReplicaState.ROUTED}
    lost = [
        ended[one.id]
        for one in seen
        if one.id in ended and one.generation != container.generation and one.slot not in served
    ]
    return replace(container, beside=replace(_beside(container), lost=lost[0])) if lost else container


def why_given_up(container: ContainerView, seen: Sequence[ReplicaView], now: datetime) -> Verdict | None:
    beside = _beside(container)
    if beside.called_off is not None:
        return beside.called_off
    if beside.errors is not None:
        return beside.errors
    newest = container.last_failure
    if newest is not None and newest.reason not in NOT_ITS_FAULT:
        return newest
    if beside.lost is not None:
        message = (
            f"A replica of the version that serves ended before this one was ready. {beside.lost.message}"
        )
        return replace(beside.lost, message=message)
    new, old = _new(container, seen), _old(container, seen)
    waiting = {one.slot for one in old} or set(container.slots)
    waiting -= {one.slot for one in new}
    keeps_waiting = _why_not_started(container, waiting)
    if keeps_waiting is None or not container.image_known:
        return None
    if _leaving(container, seen):
        return None
    if not new:
        # What serves had room and credit; the new version waits for neither.
        return keeps_waiting
    if any(one.state is not ReplicaState.ROUTED for one in new) or _covered(container, seen):
        return None
    moments = [beside.begun_at, *(one.routed_at for one in new if one.routed_at is not None)]
    waited = now - counted_from(max(moments), container.watched_since, now)
    return keeps_waiting if waited > container.health_timeout else None


def has_proven(container: ContainerView, seen: Sequence[ReplicaView], now: datetime) -> bool:
    """Every slot that has an old replica has a new one at the endpoint, and the first has been there for long enough."""
    new = {
        one.slot: one
        for one in _new(container, seen)
        if one.state is ReplicaState.ROUTED and one.failing is None and not one.doubted
    }
    began = [one.routed_at or now for one in new.values()]
    if not began or not new.keys() >= {one.slot for one in _old(container, seen)}:
        return False
    return now - counted_from(min(began), container.watched_since, now) >= _beside(container).watch


def next_slots(
    container: ContainerView, seen: Sequence[ReplicaView], missing: Sequence[int]
) -> Sequence[int]:
    """Of those that have no new replica: one until the first serves, then all. All of a version that has nothing to prove."""
    new = _new(container, seen)
    if not _beside(container).watch or any(one.state is ReplicaState.ROUTED for one in new):
        return missing
    return () if new else missing[:1]


def old_to_end(
    container: ContainerView, seen: Sequence[ReplicaView], came_up: Collection[ReplicaId]
) -> list[ReplicaView]:
    """Of the old version, what does not serve yet: nothing waits for it any more, and nobody would pay for it."""
    return [
        one
        for one in seen
        if one.state in LIVE
        and one.generation != container.generation
        and (one.state not in SERVING or one.id in came_up)
    ]


def old_to_make_room(container: ContainerView, seen: Sequence[ReplicaView]) -> list[ReplicaView]:
    """One whose successor serves, where the next new one does not fit beside the old ones."""
    under_way = _leaving(container, seen) or any(
        one.state is not ReplicaState.ROUTED for one in _new(container, seen)
    )
    return [] if under_way else _covered(container, seen)[:1]


def old_past_their_watch(
    container: ContainerView, seen: Sequence[ReplicaView], now: datetime
) -> list[ReplicaView]:
    """Whose successors have served well for long enough, whatever the other slots still wait for: both use one hour, and a version
    whose last replica takes an hour to come up would be served for by twice as many as are paid."""
    watch = _beside(container).watch
    served_since = {one.slot: one.routed_at or now for one in _new(container, seen)}
    return [
        one
        for one in _covered(container, seen)
        if now - counted_from(served_since[one.slot], container.watched_since, now) >= watch
    ]


def new_to_end(container: ContainerView, seen: Sequence[ReplicaView], why: Verdict) -> list[ReplicaView]:
    """When it goes back: what does not serve yet; and where it serves errors, or somebody called it off, all of it,
    if anything old is there to answer."""
    new = _new(container, seen)
    at_once = why.reason in (Reason.ERRORS_ABOVE_BOUND, Reason.ROLLED_BACK)
    answered = any(one.state is ReplicaState.ROUTED and not one.doubted for one in _old(container, seen))
    return [one for one in new if one.state is not ReplicaState.ROUTED or (at_once and answered)]


def _why_not_started(container: ContainerView, slots: Collection[int]) -> Verdict | None:
    """None while at least one of the slots can get its replica, or none has to."""
    if not slots:
        return None
    unpayable = container.unpayable_slots & set(slots)
    if len(unpayable) == len(slots):
        return container.unpayable_because
    spent = container.allowance_spent
    if spent is not None and spent.slots >= set(slots):
        return spent.verdict
    return Verdict(Reason.NO_CAPACITY, container.no_room_message) if container.room_for <= 0 else None


def _covered(container: ContainerView, seen: Sequence[ReplicaView]) -> list[ReplicaView]:
    """Old ones whose successors serve."""
    served = {
        one.slot
        for one in _new(container, seen)
        if one.state is ReplicaState.ROUTED and one.failing is None and not one.doubted
    }
    return [one for one in _old(container, seen) if one.slot in served]


def _leaving(container: ContainerView, seen: Sequence[ReplicaView]) -> bool:
    """Something of it still holds room that it will give back. What stopped in this pass held it when the room was counted."""
    return any(one.state in (ReplicaState.DRAINING, ReplicaState.STOPPED) for one in seen)


def _new(container: ContainerView, seen: Sequence[ReplicaView]) -> list[ReplicaView]:
    return [one for one in seen if one.state in LIVE and one.generation == container.generation]


def _old(container: ContainerView, seen: Sequence[ReplicaView]) -> list[ReplicaView]:
    return [one for one in seen if one.state in SERVING and one.generation != container.generation]


def _beside(container: ContainerView) -> Beside:
    assert container.beside is not None, "asked for only while two versions are beside each other"
    return container.beside
