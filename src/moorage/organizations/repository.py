from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import and_, bindparam, func, or_, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.kit.ids import OrganizationId, ProjectId, UserId, new_organization_id, new_project_id
from moorage.kit.pagination import PageRequest
from moorage.organizations.models import MemberRow, OrganizationRow, ProjectMemberRow, ProjectRow
from moorage.organizations.permissions import Role

DELETED_COUNT_FOR = timedelta(days=7)


@dataclass(frozen=True)
class HeldProject:
    suspended: bool
    """Its organization is."""


async def create_organization(session: AsyncSession, name: str, admin: UserId) -> OrganizationRow:
    row = OrganizationRow(id=new_organization_id(), name=name)
    session.add(row)
    await session.flush()
    session.add(MemberRow(organization_id=row.id, user_id=admin, role=Role.ADMIN))
    await session.flush()
    return row


async def list_organizations(
    session: AsyncSession, user_id: UserId, page: PageRequest
) -> list[tuple[OrganizationRow, str]]:
    query = (
        select(OrganizationRow, MemberRow.role)
        .join(MemberRow, MemberRow.organization_id == OrganizationRow.id)
        .where(MemberRow.user_id == user_id)
    )
    if page.after is not None:
        query = query.where(
            tuple_(OrganizationRow.created_at, OrganizationRow.id) > (page.after.time, page.after.id)
        )
    oldest_first = query.order_by(OrganizationRow.created_at, OrganizationRow.id).limit(page.limit + 1)
    return [(row, role) for row, role in await session.execute(oldest_first)]


async def count_administered(session: AsyncSession, user_id: str) -> int:
    """With those that they deleted lately: the rows of each stay."""
    now = select(func.count()).where(MemberRow.user_id == user_id, MemberRow.role == Role.ADMIN)
    deleted = select(func.count()).where(
        OrganizationRow.deleted_by == user_id, OrganizationRow.deleted_at > func.now() - DELETED_COUNT_FOR
    )
    query = select(now.scalar_subquery() + deleted.scalar_subquery())
    return int((await session.execute(query)).scalar_one())


async def count_projects(session: AsyncSession, organization_id: str) -> int:
    there = (ProjectRow.organization_id == organization_id) & ProjectRow.deleted_at.is_(None)
    return (await session.execute(select(func.count()).where(there))).scalar_one()


async def find_organization(session: AsyncSession, organization_id: str) -> OrganizationRow | None:
    return await session.get(OrganizationRow, organization_id)


async def find_membership(
    session: AsyncSession, organization_id: str, user_id: UserId
) -> tuple[OrganizationRow, Role] | None:
    query = (
        select(OrganizationRow, MemberRow.role)
        .join(MemberRow, MemberRow.organization_id == OrganizationRow.id)
        .where(OrganizationRow.id == organization_id, MemberRow.user_id == user_id)
    )
    found = (await session.execute(query)).one_or_none()
    return (found[0], Role(found[1])) if found is not None else None


async def lock_organization(session: AsyncSession, organization_id: str) -> None:
    """Whoever else changes its members waits until this transaction ends. Nobody else does: whatever is recorded about an
    organization refers to it, often by somebody who holds a key or an invitation that its change of members is about."""
    query = select(OrganizationRow.id).where(OrganizationRow.id == organization_id)
    (await session.execute(query.with_for_update(key_share=True))).scalar_one()


async def hold_organization(session: AsyncSession, organization_id: str) -> bool:
    """Until this transaction ends nobody changes its members, or deletes it. Others may hold it too. False where it was deleted."""
    query = select(OrganizationRow.deleted_at).where(OrganizationRow.id == organization_id)
    return (await session.execute(query.with_for_update(read=True))).scalar_one() is None


async def mark_deleted(session: AsyncSession, organization_id: str, user_id: str) -> bool:
    """False where somebody else did. Locks it as `lock_organization` does."""
    deleted = (
        update(OrganizationRow)
        .where(OrganizationRow.id == organization_id, OrganizationRow.deleted_at.is_(None))
        .values(deleted_at=func.now(), deleted_by=user_id)
        .returning(OrganizationRow.id)
    )
    return (await session.execute(deleted)).first() is not None


async def set_suspended(session: AsyncSession, organization_id: str, suspended: bool) -> bool:
    """False where nothing changed."""
    now_suspended = OrganizationRow.suspended_at.is_not(None)
    changed = (
        update(OrganizationRow)
        .where(OrganizationRow.id == organization_id, now_suspended.is_not(suspended))
        .values(suspended_at=func.now() if suspended else None)
        .returning(OrganizationRow.id)
    )
    return (await session.execute(changed)).first() is not None


async def is_suspended(session: AsyncSession, project_id: str) -> bool:
    query = (
        select(OrganizationRow.suspended_at)
        .join(ProjectRow, ProjectRow.organization_id == OrganizationRow.id)
        .where(ProjectRow.id == project_id)
    )
    return (await session.execute(query)).scalar_one_or_none() is not None


async def create_project(session: AsyncSession, organization_id: OrganizationId, name: str) -> ProjectRow:
    row = ProjectRow(id=new_project_id(), organization_id=organization_id, name=name)
    session.add(row)
    await session.flush()
    return row


