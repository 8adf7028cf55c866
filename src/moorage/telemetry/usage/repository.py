"""SQL of what replicas use."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import delete, func, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.containers.models import ReplicaRow
from moorage.telemetry.usage.blocks import RUNGS, Block, Rung
from moorage.telemetry.usage.models import ReplicaUsageRow

_ROWS_PER_STATEMENT = 1000
_RUNNING = ("starting", "ready", "routed", "draining")


@dataclass(frozen=True)
class RunningReplica:
    replica_id: str
    container_id: str
    engine_id: str
    gpu_device_ids: tuple[str, ...]


async def list_running_replicas(session: AsyncSession) -> list[RunningReplica]:
    row = ReplicaRow
    query = select(row.id, row.container_id, row.engine_id, row.gpu_device_ids).where(
        row.state.in_(_RUNNING),
        row.engine_id.is_not(None),
        # Says nothing new, but lets Postgres use the small index of those that are not removed.
        text("replicas.state <> 'removed'"),
    )
    return [
        RunningReplica(replica_id, container_id, engine_id, tuple(gpu_device_ids))
        for replica_id, container_id, engine_id, gpu_device_ids in await session.execute(query)
        if engine_id is not None
    ]


async def store_blocks(session: AsyncSession, blocks: Sequence[Block]) -> None:
    """Made again from the same rows, a block is the same; so the one that is there stays."""
    # A crash of Postgres may take the last moment: nothing is charged by these figures.
    await session.execute(select(func.set_config("synchronous_commit", "off", True)))
    for begin in range(0, len(blocks), _ROWS_PER_STATEMENT):
        some = [vars(block) for block in blocks[begin : begin + _ROWS_PER_STATEMENT]]
        await session.execute(insert(ReplicaUsageRow).on_conflict_do_nothing(), some)


async def list_blocks(
    session: AsyncSession, rung: Rung, since: datetime, until: datetime, container_id: str | None = None
) -> list[Block]:
    """Those that begin from `since` on and before `until`."""
    row = ReplicaUsageRow
    query = (
        select(row.container_id, row.replica_id, row.at, row.step_s, row.figures)
        .where(row.step_s == rung.step_s, row.at >= since, row.at < until)
        .order_by(row.at)
    )
    if container_id is not None:
        query = query.where(row.container_id == container_id)
    return [Block(*found) for found in await session.execute(query)]


async def newest_block_at(session: AsyncSession, rung: Rung) -> datetime | None:
    query = select(func.max(ReplicaUsageRow.at)).where(ReplicaUsageRow.step_s == rung.step_s)
    return (await session.execute(query)).scalar_one()


async def list_slots(session: AsyncSession, replica_ids: Collection[str]) -> dict[str, int]:
    """Of replicas, oldest first."""
    query = (
        select(ReplicaRow.id, ReplicaRow.slot)
        .where(ReplicaRow.id.in_(list(replica_ids)))
        .order_by(ReplicaRow.created_at, ReplicaRow.id)
    )
    return {found.id: found.slot for found in await session.execute(query)}


async def purge(session: AsyncSession) -> None:
    """Everything that is older than it is kept."""
    for rung in RUNGS:
        old = (ReplicaUsageRow.step_s == rung.step_s) & (ReplicaUsageRow.at < func.now() - rung.kept)
        await session.execute(delete(ReplicaUsageRow).where(old))
