from typing import Annotated

from fastapi import APIRouter, Depends, Response

from moorage.identity.authentication import TheUser
from moorage.kit.pagination import Page, PageRequest, Position, page_of, page_request
from moorage.kit.web import TheSession, TheSettings
from moorage.organizations import repository, service
from moorage.organizations.access import OrganizationAccess, ProjectAccess, organization_with, project_with
from moorage.organizations.models import OrganizationRow, ProjectRow
from moorage.organizations.permissions import Permission, Role
from moorage.organizations.schemas import Organization, OrganizationName, Project, ProjectName

router = APIRouter(tags=["organizations"])
Paging = Annotated[PageRequest, Depends(page_request)]


@router.get("/organizations", summary="List your organizations")
async def list_organizations(user: TheUser, session: TheSession, paging: Paging) -> Page[Organization]:
    """Lists the organizations that you are a member of, oldest first."""
    rows = await repository.list_organizations(session, user.user_id, paging)
    found = [_organization(row, Role(role)) for row, role in rows]
    return page_of(found, paging, lambda item: Position(item.created_at, item.id))


@router.post("/organizations", summary="Create an organization", status_code=201)
async def create_organization(
    body: OrganizationName, user: TheUser, session: TheSession, settings: TheSettings, response: Response
) -> Organization:
    """Creates an organization with you as its first admin. Create a project in it next."""
    row = await service.create_organization(session, settings, user, body.name)
    response.headers["Location"] = f"/api/v1/organizations/{row.id}"
    return _organization(row, Role.ADMIN)


@router.get("/organizations/{organization_id}", summary="Get an organization")
async def get_organization(
    access: Annotated[OrganizationAccess, Depends(organization_with(Permission.ORGANIZATION_VIEW))],
) -> Organization:
    """Returns its name, your role in it and whether the operator has suspended it."""
    return _organization(access.organization, access.role)


@router.patch("/organizations/{organization_id}", summary="Rename an organization")
async def rename_organization(
    body: OrganizationName,
    access: Annotated[OrganizationAccess, Depends(organization_with(Permission.ORGANIZATION_EDIT))],
    session: TheSession,
) -> Organization:
    """Changes the name everywhere. The id and everything that refers to it stay."""
    await service.rename_organization(session, access.actor, access.organization, body.name)
    return _organization(access.organization, access.role)


@router.get("/organizations/{organization_id}/projects", summary="List projects")
async def list_projects(
    access: Annotated[OrganizationAccess, Depends(organization_with(Permission.ORGANIZATION_VIEW))],
    session: TheSession,
    paging: Paging,
) -> Page[Project]:
    """Lists the projects that you are in, oldest first; admins see all of them."""
    rows = await repository.list_joined_projects(
        session, access.organization.id, access.actor.user_id, access.role, paging
    )
    return page_of([_project(row) for row in rows], paging, lambda item: Position(item.created_at, item.id))


@router.post("/organizations/{organization_id}/projects", summary="Create a project", status_code=201)
async def create_project(
    body: ProjectName,
    access: Annotated[OrganizationAccess, Depends(organization_with(Permission.PROJECT_CREATE))],
    session: TheSession,
    settings: TheSettings,
    response: Response,
) -> Project:
    """Creates an empty project. Containers and API keys live in projects."""
    row = await service.create_project(session, settings, access.actor, access.organization, body.name)
    response.headers["Location"] = f"/api/v1/projects/{row.id}"
    return _project(row)


@router.get("/projects/{project_id}", summary="Get a project")
async def get_project(
    access: Annotated[ProjectAccess, Depends(project_with(Permission.PROJECT_VIEW))],
) -> Project:
    """Returns its name and the organization that it belongs to."""
    return _project(access.project)


@router.patch("/projects/{project_id}", summary="Rename a project")
async def rename_project(
    body: ProjectName,
    access: Annotated[ProjectAccess, Depends(project_with(Permission.PROJECT_EDIT))],
    session: TheSession,
) -> Project:
    """Changes the name everywhere. Endpoint URLs and keys stay as they are."""
    await service.rename_project(session, access.actor, access.project, body.name)
    return _project(access.project)


def _organization(row: OrganizationRow, role: Role) -> Organization:
    return Organization(
        id=row.id, name=row.name, role=role.value, created_at=row.created_at, suspended_at=row.suspended_at
    )


def _project(row: ProjectRow) -> Project:
    return Project(id=row.id, organization_id=row.organization_id, name=row.name, created_at=row.created_at)
