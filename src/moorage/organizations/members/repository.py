from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import delete, func, select, tuple_
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.identity.users.models import UserRow
from moorage.kit.database import delete_portion
from moorage.kit.pagination import PageRequest
from moorage.organizations.models import MemberRow, PastMembershipRow, ProjectMemberRow, ProjectRow
from moorage.organizations.permissions import Role

PAST_KEPT = timedelta(days=400)
"""For longer than anybody asks who left (`billing/earnings`)."""
Member = tuple[MemberRow, str]
"""A member, and their address."""


async def list_members(session: AsyncSession, organization_id: str, page: PageRequest) -> list[Member]:
    query = (
        select(MemberRow, UserRow.email)
        .join(UserRow, UserRow.id == MemberRow.user_id)
        .where(MemberRow.organization_id == organization_id)
    )
    if page.after is not None:
        query = query.where(tuple_(MemberRow.joined_at, MemberRow.user_id) > (page.after.time, page.after.id))
    oldest_first = query.order_by(MemberRow.joined_at, MemberRow.user_id).limit(page.limit + 1)
    return [(row, email) for row, email in await session.execute(oldest_first)]


async def find_member(session: AsyncSession, organization_id: str, user_id: str) -> Member | None:
    query = (
        select(MemberRow, UserRow.email)
        .join(UserRow, UserRow.id == MemberRow.user_id)
        .where(MemberRow.organization_id == organization_id, MemberRow.user_id == user_id)
        .execution_options(populate_existing=True)
    )
    found = (await session.execute(query)).one_or_none()
    return (found[0], found[1]) if found is not None else None


async def is_member(session: AsyncSession, organization_id: str, email: str) -> bool:
    query = (
        select(MemberRow.user_id)
        .join(UserRow, UserRow.id == MemberRow.user_id)
        .where(MemberRow.organization_id == organization_id, UserRow.email == email)
    )
    return (await session.execute(query)).first() is not None


async def count_admins(session: AsyncSession, organization_id: str) -> int:
    admins = (MemberRow.organization_id == organization_id) & (MemberRow.role == Role.ADMIN)
    return (await session.execute(select(func.count()).select_from(MemberRow).where(admins))).scalar_one()


async def everybody(session: AsyncSession, organization_id: str) -> list[Member]:
    query = (
        select(MemberRow, UserRow.email)
        .join(UserRow, UserRow.id == MemberRow.user_id)
        .where(MemberRow.organization_id == organization_id)
        .order_by(MemberRow.user_id)
    )
    return [(row, email) for row, email in await session.execute(query)]


async def admin_addresses(session: AsyncSession, organization_id: str) -> list[str]:
    query = (
        select(UserRow.email)
        .join(MemberRow, MemberRow.user_id == UserRow.id)
        .where(MemberRow.organization_id == organization_id, MemberRow.role == Role.ADMIN)
        .order_by(MemberRow.joined_at, UserRow.id)
    )
    return list((await session.execute(query)).scalars())


async def joined_projects(
    session: AsyncSession, organization_id: str, user_ids: Sequence[str]
) -> dict[str, list[str]]:
    """By user; the oldest project first."""
    query = (
        select(ProjectMemberRow.user_id, ProjectRow.id)
        .join(ProjectRow, ProjectRow.id == ProjectMemberRow.project_id)
        .where(
            ProjectRow.organization_id == organization_id,
            ProjectRow.deleted_at.is_(None),
            ProjectMemberRow.user_id.in_(user_ids),
        )
        .order_by(ProjectRow.created_at, ProjectRow.id)
    )
    found: dict[str, list[str]] = {}
    for user_id, project_id in await session.execute(query):
        found.setdefault(user_id, []).append(project_id)
    return found


async def add_member(session: AsyncSession, organization_id: str, user_id: str, role: Role) -> None:
    """Who is a member already keeps their role."""
    values = {"organization_id": organization_id, "user_id": user_id, "role": role}
    await session.execute(insert(MemberRow).values(values).on_conflict_do_nothing())


async def join_project(session: AsyncSession, project_id: str, user_id: str) -> None:
    values = {"project_id": project_id, "user_id": user_id}
    await session.execute(insert(ProjectMemberRow).values(values).on_conflict_do_nothing())


async def leave_projects(session: AsyncSession, organization_id: str, user_id: str) -> None:
    of_organization = select(ProjectRow.id).where(ProjectRow.organization_id == organization_id)
    await session.execute(
        delete(ProjectMemberRow).where(
            ProjectMemberRow.user_id == user_id, ProjectMemberRow.project_id.in_(of_organization)
        )
    )


async def remove_member(session: AsyncSession, organization_id: str, user_id: str) -> None:
    await leave_projects(session, organization_id, user_id)
    its = (MemberRow.organization_id == organization_id) & (MemberRow.user_id == user_id)
    left = (
        await session.execute(delete(MemberRow).where(its).returning(MemberRow.user_id))
    ).scalar_one_or_none()
    if left is not None:
        row = insert(PastMembershipRow).values(organization_id=organization_id, user_id=user_id)
        await session.execute(
            row.on_conflict_do_update(
                index_elements=[PastMembershipRow.organization_id, PastMembershipRow.user_id],
                set_={"left_at": func.now()},
            )
        )


async def purge_past_memberships(session: AsyncSession) -> int:
    return await delete_portion(
        session, PastMembershipRow, PastMembershipRow.left_at < func.now() - PAST_KEPT
    )


async def find_projects(
    session: AsyncSession, organization_id: str, project_ids: Sequence[str]
) -> list[ProjectRow]:
    query = select(ProjectRow).where(
        ProjectRow.organization_id == organization_id,
        ProjectRow.deleted_at.is_(None),
        ProjectRow.id.in_(project_ids),
    )
    return list((await session.execute(query)).scalars())
