"""SQL of replicas that move, because their machine is to be empty."""

from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import ColumnElement, and_, case, exists, func, or_, select, text, update
from sqlalchemy.dialects.postgresql import distinct_on
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from moorage.catalog.models import NodeRow
from moorage.containers.models import ReplicaRow
from moorage.containers.repository import mark_due
from moorage.containers.states import LIVE, ReplicaState

_on_its_machine = and_(NodeRow.engine == ReplicaRow.engine, NodeRow.name == ReplicaRow.node)
_to_be_emptied = exists().where(_on_its_machine, NodeRow.draining_at.is_not(None))
_wanted_back = exists().where(_on_its_machine, NodeRow.empty_by.is_not(None))
_successor = aliased(ReplicaRow)
_has_successor = exists().where(
    _successor.container_id == ReplicaRow.container_id,
    _successor.generation == ReplicaRow.generation,
    _successor.slot == ReplicaRow.slot,
    _successor.state.in_(LIVE),
    _successor.moving_since.is_(None),
)
# Says nothing new, but lets Postgres use the small index of those that are not removed.
_NOT_REMOVED = text("replicas.state <> 'removed'")
_LIVES: ColumnElement[bool] = and_(_NOT_REMOVED, ReplicaRow.state.in_(LIVE))
_MAY_MOVE: ColumnElement[bool] = and_(_LIVES, ReplicaRow.moving_since.is_(None), _to_be_emptied)
_MAY_STAY: ColumnElement[bool] = and_(
    _LIVES, ReplicaRow.moving_since.is_not(None), ~_to_be_emptied, ~_has_successor
)
"""Its machine is open again, and nothing has taken its place yet."""
_FINDS_A_PLACE_WITHIN = timedelta(seconds=60)
_ON_THE_MOVE: ColumnElement[bool] = and_(
    _NOT_REMOVED,
    ReplicaRow.moving_since.is_not(None),
    or_(
        ReplicaRow.state == ReplicaState.DRAINING,
        and_(
            ReplicaRow.state.in_(LIVE),
            or_(_has_successor, ReplicaRow.moving_since > func.now() - _FINDS_A_PLACE_WITHIN),
        ),
    ),
)
"""What no other machine has room for waits, perhaps for ever, and takes nobody's turn meanwhile."""


async def replicas_to_move(session: AsyncSession, at_once: int) -> list[tuple[str, str]]:
    """(replica, container), oldest first, so that no machine has more than so many on the move. Of one that its owner wants back,
    all of them."""
    draining = select(NodeRow.name).where(NodeRow.draining_at.is_not(None)).limit(1)
    if (await session.execute(draining)).first() is None:
        return []
    on_the_move = (
        select(ReplicaRow.engine, ReplicaRow.node, func.count().label("count"))
        .where(_ON_THE_MOVE)
        .group_by(ReplicaRow.engine, ReplicaRow.node)
        .subquery()
    )
    its_machine = (ReplicaRow.engine, ReplicaRow.node)
    turn = func.row_number().over(partition_by=its_machine, order_by=(ReplicaRow.created_at, ReplicaRow.id))
    already = func.coalesce(on_the_move.c.count, 0)
    candidates = (
        select(
            ReplicaRow.id,
            ReplicaRow.container_id,
            (turn + already).label("turn"),
            _wanted_back.label("wanted_back"),
        )
        .outerjoin(
            on_the_move,
            and_(on_the_move.c.engine == ReplicaRow.engine, on_the_move.c.node == ReplicaRow.node),
        )
        .where(_MAY_MOVE)
        .subquery()
    )
    query = select(candidates.c.id, candidates.c.container_id).where(
        or_(candidates.c.turn <= at_once, candidates.c.wanted_back)
    )
    return [(replica_id, container_id) for replica_id, container_id in await session.execute(query)]


async def replicas_of_reclaimed(session: AsyncSession, before: timedelta) -> list[tuple[str, str]]:
    """(replica, container) of what is still on machines whose owners want them back so soon."""
    overdue = exists().where(_on_its_machine, NodeRow.empty_by - before <= func.now())
    there = or_(ReplicaRow.state.in_(LIVE), ReplicaRow.state == ReplicaState.DRAINING)
    query = select(ReplicaRow.id, ReplicaRow.container_id).where(_NOT_REMOVED, there, overdue)
    return [(replica_id, container_id) for replica_id, container_id in await session.execute(query)]


async def replicas_that_may_stay(session: AsyncSession) -> list[tuple[str, str]]:
    """One of a slot: where what took over was to move on itself, there are two, and the one that serves stays."""
    slot = (ReplicaRow.container_id, ReplicaRow.generation, ReplicaRow.slot)
    serves_first = case((ReplicaRow.state == ReplicaState.ROUTED, 0), else_=1)
    query = (
        select(ReplicaRow.id, ReplicaRow.container_id)
        .where(_MAY_STAY)
        .ext(distinct_on(*slot))
        .order_by(*slot, serves_first, ReplicaRow.created_at, ReplicaRow.id)
    )
    return [(replica_id, container_id) for replica_id, container_id in await session.execute(query)]


async def change_course(
    session: AsyncSession, moving: Sequence[tuple[str, str]], staying: Sequence[tuple[str, str]]
) -> None:
    """Under the locks of their containers, each only where it is still so."""
    await mark_due(session, sorted({container_id for _, container_id in (*moving, *staying)}))
    for replicas, still, since in ((moving, _MAY_MOVE, func.now()), (staying, _MAY_STAY, None)):
        if replicas:
            ids = [replica_id for replica_id, _ in replicas]
            await session.execute(
                update(ReplicaRow)
                .where(ReplicaRow.id.in_(ids), still)
                .values(moving_since=since)
                .execution_options(synchronize_session=False)
            )
