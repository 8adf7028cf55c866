"""What to do about one container, from what is wanted and what was seen. Pure.

`make_plan` leaves the executor no choices: every row to change, every engine call to make, the state to
show and the moment to look again are in the `Plan`. It is computed from scratch at each pass, so a pass
that died half-way is simply made again.

How a replica goes through its life is in `life.py`; which replicas there should be is in `shape.py`; when it is given up
is in `failures.py`; what the container is called meanwhile is in `description.py`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from moorage.containers.planning import update_plan
from moorage.containers.planning.description import describe
from moorage.containers.planning.failures import why_given_up, with_new_failures
from moorage.containers.planning.life import next_step, replaced_as_stuck
from moorage.containers.planning.next_look import look_again_in_s
from moorage.containers.planning.questions import (
    after_move,
    is_accepted,
    is_drained,
    is_in_doubt,
    runs,
    wants_to_run,
    with_process,
)
from moorage.containers.planning.shape import ended_by_update, resumes, shape
from moorage.containers.sleep.planning import while_waking
from moorage.containers.states import ContainerState, ReplicaState, TrialStep
from moorage.containers.views import ContainerView, Plan, ReplicaView, Transition
from moorage.kit.ids import ReplicaId


def make_plan(container: ContainerView, replicas: Sequence[ReplicaView], now: datetime) -> Plan:
    observed = [next_step(replica, container, now) for replica in replicas]
    seen = [after_move(replica, move) for replica, move in zip(replicas, observed, strict=True)]
    moves = [move for move in observed if move is not None]
    if (stuck := replaced_as_stuck(container, seen, now)) is not None:
        moves.append(stuck)
        seen = [after_move(replica, stuck if replica.id == stuck.replica_id else None) for replica in seen]
    container = with_new_failures(container, seen, moves, now)
    container = update_plan.with_lost(container, seen, moves) if container.beside is not None else container

    failure = why_given_up(container, seen, now)
    container = replace(container, failed_generation=container.generation) if failure else container
    gives_up = container.trial is TrialStep.PROVE and wants_to_run(container) and not runs(container)
    proven = container.beside is not None and runs(container) and update_plan.has_proven(container, seen, now)
    create_slots, drains, hold_slots = shape(container, seen, now, proven=proven)
    drains |= ended_by_update(container, seen, moves, failure or container.last_failure)
    seen = [after_move(replica, drains.get(replica.id)) for replica in seen]
    moves = [kept for move in moves if (kept := _unless_drained(move, drains)) is not None]

    idle = [replica for replica in seen if not replica.busy and not replica.unreachable]
    plan = Plan(
        state=ContainerState.PENDING,
        failed=failure is not None,
        ensure_image=runs(container)
        and not container.image_known
        and not container.pulling
        and container.approval is None,
        prepare_trial=container.trial is TrialStep.PREPARE
        and not container.pulling
        and wants_to_run(container),
        exchange=container.trial is TrialStep.STOP and not with_process(seen) and wants_to_run(container),
        proven=proven,
        go_back=(failure or container.last_failure) if gives_up else None,
        resume=(failure or container.last_failure) if resumes(container, seen) else None,
        create_slots=create_slots,
        hold_slots=hold_slots,
        transitions=(*moves, *drains.values()),
        # Of this generation only with its image, which may have vanished since the row was written.
        start=tuple(
            replica.id
            for replica in idle
            if replica.state is ReplicaState.REQUESTED
            and not is_accepted(replica)
            and (container.image_known or replica.generation != container.generation)
        ),
        stop=tuple(replica.id for replica in idle if _may_stop(replica, container, now)),
        kill=tuple(replica.id for replica in idle if _must_die(replica)),
        remove=tuple(
            replica.id for replica in idle if replica.state is ReplicaState.COLLECTED and replica.observed
        ),
        in_doubt=is_in_doubt(seen),
        look_again_in_s=look_again_in_s(container, seen, now),
    )
    return while_waking(describe(plan, container, seen, failure, now), container, seen)


def _unless_drained(move: Transition, drains: Mapping[ReplicaId, Transition]) -> Transition | None:
    """What goes in the same pass never was ready: nobody sends it anything, and nobody pays for it."""
    if move.to is not ReplicaState.READY or move.replica_id not in drains:
        return move
    return replace(move, to=ReplicaState.STARTING) if move.observed is not None else None


def _may_stop(replica: ReplicaView, container: ContainerView, now: datetime) -> bool:
    """Drained, or out of time. A replica that no gateway has was never in use."""
    if replica.state is not ReplicaState.DRAINING or replica.observed is None or replica.evicted is not None:
        return False
    return is_drained(replica, container, now)


def _must_die(replica: ReplicaView) -> bool:
    """Every moment that it lives takes something from the others."""
    return (
        replica.evicted is not None
        and replica.state is ReplicaState.DRAINING
        and replica.observed is not None
    )
