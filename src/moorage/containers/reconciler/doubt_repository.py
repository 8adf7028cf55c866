"""SQL of what is missing from a machine, of doubts about it, and of their end."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import delete, func, select, text, tuple_, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.containers.doubt import Loss
from moorage.containers.models import MachineDoubtRow, ReplicaRow
from moorage.containers.repository import marking_due
from moorage.containers.states import ReplicaState
from moorage.engines.base import MachineKey

EXPECTED = (ReplicaState.STARTING, ReplicaState.READY, ReplicaState.ROUTED, ReplicaState.DRAINING)
"""The engine should know them."""


@dataclass(frozen=True)
class Doubt:
    engine: str
    node: str
    since: datetime
    missing: int
    expected: int
    gone_at: datetime | None

    @property
    def machine(self) -> MachineKey:
        return MachineKey(self.engine, self.node)


async def expected_replicas(session: AsyncSession) -> list[tuple[str, MachineKey]]:
    """(replica, machine) of all that an engine should know."""
    query = select(ReplicaRow.id, ReplicaRow.engine, ReplicaRow.node).where(
        # Says nothing new, but lets Postgres use the small index of those that are not removed.
        text("replicas.state <> 'removed'"),
        ReplicaRow.state.in_(EXPECTED),
    )
    return [(one, MachineKey(engine, node)) for one, engine, node in await session.execute(query)]


async def list_doubts(session: AsyncSession) -> list[Doubt]:
    rows = (
        await session.execute(select(MachineDoubtRow).order_by(MachineDoubtRow.node, MachineDoubtRow.engine))
    ).scalars()
    return [_doubt(row) for row in rows]


async def note_doubt(session: AsyncSession, machine: MachineKey, loss: Loss) -> tuple[Doubt, bool]:
    """Begins it, or says what is missing now. Whether it is new."""
    values = {"missing": loss.missing, "expected": loss.expected}
    upsert = (
        insert(MachineDoubtRow)
        .values(engine=machine.engine, node=machine.node, **values)
        .on_conflict_do_update(index_elements=[MachineDoubtRow.engine, MachineDoubtRow.node], set_=values)
        .returning(MachineDoubtRow, text("xmax = 0"))
    )
    row, is_new = (await session.execute(upsert.execution_options(populate_existing=True))).one()
    return _doubt(row), bool(is_new)


async def end_doubts(session: AsyncSession, machines: Collection[MachineKey]) -> None:
    ended = tuple_(MachineDoubtRow.engine, MachineDoubtRow.node).in_([tuple(one) for one in machines])
    await session.execute(delete(MachineDoubtRow).where(ended))


async def forget_doubts(session: AsyncSession, engine: str) -> None:
    """Its machines left for good."""
    await session.execute(delete(MachineDoubtRow).where(MachineDoubtRow.engine == engine))


async def say_gone(session: AsyncSession, node: str) -> Doubt | None:
    """The operator's word; None where nobody doubts. Its containers get a pass at once."""
    said = (
        update(MachineDoubtRow)
        .where(MachineDoubtRow.node == node)
        .values(gone_at=func.coalesce(MachineDoubtRow.gone_at, func.now()))
        .returning(MachineDoubtRow)
    )
    row = (await session.execute(said)).scalars().first()
    if row is None:
        return None
    missing = select(ReplicaRow.container_id).where(
        ReplicaRow.engine == row.engine, ReplicaRow.node == node, ReplicaRow.missing_since.is_not(None)
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
    return Doubt(row.engine, row.node, row.since, row.missing, row.expected, row.gone_at)
