"""Invitations: for one address, once, within seven days. For anybody else there is no such invitation."""

from datetime import timedelta

from sqlalchemy import func
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.identity.actor import UserActor
from moorage.identity.tokens import INVITATION_PREFIX, is_well_formed, new_token
from moorage.kit.crypto import Keyring, sha256
from moorage.kit.database import take_turn
from moorage.kit.email import normalized
from moorage.kit.errors import (
    ConflictError,
    FieldError,
    InvalidInputError,
    NotFoundError,
    TooManyRequestsError,
)
from moorage.kit.ids import new_invitation_id
from moorage.kit.settings import Settings
from moorage.notifications.repository import queue_mail
from moorage.organizations.audit.repository import record_audit
from moorage.organizations.invitations import repository
from moorage.organizations.invitations.models import InvitationRow
from moorage.organizations.invitations.schemas import InvitationCreate, InvitationForMe
from moorage.organizations.members.repository import add_member, find_projects, is_member, join_project
from moorage.organizations.members.service import lock_as_manager
from moorage.organizations.models import OrganizationRow
from moorage.organizations.permissions import Role
from moorage.organizations.repository import find_oldest_project, hold_organization

TIMES_SENT_LIMIT = 5


async def invite(
    session: AsyncSession,
    keyring: Keyring,
    settings: Settings,
    actor: UserActor,
    organization: OrganizationRow,
    wanted: InvitationCreate,
) -> InvitationRow:
    address = _address(wanted.email)
    # Counted below; before the organization's lock, as docs/locking.md says.
    await take_turn(session, f"invitations:{actor.user_id}")
    await lock_as_manager(session, organization.id, actor)
    await _refuse_known(session, organization.id, address)
    await _require_few(session, settings.invitations_per_day, actor, organization)
    project_id = await _project(session, organization.id, wanted.project_id)
    token = new_token(INVITATION_PREFIX)
    row = InvitationRow(
        id=new_invitation_id(),
        organization_id=organization.id,
        project_id=project_id,
        email=address,
        role=wanted.role,
        token_hash=sha256(token),
        invited_by=actor.user_id,
        expires_at=func.now() + repository.LIFETIME,
    )
    await repository.close_expired(session, organization.id, address)
    await repository.add_invitation(session, row)
    await _mail(session, keyring, settings, actor, organization, row, token)
    _record(session, actor, row, "invitation.create")
    return row


async def _require_few(
    session: AsyncSession, most: int, actor: UserActor, organization: OrganizationRow
) -> None:
    """By one person too: whoever makes an organization for every few mails sends no more of them."""
    by_all, by_one = await repository.count_recent(session, organization.id, actor.user_id, timedelta(days=1))
    if max(by_all, by_one) >= most:
        message = f"You can invite at most {most} people in a day. Continue tomorrow."
        raise TooManyRequestsError(message, retry_after_s=86_400, code="too_many_invitations")


async def resend(
    session: AsyncSession,
    keyring: Keyring,
    settings: Settings,
    actor: UserActor,
    organization: OrganizationRow,
    invitation_id: str,
) -> InvitationRow:
    row = await _open(session, organization.id, invitation_id)
    if row.times_sent >= TIMES_SENT_LIMIT:
        message = f"The invitation was sent {row.times_sent} times. Ask them to look for it, or withdraw it."
        raise TooManyRequestsError(message, retry_after_s=86_400)
    token = new_token(INVITATION_PREFIX)
    await repository.renew(session, row, sha256(token))
    await _mail(session, keyring, settings, actor, organization, row, token)
    _record(session, actor, row, "invitation.resend")
    return row


async def withdraw(session: AsyncSession, actor: UserActor, organization_id: str, invitation_id: str) -> None:
    row = await _open(session, organization_id, invitation_id)
    await repository.close(session, row)
    _record(session, actor, row, "invitation.withdraw")


