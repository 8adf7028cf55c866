"""SQL of what the operator sees of an organization's containers: that they are there, how they are, what they cost."""

from dataclasses import dataclass

from sqlalchemy import or_, select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.containers.models import ContainerRow
from moorage.containers.repository import ready_counts
from moorage.kit.pagination import PageRequest
from moorage.organizations.models import OrganizationRow, ProjectRow


@dataclass(frozen=True)
class SeenContainer:
    row: ContainerRow
    project_name: str
    ready: int


async def list_containers_of(
    session: AsyncSession, organization_id: str, page: PageRequest
) -> list[SeenContainer]:
    query = (
        select(ContainerRow, ProjectRow.name)
        .join(ProjectRow, ProjectRow.id == ContainerRow.project_id)
        .where(ProjectRow.organization_id == organization_id, ContainerRow.deleted_at.is_(None))
    )
    if page.after is not None:
        query = query.where(
            tuple_(ContainerRow.created_at, ContainerRow.id) < (page.after.time, page.after.id)
        )
    newest_first = query.order_by(ContainerRow.created_at.desc(), ContainerRow.id.desc())
    found = (await session.execute(newest_first.limit(page.limit + 1))).all()
    ready = await ready_counts(session, [row.id for row, _ in found])
    return [SeenContainer(row, name, ready.get(row.id, 0)) for row, name in found]


async def search_containers(session: AsyncSession, wanted: str, most: int) -> list[tuple[str, str, str, str]]:
    """(id, name, organization's id, its name)."""
    query = (
        select(ContainerRow.id, ContainerRow.name, OrganizationRow.id, OrganizationRow.name)
        .join(ProjectRow, ProjectRow.id == ContainerRow.project_id)
        .join(OrganizationRow, OrganizationRow.id == ProjectRow.organization_id)
        .where(
            ContainerRow.deleted_at.is_(None),
            or_(ContainerRow.name.icontains(wanted, autoescape=True), ContainerRow.id == wanted),
        )
        .order_by(ContainerRow.created_at.desc(), ContainerRow.id)
        .limit(most)
    )
    rows = await session.execute(query)
    return [(id_, name, owner, owner_name) for id_, name, owner, owner_name in rows]


async def organization_of_project(session: AsyncSession, project_id: str) -> tuple[str, str] | None:
    """(id, name), also of a project that was deleted."""
    query = (
        select(OrganizationRow.id, OrganizationRow.name)
        .join(ProjectRow, ProjectRow.organization_id == OrganizationRow.id)
        .where(ProjectRow.id == project_id)
    )
    found = (await session.execute(query)).one_or_none()
    return (found[0], found[1]) if found is not None else None
