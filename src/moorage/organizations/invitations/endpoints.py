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


@router.get("/organizations/{organization_id}/invitations", summary="List open invitations")
async def list_invitations(
    access: Manager, session: TheSession, paging: Annotated[PageRequest, Depends(page_request)]
) -> Page[Invitation]:
    """Lists open invitations, newest first."""
    rows = await repository.list_open(session, access.organization.id, paging)
    shown = [_invitation(row, live) for row, live in rows]
    return page_of(shown, paging, lambda item: Position(item.created_at, item.id))


@router.post("/organizations/{organization_id}/invitations", summary="Invite somebody", status_code=201)
async def invite(
    body: InvitationCreate, access: Manager, session: TheSession, keyring: TheKeyring, settings: TheSettings
) -> Invitation:
    """Moorage mails a link that works once, for this address only, for seven days."""
    row = await service.invite(session, keyring, settings, access.actor, access.organization, body)
    return _invitation(row, live=True)


@router.post(
    "/organizations/{organization_id}/invitations/{invitation_id}/resend", summary="Resend an invitation"
)
async def resend_invitation(
    invitation_id: str, access: Manager, session: TheSession, keyring: TheKeyring, settings: TheSettings
) -> Invitation:
    """Mails a new link that works for seven more days. The previous link stops working."""
    row = await service.resend(session, keyring, settings, access.actor, access.organization, invitation_id)
    return _invitation(row, live=True)


@router.delete(
    "/organizations/{organization_id}/invitations/{invitation_id}",
    summary="Withdraw an invitation",
    status_code=204,
)
async def withdraw_invitation(invitation_id: str, access: Manager, session: TheSession) -> None:
    """Withdraws the invitation. The mailed link stops working at once."""
    await service.withdraw(session, access.actor, access.organization.id, invitation_id)


@router.get("/invitations/{token}", summary="Show an invitation")
async def show_invitation(token: str, user: TheUser, session: TheSession) -> InvitationForMe:
    """Shows the invited person what they are invited to. Everybody else gets 404."""
    return await service.show(session, user, token)


@router.post("/invitations/{token}/accept", summary="Accept an invitation")
async def accept_invitation(token: str, user: TheUser, session: TheSession) -> InvitationAccepted:
    """Makes you a member with the role and projects of the invitation. Only the invited address can accept it,
    once."""
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
