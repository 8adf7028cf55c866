"""SQL of what goes in the end: ended replicas, deleted containers, activities. In portions, so that nobody waits for long."""

from datetime import timedelta
from typing import Any

from sqlalchemy import delete, exists, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.catalog.models import NodeRow
from moorage.containers.doctor.models import NetworkDiagnosisRow
from moorage.containers.models import ActivityRow, CacheRow, ContainerRow, ReplicaRouteRow, ReplicaRow
from moorage.containers.replica_limits.models import ReplicaLimitRequestRow
from moorage.containers.states import ReplicaState
from moorage.containers.versions.models import VersionFiguresRow, VersionResponseTimesRow, VersionRow
from moorage.kit.database import PORTION, delete_portion


async def purge_replicas(session: AsyncSession, kept: timedelta) -> int:
    row = ReplicaRow
    ended_at = func.coalesce(row.ended_at, row.created_at)
    routed = exists().where(ReplicaRouteRow.replica_id == row.id)
    # A port stays with its replica's row until every gateway has let go of it.
    done = (row.state == ReplicaState.REMOVED) & row.port_released_at.is_not(None) & ~routed
    old = done & (ended_at < func.now() - kept)
    return await delete_portion(session, row, old)


async def forget_caches_of_gone_machines(session: AsyncSession) -> None:
    """A machine that left has deleted them (`moor-node leave`), or is nobody's any more."""
    there = exists().where(NodeRow.engine == CacheRow.engine).correlate(CacheRow)
    await session.execute(delete(CacheRow).where(~there))


async def purge_activities(session: AsyncSession, kept: timedelta) -> int:
    return await delete_portion(session, ActivityRow, ActivityRow.at < func.now() - kept)


async def purge_containers(session: AsyncSession, kept: timedelta) -> int:
    """Once nothing is left of their replicas. What they cost stays in the ledger, which names them by their id."""
    row = ContainerRow
    has_replicas = exists().where(ReplicaRow.container_id == row.id)
    # Of a machine that is away for so long its cache may still be there, and has to go first.
    has_caches = exists().where(CacheRow.container_id == row.id)
    old = select(row.id).where(row.deleted_at < func.now() - kept, ~has_replicas, ~has_caches).limit(PORTION)
    ids = list((await session.execute(old.with_for_update(skip_locked=True))).scalars())
    dependent: tuple[Any, ...] = (
        NetworkDiagnosisRow,
        ReplicaLimitRequestRow,
        VersionRow,
        VersionFiguresRow,
        VersionResponseTimesRow,
    )
    for table in dependent:
        await session.execute(delete(table).where(table.container_id.in_(ids)))
    await session.execute(delete(row).where(row.id.in_(ids)))
    return len(ids)
