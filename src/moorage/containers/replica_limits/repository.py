from typing import Any

from sqlalchemy import func, select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.containers.models import ContainerRow
from moorage.containers.replica_limits.models import ReplicaLimitRequestRow
from moorage.kit.pagination import PageRequest
from moorage.organizations.models import ProjectRow


async def replica_limit(session: AsyncSession, project_id: str) -> int:
    query = select(ProjectRow.replica_limit).where(ProjectRow.id == project_id)
    return (await session.execute(query)).scalar_one()


async def newest_request_of(session: AsyncSession, container_id: str) -> ReplicaLimitRequestRow | None:
    query = (
        select(ReplicaLimitRequestRow)
        .where(ReplicaLimitRequestRow.container_id == container_id)
        .order_by(ReplicaLimitRequestRow.created_at.desc(), ReplicaLimitRequestRow.id.desc())
        .limit(1)
    )
    return (await session.execute(query)).scalar_one_or_none()


async def lock_project_of(session: AsyncSession, request_id: str) -> str | None:
    """The project's row, whose limit a decision raises; which container the request is about, if it is about one."""
    query = (
        select(ReplicaLimitRequestRow.container_id)
        .join(ProjectRow, ProjectRow.id == ReplicaLimitRequestRow.project_id)
        .where(ReplicaLimitRequestRow.id == request_id)
        .with_for_update(key_share=True, of=ProjectRow)
    )
    return (await session.execute(query)).scalar_one_or_none()


async def lock_request(
    session: AsyncSession, request_id: str
) -> tuple[ReplicaLimitRequestRow, ProjectRow] | None:
    query = (
        select(ReplicaLimitRequestRow, ProjectRow)
        .join(ProjectRow, ProjectRow.id == ReplicaLimitRequestRow.project_id)
        .where(ReplicaLimitRequestRow.id == request_id)
        .with_for_update(of=ReplicaLimitRequestRow)
    )
    found = (await session.execute(query)).one_or_none()
    return None if found is None else (found[0], found[1])


async def count_made_ahead(session: AsyncSession, project_id: str) -> int:
    """Those that wait, and that no container waits for."""
    row = ReplicaLimitRequestRow
    waiting = (row.project_id == project_id) & (row.state == "pending") & row.container_id.is_(None)
    return (await session.execute(select(func.count()).where(waiting))).scalar_one()


async def lock_pending(session: AsyncSession, project_id: str) -> list[ReplicaLimitRequestRow]:
    row = ReplicaLimitRequestRow
    query = select(row).where(row.project_id == project_id, row.state == "pending").order_by(row.id)
    return list((await session.execute(query.with_for_update())).scalars())


async def list_of_project(
    session: AsyncSession, project_id: str, page: PageRequest
) -> list[ReplicaLimitRequestRow]:
    query = select(ReplicaLimitRequestRow).where(ReplicaLimitRequestRow.project_id == project_id)
    return list((await session.execute(_newest_first(query, page))).scalars())


async def list_all(
    session: AsyncSession, state: str | None, page: PageRequest
) -> list[tuple[ReplicaLimitRequestRow, ProjectRow]]:
    query = select(ReplicaLimitRequestRow, ProjectRow).join(
        ProjectRow, ProjectRow.id == ReplicaLimitRequestRow.project_id
    )
    if state is not None:
        query = query.where(ReplicaLimitRequestRow.state == state)
    return [(row[0], row[1]) for row in await session.execute(_newest_first(query, page))]


async def waiting_containers(session: AsyncSession, project_id: str) -> list[str]:
    """Those that asked for more than the limit; only they change with it."""
    most = ContainerRow.settings["max_replicas"].as_integer()
    query = (
        select(ContainerRow.id)
        .join(ReplicaLimitRequestRow, ReplicaLimitRequestRow.container_id == ContainerRow.id)
        .where(ContainerRow.project_id == project_id, ContainerRow.deleted_at.is_(None), most > 1)
        .group_by(ContainerRow.id)
        .having(func.count() > 0)
    )
    return list((await session.execute(query)).scalars())


def _newest_first(query: Any, page: PageRequest) -> Any:
    time, key = ReplicaLimitRequestRow.created_at, ReplicaLimitRequestRow.id
    if page.after is not None:
        query = query.where(tuple_(time, key) < (page.after.time, page.after.id))
    return query.order_by(time.desc(), key.desc()).limit(page.limit + 1)