async def project_name_taken(session: AsyncSession, organization_id: str, name: str) -> bool:
    query = select(ProjectRow.id).where(
        ProjectRow.organization_id == organization_id,
        ProjectRow.name == name,
        ProjectRow.deleted_at.is_(None),
    )
    return (await session.execute(query)).first() is not None


async def find_project(session: AsyncSession, project_id: ProjectId | str) -> ProjectRow | None:
    query = select(ProjectRow).where(ProjectRow.id == project_id, ProjectRow.deleted_at.is_(None))
    return (await session.execute(query)).scalar_one_or_none()


async def find_oldest_project(session: AsyncSession, organization_id: str) -> ProjectRow | None:
    query = select(ProjectRow).where(
        ProjectRow.organization_id == organization_id, ProjectRow.deleted_at.is_(None)
    )
    oldest_first = query.order_by(ProjectRow.created_at, ProjectRow.id).limit(1)
    return (await session.execute(oldest_first)).scalar_one_or_none()


async def list_project_ids(session: AsyncSession, organization_id: str) -> list[str]:
    """Removed ones too."""
    query = select(ProjectRow.id).where(ProjectRow.organization_id == organization_id)
    return list((await session.execute(query)).scalars())


_HOLD = (
    select(OrganizationRow.suspended_at.is_not(None))
    .join(ProjectRow, ProjectRow.organization_id == OrganizationRow.id)
    .where(ProjectRow.id == bindparam("id"), ProjectRow.deleted_at.is_(None))
    .with_for_update(key_share=True, read=True, of=ProjectRow)
)


async def hold_project(session: AsyncSession, project_id: str) -> HeldProject | None:
    """None where it is removed. Until this transaction ends nobody removes it, so that nothing is put into a
    project behind the back of its removal."""
    suspended = (await session.execute(_HOLD, {"id": project_id})).scalar_one_or_none()
    return None if suspended is None else HeldProject(suspended)


async def remove_project(session: AsyncSession, project_id: str) -> bool:
    """False where somebody else did. Waits for whoever holds it."""
    query = select(ProjectRow.id).where(ProjectRow.id == project_id, ProjectRow.deleted_at.is_(None))
    if (await session.execute(query.with_for_update())).first() is None:
        return False
    await session.execute(update(ProjectRow).where(ProjectRow.id == project_id).values(deleted_at=func.now()))
    return True


_JOINED = (
    select(ProjectRow, MemberRow.role)
    .join(MemberRow, MemberRow.organization_id == ProjectRow.organization_id)
    .outerjoin(
        ProjectMemberRow,
        and_(ProjectMemberRow.project_id == ProjectRow.id, ProjectMemberRow.user_id == bindparam("user")),
    )
    .where(
        ProjectRow.id == bindparam("project"),
        ProjectRow.deleted_at.is_(None),
        MemberRow.user_id == bindparam("user"),
        or_(MemberRow.role == Role.ADMIN, ProjectMemberRow.user_id.is_not(None)),
    )
)
"""Made once: nearly every request asks it."""


async def find_joined_project(
    session: AsyncSession, project_id: str, user_id: UserId
) -> tuple[ProjectRow, Role] | None:
    """The project and the user's role in it: admins of its organization are in all of its projects."""
    found = (await session.execute(_JOINED, {"project": project_id, "user": user_id})).one_or_none()
    return (found[0], Role(found[1])) if found is not None else None


async def list_projects(session: AsyncSession, organization_id: str) -> list[ProjectRow]:
    """Those that are not removed, in the order of their ids."""
    query = select(ProjectRow).where(
        ProjectRow.organization_id == organization_id, ProjectRow.deleted_at.is_(None)
    )
    return list((await session.execute(query.order_by(ProjectRow.id))).scalars())


async def joined_project_ids(session: AsyncSession, organization_id: str, user_id: UserId) -> list[str]:
    """Of a `user`; an admin is in all of them."""
    query = (
        select(ProjectRow.id)
        .join(ProjectMemberRow, ProjectMemberRow.project_id == ProjectRow.id)
        .where(ProjectRow.organization_id == organization_id, ProjectMemberRow.user_id == user_id)
    )
    return list((await session.execute(query)).scalars())


async def list_joined_projects(
    session: AsyncSession, organization_id: str, user_id: UserId, role: Role, page: PageRequest
) -> list[ProjectRow]:
    query = select(ProjectRow).where(
        ProjectRow.organization_id == organization_id, ProjectRow.deleted_at.is_(None)
    )
    if role is not Role.ADMIN:
        joined = select(ProjectMemberRow.project_id).where(ProjectMemberRow.user_id == user_id)
        query = query.where(ProjectRow.id.in_(joined))
    if page.after is not None:
        query = query.where(tuple_(ProjectRow.created_at, ProjectRow.id) > (page.after.time, page.after.id))
    oldest_first = query.order_by(ProjectRow.created_at, ProjectRow.id).limit(page.limit + 1)
    return list((await session.execute(oldest_first)).scalars())
