"""SQL of what replicas use."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import DateTime, Integer, String, any_, bindparam, delete, func, literal, select, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.containers.models import ReplicaRow
from moorage.telemetry.usage.blocks import RUNGS, Block, Rung
from moorage.telemetry.usage.models import ReplicaUsageRow

_RUNNING = ("starting", "ready", "routed", "draining")


@dataclass(frozen=True)
class RunningReplica:
    replica_id: str
    container_id: str
    engine_id: str
    gpu_device_ids: tuple[str, ...]


async def list_running_replicas(
    session: AsyncSession, engines: Collection[str]
) -> dict[str, list[RunningReplica]]:
    row = ReplicaRow
    query = select(row.engine, row.id, row.container_id, row.engine_id, row.gpu_device_ids).where(
        row.state.in_(_RUNNING),
        row.engine == any_(literal(sorted(engines), ARRAY(String))),
        row.engine_id.is_not(None),
        # Says nothing new, but lets Postgres use the small index of those that are not removed.
        text("replicas.state <> 'removed'"),
    )
    found: dict[str, list[RunningReplica]] = {engine: [] for engine in engines}
    for engine, replica_id, container_id, engine_id, gpu_device_ids in await session.execute(query):
        if engine_id is not None:
            found[engine].append(RunningReplica(replica_id, container_id, engine_id, tuple(gpu_device_ids)))
    return found


_STORE = text("""
INSERT INTO replica_usage (container_id, replica_id, at, step_s, figures)
SELECT container_id, replica_id, at, step_s, figures::jsonb
FROM unnest(:containers, :replicas, :times, :steps, :figures) AS block (container_id, replica_id, at, step_s, figures)
ON CONFLICT DO NOTHING
""").bindparams(
    bindparam("containers", type_=ARRAY(String)),
    bindparam("replicas", type_=ARRAY(String)),
    bindparam("times", type_=ARRAY(DateTime(timezone=True))),
    bindparam("steps", type_=ARRAY(Integer)),
    bindparam("figures", type_=ARRAY(String)),
)
"""Columns and not rows: there is a block of each replica every ten seconds, and a row at a time costs ten times as much."""


async def store_blocks(session: AsyncSession, blocks: Sequence[Block]) -> None:
    """Made again from the same rows, a block is the same; so the one that is there stays."""
    # A crash of Postgres may take the last moment: nothing is charged by these figures.
    await session.execute(select(func.set_config("synchronous_commit", "off", True)))
    if blocks:
        values = {
            "containers": [block.container_id for block in blocks],
            "replicas": [block.replica_id for block in blocks],
            "times": [block.at for block in blocks],
            "steps": [block.step_s for block in blocks],
            "figures": [json.dumps(block.figures) for block in blocks],
        }
        await session.execute(_STORE, values)


async def list_blocks(
    session: AsyncSession,
    rung: Rung,
    since: datetime,
    until: datetime,
    container_id: str | None = None,
    replica_id: str | None = None,
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
    if replica_id is not None:
        query = query.where(row.replica_id == replica_id)
    return [Block(*found) for found in await session.execute(query)]


async def newest_block_at(session: AsyncSession, rung: Rung) -> datetime | None:
    query = select(func.max(ReplicaUsageRow.at)).where(ReplicaUsageRow.step_s == rung.step_s)
    return (await session.execute(query)).scalar_one()


async def list_slots(
    session: AsyncSession, container_id: str, since: datetime, until: datetime, most: int
) -> dict[str, int]:
    """Of the newest replicas that something is known of in this time, oldest first."""
    row = ReplicaUsageRow
    known = select(row.replica_id).where(
        row.container_id == container_id,
        row.step_s.in_([rung.step_s for rung in RUNGS]),
        row.at >= since,
        row.at < until,
    )
    newest_first = (
        select(ReplicaRow.id, ReplicaRow.slot)
        .where(ReplicaRow.id.in_(known))
        .order_by(ReplicaRow.created_at.desc(), ReplicaRow.id.desc())
        .limit(most)
    )
    found = (await session.execute(newest_first)).all()
    return {replica.id: replica.slot for replica in reversed(found)}


async def purge(session: AsyncSession) -> None:
    """Everything that is older than it is kept."""
    for rung in RUNGS:
        old = (ReplicaUsageRow.step_s == rung.step_s) & (ReplicaUsageRow.at < func.now() - rung.kept)
        await session.execute(delete(ReplicaUsageRow).where(old))
