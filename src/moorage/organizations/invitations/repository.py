from datetime import timedelta

from sqlalchemy import ColumnElement, func, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.identity.users.models import UserRow
from moorage.kit.database import delete_portion
from moorage.kit.pagination import PageRequest
from moorage.organizations.invitations.models import InvitationRow
from moorage.organizations.models import OrganizationRow, ProjectRow

LIFETIME = timedelta(days=7)
_OPEN = InvitationRow.closed_at.is_(None)
_LIVE = _OPEN & (InvitationRow.expires_at > func.now())


async def add_invitation(session: AsyncSession, row: InvitationRow) -> None:
    session.add(row)
    await session.flush()
    await session.refresh(row)


async def count_recent(
    session: AsyncSession, organization_id: str, user_id: str, within: timedelta
) -> tuple[int, int]:
    """Into the organization, and by the person."""
    here, by_them = InvitationRow.organization_id == organization_id, InvitationRow.invited_by == user_id
    query = select(func.count().filter(here), func.count().filter(by_them)).where(
        here | by_them, InvitationRow.created_at > func.now() - within
    )
    into_it, by_person = (await session.execute(query)).one()
    return into_it, by_person


async def has_live_invitation(session: AsyncSession, email: str) -> bool:
    query = select(InvitationRow.id).where(InvitationRow.email == email, _LIVE).limit(1)
    return (await session.execute(query)).first() is not None


async def is_invited_here(session: AsyncSession, organization_id: str, email: str) -> bool:
    query = select(InvitationRow.id).where(_of(organization_id, email), _LIVE)
    return (await session.execute(query)).first() is not None


async def close_expired(session: AsyncSession, organization_id: str, email: str) -> None:
    expired = _of(organization_id, email) & _OPEN & (InvitationRow.expires_at <= func.now())
    await session.execute(update(InvitationRow).where(expired).values(closed_at=func.now()))


async def list_open(
    session: AsyncSession, organization_id: str, page: PageRequest
) -> list[tuple[InvitationRow, bool]]:
    """Each with whether it still works."""
    query = select(InvitationRow, _LIVE).where(InvitationRow.organization_id == organization_id, _OPEN)
    if page.after is not None:
        query = query.where(
            tuple_(InvitationRow.created_at, InvitationRow.id) < (page.after.time, page.after.id)
        )
    newest_first = query.order_by(InvitationRow.created_at.desc(), InvitationRow.id.desc())
    return [(row, live) for row, live in await session.execute(newest_first.limit(page.limit + 1))]


async def lock_open(session: AsyncSession, organization_id: str, invitation_id: str) -> InvitationRow | None:
    query = select(InvitationRow).where(
        InvitationRow.id == invitation_id, InvitationRow.organization_id == organization_id, _OPEN
    )
    return (await session.execute(query.with_for_update())).scalar_one_or_none()


async def organization_of(session: AsyncSession, token_hash: bytes, user_id: str) -> str | None:
    """Of the live invitation behind this token, if it went to this person's verified address."""
    query = select(InvitationRow.organization_id).where(_for(token_hash, user_id))
    return (await session.execute(query)).scalar_one_or_none()


async def lock_for(session: AsyncSession, token_hash: bytes, user_id: str) -> InvitationRow | None:
    """That invitation, if it is still live."""
    query = select(InvitationRow).where(_for(token_hash, user_id)).with_for_update()
    return (await session.execute(query)).scalar_one_or_none()


async def find_for(
    session: AsyncSession, token_hash: bytes, user_id: str
) -> tuple[InvitationRow, str, str | None, str] | None:
    """The same, with the names of the organization and the project, and the address of whoever invited."""
    inviter = select(UserRow.email).where(UserRow.id == InvitationRow.invited_by).scalar_subquery()
    query = (
        select(InvitationRow, OrganizationRow.name, ProjectRow.name, inviter)
        .join(OrganizationRow, OrganizationRow.id == InvitationRow.organization_id)
        .outerjoin(ProjectRow, (ProjectRow.id == InvitationRow.project_id) & ProjectRow.deleted_at.is_(None))
        .where(_for(token_hash, user_id))
    )
    found = (await session.execute(query)).one_or_none()
    return (found[0], found[1], found[2], found[3]) if found is not None else None


async def renew(session: AsyncSession, row: InvitationRow, token_hash: bytes) -> None:
    """A new link for seven more days; the one before is worth nothing from now on."""
    row.token_hash = token_hash
    row.times_sent += 1
    await session.flush()
    await session.execute(
        update(InvitationRow).where(InvitationRow.id == row.id).values(expires_at=func.now() + LIFETIME)
    )
    await session.refresh(row)


async def close(session: AsyncSession, row: InvitationRow) -> None:
    await session.execute(
        update(InvitationRow).where(InvitationRow.id == row.id).values(closed_at=func.now())
    )


async def withdraw_invitations_by(session: AsyncSession, organization_id: str, user_id: str) -> list[str]:
    theirs = (InvitationRow.organization_id == organization_id) & (InvitationRow.invited_by == user_id)
    closed = update(InvitationRow).where(theirs, _OPEN).values(closed_at=func.now())
    return sorted((await session.execute(closed.returning(InvitationRow.id))).scalars())


async def withdraw_invitations_to(session: AsyncSession, organization_id: str) -> list[str]:
    its = (InvitationRow.organization_id == organization_id) & _OPEN
    first = select(InvitationRow.id).where(its).order_by(InvitationRow.id).with_for_update()
    await session.execute(first)
    closed = update(InvitationRow).where(its).values(closed_at=func.now())
    return sorted((await session.execute(closed.returning(InvitationRow.id))).scalars())


def _of(organization_id: str, email: str) -> ColumnElement[bool]:
    return (InvitationRow.organization_id == organization_id) & (InvitationRow.email == email)


def _for(token_hash: bytes, user_id: str) -> ColumnElement[bool]:
    verified = (
        select(UserRow.email)
        .where(UserRow.id == user_id, UserRow.email_verified_at.is_not(None))
        .scalar_subquery()
    )
    return (InvitationRow.token_hash == token_hash) & _LIVE & (InvitationRow.email == verified)


async def purge_invitations(session: AsyncSession, kept: timedelta) -> int:
    row = InvitationRow
    return await delete_portion(
        session, row, func.coalesce(row.closed_at, row.expires_at) < func.now() - kept
    )
