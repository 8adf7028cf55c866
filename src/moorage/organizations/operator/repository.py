from sqlalchemy import func, select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.identity.users.models import UserRow
from moorage.kit.pagination import PageRequest
from moorage.organizations.models import MemberRow, OrganizationRow, ProjectRow


async def list_organizations(
    session: AsyncSession, page: PageRequest
) -> list[tuple[OrganizationRow, int, int]]:
    """Each with how many members and projects it has."""
    members = (
        select(func.count())
        .where(MemberRow.organization_id == OrganizationRow.id)
        .correlate(OrganizationRow)
        .scalar_subquery()
    )
    projects = (
        select(func.count())
        .where(ProjectRow.organization_id == OrganizationRow.id, ProjectRow.deleted_at.is_(None))
        .correlate(OrganizationRow)
        .scalar_subquery()
    )
    query = select(OrganizationRow, members, projects)
    if page.after is not None:
        query = query.where(
            tuple_(OrganizationRow.created_at, OrganizationRow.id) < (page.after.time, page.after.id)
        )
    newest_first = query.order_by(OrganizationRow.created_at.desc(), OrganizationRow.id.desc())
    return [
        (row, joined, made) for row, joined, made in await session.execute(newest_first.limit(page.limit + 1))
    ]


async def list_users(session: AsyncSession, page: PageRequest) -> list[tuple[UserRow, list[str]]]:
    """Each with the organizations that they belong to."""
    belongs = (
        select(func.coalesce(func.array_agg(MemberRow.organization_id), []))
        .where(MemberRow.user_id == UserRow.id)
        .correlate(UserRow)
        .scalar_subquery()
    )
    query = select(UserRow, belongs)
    if page.after is not None:
        query = query.where(tuple_(UserRow.created_at, UserRow.id) < (page.after.time, page.after.id))
    newest_first = query.order_by(UserRow.created_at.desc(), UserRow.id.desc())
    return [(row, ids) for row, ids in await session.execute(newest_first.limit(page.limit + 1))]
