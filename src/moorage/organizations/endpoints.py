from typing import Annotated

from fastapi import APIRouter, Depends, Response

from moorage.identity.authentication import TheUser
from moorage.kit.pagination import Page, PageRequest, Position, page_of, page_request
from moorage.kit.web import TheSession
from moorage.organizations import repository, service
from moorage.organizations.access import OrganizationAccess, ProjectAccess, organization_with, project_with
from moorage.organizations.models import ProjectRow
from moorage.organizations.permissions import Permission
from moorage.organizations.schemas import Organization, Project, ProjectCreate

router = APIRouter(tags=["organizations"])
Paging = Annotated[PageRequest, Depends(page_request)]


@router.get("/organizations")
async def list_organizations(user: TheUser, session: TheSession, paging: Paging) -> Page[Organization]:
    rows = await repository.list_organizations(session, user.user_id, paging)
    found = [
        Organization(id=row.id, name=row.name, role=role, created_at=row.created_at) for row, role in rows
    ]
    return page_of(found, paging, lambda item: Position(item.created_at, item.id))


@router.get("/organizations/{organization_id}")
async def get_organization(
    access: Annotated[OrganizationAccess, Depends(organization_with(Permission.ORGANIZATION_VIEW))],
) -> Organization:
    row = access.organization
    return Organization(id=row.id, name=row.name, role=access.role.value, created_at=row.created_at)


@router.get("/organizations/{organization_id}/projects")
async def list_projects(
    access: Annotated[OrganizationAccess, Depends(organization_with(Permission.ORGANIZATION_VIEW))],
    session: TheSession,
    paging: Paging,
) -> Page[Project]:
    rows = await repository.list_joined_projects(
        session, access.organization.id, access.actor.user_id, access.role, paging
    )
    return page_of([_project(row) for row in rows], paging, lambda item: Position(item.created_at, item.id))


@router.post("/organizations/{organization_id}/projects", status_code=201)
async def create_project(
    body: ProjectCreate,
    access: Annotated[OrganizationAccess, Depends(organization_with(Permission.PROJECT_CREATE))],
    session: TheSession,
    response: Response,
) -> Project:
    row = await service.create_project(session, access.organization, body.name)
    response.headers["Location"] = f"/api/v1/projects/{row.id}"
    return _project(row)


@router.get("/projects/{project_id}")
async def get_project(
    access: Annotated[ProjectAccess, Depends(project_with(Permission.PROJECT_VIEW))],
) -> Project:
    return _project(access.project)


def _project(row: ProjectRow) -> Project:
    return Project(id=row.id, organization_id=row.organization_id, name=row.name, created_at=row.created_at)
