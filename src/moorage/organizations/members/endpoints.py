from typing import Annotated

from fastapi import APIRouter, Depends, Query
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.kit.pagination import Page, PageRequest, Position, page_of, page_request
from moorage.kit.web import TheKeyring, TheSession
from moorage.organizations.access import OrganizationAccess, organization_with
from moorage.organizations.members import repository, service
from moorage.organizations.members.schemas import Member, MemberPatch, MemberRemoved
from moorage.organizations.permissions import Permission, Role

router = APIRouter(tags=["members"])


@router.get("/organizations/{organization_id}/members", summary="List members")
async def list_members(
    access: Annotated[OrganizationAccess, Depends(organization_with(Permission.MEMBER_VIEW))],
    session: TheSession,
    paging: Annotated[PageRequest, Depends(page_request)],
) -> Page[Member]:
    """Lists the organization's members with their roles and projects."""
    rows = await repository.list_members(session, access.organization.id, paging)
    shown = await _shown(session, access.organization.id, rows)
    return page_of(shown, paging, lambda item: Position(item.joined_at, item.user_id))


@router.patch("/organizations/{organization_id}/members/{user_id}", summary="Change a member")
async def change_member(
    user_id: str,
    body: MemberPatch,
    access: Annotated[OrganizationAccess, Depends(organization_with(Permission.MEMBER_MANAGE))],
    session: TheSession,
) -> Member:
    """Changes a member's role or projects. The change takes effect with their next request."""
    organization_id = access.organization.id
    changed = await service.change_member(session, access.actor, organization_id, user_id, body)
    return (await _shown(session, organization_id, [changed]))[0]


@router.delete("/organizations/{organization_id}/members/{user_id}", summary="Remove a member")
async def remove_member(
    user_id: str,
    # Anybody may remove themselves, so what is needed beyond being a member is decided by the service.
    access: Annotated[OrganizationAccess, Depends(organization_with(Permission.ORGANIZATION_VIEW))],
    session: TheSession,
    keyring: TheKeyring,
    revoke_keys: Annotated[bool, Query(description="Also revoke the API keys that they made here.")] = True,
) -> MemberRemoved:
    """Ends a member's rights at once and, unless you say otherwise, revokes the keys they made. Admins can remove
    anybody; everybody can remove themselves."""
    revoked = await service.remove_member(
        session, keyring, access.actor, access.organization, user_id, revoke_keys=revoke_keys
    )
    return MemberRemoved(user_id=user_id, revoked_key_ids=revoked)


async def _shown(session: AsyncSession, organization_id: str, rows: list[repository.Member]) -> list[Member]:
    joined = await repository.joined_projects(session, organization_id, [row.user_id for row, _ in rows])
    return [
        Member(
            user_id=row.user_id,
            email=email,
            role=Role(row.role).value,
            project_ids=None if row.role == Role.ADMIN else joined.get(row.user_id, []),
            joined_at=row.joined_at,
        )
        for row, email in rows
    ]
