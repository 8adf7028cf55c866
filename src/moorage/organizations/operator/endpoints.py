"""What the operator sees of organizations and people: who is there, never what is theirs."""

from typing import Annotated

from fastapi import APIRouter, Depends

from moorage.identity.authentication import TheOperator
from moorage.identity.sessions.repository import end_sessions
from moorage.identity.users.repository import find_user
from moorage.kit.errors import NotFoundError
from moorage.kit.ids import UserId
from moorage.kit.pagination import Page, PageRequest, Position, page_of, page_request
from moorage.kit.web import TheSession
from moorage.organizations.audit.repository import record_audit
from moorage.organizations.members.repository import list_members
from moorage.organizations.operator import repository
from moorage.organizations.operator.access import OrganizationOfAnybody
from moorage.organizations.operator.schemas import OrganizationMember, OrganizationSummary, UserSummary
from moorage.organizations.permissions import Role

router = APIRouter(tags=["operator"])
Paging = Annotated[PageRequest, Depends(page_request)]


@router.get("/operator/organizations", summary="List all organizations")
async def list_all_organizations(
    _: TheOperator, session: TheSession, paging: Paging
) -> Page[OrganizationSummary]:
    """Lists every organization of the installation with its balance and its size."""
    shown = [
        OrganizationSummary(
            id=row.id,
            name=row.name,
            created_at=row.created_at,
            suspended_at=row.suspended_at,
            deleted_at=row.deleted_at,
            member_count=members,
            project_count=projects,
        )
        for row, members, projects in await repository.list_organizations(session, paging)
    ]
    return page_of(shown, paging, lambda item: Position(item.created_at, item.id))


@router.get("/operator/organizations/{organization_id}/members", summary="List an organization's people")
async def list_people(
    organization: OrganizationOfAnybody, session: TheSession, paging: Paging
) -> Page[OrganizationMember]:
    """Lists an organization's members, and since when they belong to it."""
    shown = [
        OrganizationMember(
            user_id=row.user_id, email=email, role=Role(row.role).value, joined_at=row.joined_at
        )
        for row, email in await list_members(session, organization.id, paging)
    ]
    return page_of(shown, paging, lambda item: Position(item.joined_at, item.user_id))


@router.post("/operator/users/{user_id}/sign-out", summary="Sign a person out everywhere", status_code=204)
async def sign_out_everywhere(user_id: str, operator: TheOperator, session: TheSession) -> None:
    """Ends all sessions of a person, in browsers and on command lines, for example after somebody else got into the
    account. API keys stay; admins of the person's organizations can revoke them."""
    if await find_user(session, user_id) is None:
        raise NotFoundError("There is no such person.")
    await end_sessions(session, UserId(user_id))
    record_audit(session, None, actor=operator.id, action="user.sign_out", target=user_id)


@router.get("/operator/users", summary="List all users")
async def list_all_users(_: TheOperator, session: TheSession, paging: Paging) -> Page[UserSummary]:
    """Lists every account of the installation with its organizations."""
    shown = [
        UserSummary(
            id=row.id,
            email=row.email,
            is_operator=row.is_operator,
            created_at=row.created_at,
            organization_ids=sorted(ids),
        )
        for row, ids in await repository.list_users(session, paging)
    ]
    return page_of(shown, paging, lambda item: Position(item.created_at, item.id))
