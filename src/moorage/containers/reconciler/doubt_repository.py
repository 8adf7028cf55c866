"""SQL of what is missing from a machine, of doubts about it, and of their end."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import delete, func, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.containers.doubt import Loss
from moorage.containers.models import MachineDoubtRow, ReplicaRow
from moorage.containers.repository import marking_due
from moorage.containers.states import ReplicaState

EXPECTED = (ReplicaState.STARTING, ReplicaState.READY, ReplicaState.ROUTED, ReplicaState.DRAINING)
"""The engine should know them."""


@dataclass(frozen=True)
class Doubt:
    node: str
    since: datetime
    missing: int
    expected: int
    gone_at: datetime | None


async def expected_replicas(session: AsyncSession) -> list[tuple[str, str]]:
    """(replica, machine) of all that an engine should know."""
    query = select(ReplicaRow.id, ReplicaRow.node).where(
        # Says nothing new, but lets Postgres use the small index of those that are not removed.
        text("replicas.state <> 'removed'"),
        ReplicaRow.state.in_(EXPECTED),
    )
    return [(replica_id, node) for replica_id, node in await session.execute(query)]


async def list_doubts(session: AsyncSession) -> list[Doubt]:
    rows = (await session.execute(select(MachineDoubtRow).order_by(MachineDoubtRow.node))).scalars()
    return [_doubt(row) for row in rows]


async def note_doubt(session: AsyncSession, node: str, loss: Loss) -> tuple[Doubt, bool]:
    """Begins it, or says what is missing now. Whether it is new."""
    values = {"missing": loss.missing, "expected": loss.expected}
    upsert = (
        insert(MachineDoubtRow)
        .values(node=node, **values)
        .on_conflict_do_update(index_elements=[MachineDoubtRow.node], set_=values)
        .returning(MachineDoubtRow, text("xmax = 0"))
    )
    row, is_new = (await session.execute(upsert.execution_options(populate_existing=True))).one()
    return _doubt(row), bool(is_new)


async def end_doubts(session: AsyncSession, nodes: Collection[str]) -> None:
    await session.execute(delete(MachineDoubtRow).where(MachineDoubtRow.node.in_(nodes)))


async def say_gone(session: AsyncSession, node: str) -> Doubt | None:
    """The operator's word; None where nobody doubts. Its containers get a pass at once."""
    said = (
        update(MachineDoubtRow)
        .where(MachineDoubtRow.node == node)
        .values(gone_at=func.coalesce(MachineDoubtRow.gone_at, func.now()))
        .returning(MachineDoubtRow)
    )
    row = (await session.execute(said)).scalar_one_or_none()
    if row is None:
        return None
    missing = select(ReplicaRow.container_id).where(
        ReplicaRow.node == node, ReplicaRow.missing_since.is_not(None)
    )
    await session.execute(marking_due(missing))
    return _doubt(row)


async def mark_missing(session: AsyncSession, replica_ids: Sequence[str]) -> None:
    await session.execute(
        update(ReplicaRow)
        .where(ReplicaRow.id.in_(replica_ids), ReplicaRow.missing_since.is_(None))
        .values(missing_since=func.now())
    )


async def mark_back(session: AsyncSession, replica_ids: Sequence[str]) -> None:
    await session.execute(update(ReplicaRow).where(ReplicaRow.id.in_(replica_ids)).values(missing_since=None))


def _doubt(row: MachineDoubtRow) -> Doubt:
    return Doubt(row.node, row.since, row.missing, row.expected, row.gone_at)
