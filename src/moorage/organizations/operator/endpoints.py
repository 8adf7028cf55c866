"""What the operator sees of organizations and people: who is there, never what is theirs."""

from typing import Annotated

from fastapi import APIRouter, Depends

from moorage.identity.authentication import TheOperator
from moorage.kit.pagination import Page, PageRequest, Position, page_of, page_request
from moorage.kit.web import TheSession
from moorage.organizations.operator import repository
from moorage.organizations.operator.schemas import OrganizationSummary, UserSummary

router = APIRouter(tags=["operator"])
Paging = Annotated[PageRequest, Depends(page_request)]


@router.get("/operator/organizations")
async def list_organizations(
    _: TheOperator, session: TheSession, paging: Paging
) -> Page[OrganizationSummary]:
    shown = [
        OrganizationSummary(
            id=row.id,
            name=row.name,
            created_at=row.created_at,
            suspended_at=row.suspended_at,
            member_count=members,
            project_count=projects,
        )
        for row, members, projects in await repository.list_organizations(session, paging)
    ]
    return page_of(shown, paging, lambda item: Position(item.created_at, item.id))


@router.get("/operator/users")
async def list_users(_: TheOperator, session: TheSession, paging: Paging) -> Page[UserSummary]:
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
