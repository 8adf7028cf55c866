from sqlalchemy import func, or_, select, tuple_
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


async def search_organizations(session: AsyncSession, wanted: str, most: int) -> list[tuple[str, str]]:
    """(id, name) of those whose name matches, or that have this id."""
    query = (
        select(OrganizationRow.id, OrganizationRow.name)
        .where(or_(OrganizationRow.name.icontains(wanted, autoescape=True), OrganizationRow.id == wanted))
        .order_by(func.length(OrganizationRow.name), OrganizationRow.id)
    )
    return [(row.id, row.name) for row in await session.execute(query.limit(most))]


async def search_users(
    session: AsyncSession, wanted: str, most: int
) -> list[tuple[str, str, str | None, str | None]]:
    """(id, address, organization's id, its name): one row for each organization that they belong to."""
    query = (
        select(UserRow.id, UserRow.email, OrganizationRow.id, OrganizationRow.name)
        .outerjoin(MemberRow, MemberRow.user_id == UserRow.id)
        .outerjoin(OrganizationRow, OrganizationRow.id == MemberRow.organization_id)
        .where(or_(UserRow.email.icontains(wanted, autoescape=True), UserRow.id == wanted))
        .order_by(func.length(UserRow.email), UserRow.id, MemberRow.joined_at)
    )
    rows = await session.execute(query.limit(most))
    return [(id_, email, owner, owner_name) for id_, email, owner, owner_name in rows]
