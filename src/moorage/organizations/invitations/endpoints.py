from typing import Annotated

from fastapi import APIRouter, Depends

from moorage.identity.authentication import TheUser
from moorage.kit.pagination import Page, PageRequest, Position, page_of, page_request
from moorage.kit.web import TheKeyring, TheSession, TheSettings
from moorage.organizations.access import OrganizationAccess, organization_with
from moorage.organizations.invitations import repository, service
from moorage.organizations.invitations.models import InvitationRow
from moorage.organizations.invitations.schemas import (
    Invitation,
    InvitationAccepted,
    InvitationCreate,
    InvitationForMe,
)
from moorage.organizations.permissions import Permission, Role

router = APIRouter(tags=["invitations"])
Manager = Annotated[OrganizationAccess, Depends(organization_with(Permission.MEMBER_MANAGE))]


@router.get("/organizations/{organization_id}/invitations")
async def list_invitations(
    access: Manager, session: TheSession, paging: Annotated[PageRequest, Depends(page_request)]
) -> Page[Invitation]:
    """Those that were neither accepted nor withdrawn, newest first."""
    rows = await repository.list_open(session, access.organization.id, paging)
    shown = [_invitation(row, live) for row, live in rows]
    return page_of(shown, paging, lambda item: Position(item.created_at, item.id))


@router.post("/organizations/{organization_id}/invitations", status_code=201)
async def invite(
    body: InvitationCreate, access: Manager, session: TheSession, keyring: TheKeyring, settings: TheSettings
) -> Invitation:
    """Mails a link that works for exactly this address, once, for seven days."""
    row = await service.invite(session, keyring, settings, access.actor, access.organization, body)
    return _invitation(row, live=True)


@router.post("/organizations/{organization_id}/invitations/{invitation_id}/resend")
async def resend_invitation(
    invitation_id: str, access: Manager, session: TheSession, keyring: TheKeyring, settings: TheSettings
) -> Invitation:
    """A new link, for seven more days; the one before stops working."""
    row = await service.resend(session, keyring, settings, access.actor, access.organization, invitation_id)
    return _invitation(row, live=True)


@router.delete("/organizations/{organization_id}/invitations/{invitation_id}", status_code=204)
async def withdraw_invitation(invitation_id: str, access: Manager, session: TheSession) -> None:
    await service.withdraw(session, access.actor, access.organization.id, invitation_id)


@router.get("/invitations/{token}")
async def show_invitation(token: str, user: TheUser, session: TheSession) -> InvitationForMe:
    """What it is about, for the address that it was sent to; everybody else finds nothing here."""
    return await service.show(session, user, token)


@router.post("/invitations/{token}/accept")
async def accept_invitation(token: str, user: TheUser, session: TheSession) -> InvitationAccepted:
    organization_id, project_id = await service.accept(session, user, token)
    return InvitationAccepted(organization_id=organization_id, project_id=project_id)


def _invitation(row: InvitationRow, live: bool) -> Invitation:
    return Invitation(
        id=row.id,
        email=row.email,
        role=Role(row.role).value,
        project_id=row.project_id,
        invited_by=row.invited_by,
        state="pending" if live else "expired",
        created_at=row.created_at,
        expires_at=row.expires_at,
    )