async def show(session: AsyncSession, actor: UserActor, token: str) -> InvitationForMe:
    found = None
    if is_well_formed(token, INVITATION_PREFIX):
        found = await repository.find_for(session, sha256(token), actor.user_id)
    if found is None:
        raise _not_for_you()
    row, organization_name, project_name, inviter = found
    return InvitationForMe(
        organization_name=organization_name,
        project_name=project_name,
        role=Role(row.role).value,
        invited_by=inviter,
        expires_at=row.expires_at,
    )


async def accept(session: AsyncSession, actor: UserActor, token: str) -> tuple[str, str | None]:
    """The organization and the project that were joined; none, where the project was removed meanwhile."""
    organization_id = None
    if is_well_formed(token, INVITATION_PREFIX):
        organization_id = await repository.organization_of(session, sha256(token), actor.user_id)
    if organization_id is None:
        raise _not_for_you()
    # Before the invitation, as docs/locking.md says: whoever is removed holds the organization and withdraws what they sent.
    await hold_organization(session, organization_id)
    row = await repository.lock_for(session, sha256(token), actor.user_id)
    if row is None:
        raise _not_for_you()
    await repository.close(session, row)
    await add_member(session, row.organization_id, actor.user_id, Role(row.role))
    named = [row.project_id] if row.project_id is not None else []
    projects = await find_projects(session, row.organization_id, named)
    for project in projects:
        await join_project(session, project.id, actor.user_id)
    _record(session, actor, row, "invitation.accept")
    return row.organization_id, projects[0].id if projects else None


async def _refuse_known(session: AsyncSession, organization_id: str, address: str) -> None:
    if await is_member(session, organization_id, address):
        raise ConflictError(f"{address} is already a member.", code="already_member")
    if await repository.is_invited_here(session, organization_id, address):
        raise ConflictError(
            f"{address} is already invited. Resend that invitation, or withdraw it first.",
            code="already_invited",
        )


async def _project(session: AsyncSession, organization_id: str, wished: str | None) -> str | None:
    if wished is None:
        oldest = await find_oldest_project(session, organization_id)
        return oldest.id if oldest is not None else None
    found = await find_projects(session, organization_id, [wished])
    if not found:
        fields = (FieldError("project_id", "must be a project of this organization"),)
        raise InvalidInputError("There is no such project in this organization.", fields=fields)
    return found[0].id


async def _open(session: AsyncSession, organization_id: str, invitation_id: str) -> InvitationRow:
    row = await repository.lock_open(session, organization_id, invitation_id)
    if row is None:
        raise NotFoundError("There is no such invitation.")
    return row


async def _mail(
    session: AsyncSession,
    keyring: Keyring,
    settings: Settings,
    actor: UserActor,
    organization: OrganizationRow,
    row: InvitationRow,
    token: str,
) -> None:
    text = (
        f"{actor.email} invites you to the organization {organization.name} on Moorage.\n\n"
        f"{settings.api_base_url}/invitations/{token}\n\n"
        f"Open the link and sign in as {row.email}. It works once, for that address only, for 7 days. If you "
        "did not expect this invitation, ignore this mail.\n"
    )
    subject = f"Invitation to {organization.name} on Moorage"
    await queue_mail(session, keyring, to=row.email, subject=subject, text=text)


def _record(session: AsyncSession, actor: UserActor, row: InvitationRow, action: str) -> None:
    record_audit(
        session,
        row.organization_id,
        actor=actor.id,
        action=action,
        target=row.id,
        email=row.email,
        role=row.role,
        project_id=row.project_id,
    )


def _address(email: str) -> str:
    try:
        return normalized(email)
    except ValueError as exc:
        raise InvalidInputError(
            "The e-mail address is not valid.", fields=(FieldError("email", str(exc)),)
        ) from exc


def _not_for_you() -> NotFoundError:
    return NotFoundError(
        "This link is not for this account. If the invitation was sent to another address of yours, sign "
        "out and open the link again."
    )
