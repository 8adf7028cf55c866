"""API keys over HTTP. The keys live in `identity`; who may touch them is decided by their project, so here."""

from typing import Annotated

from fastapi import APIRouter, Depends, Response

from moorage.identity.api_keys import repository
from moorage.identity.api_keys.models import ApiKeyRow
from moorage.identity.authentication import TheActor
from moorage.kit.errors import NotFoundError
from moorage.kit.pagination import Page, PageRequest, Position, page_of, page_request
from moorage.kit.web import TheClock, TheSession
from moorage.organizations import service
from moorage.organizations.access import ProjectAccess, access_project, project_with
from moorage.organizations.permissions import Permission
from moorage.organizations.schemas import ApiKey, ApiKeyCreate, ApiKeyCreated

router = APIRouter(tags=["api-keys"])


@router.get("/projects/{project_id}/api-keys")
async def list_api_keys(
    access: Annotated[ProjectAccess, Depends(project_with(Permission.API_KEY_VIEW))],
    session: TheSession,
    paging: Annotated[PageRequest, Depends(page_request)],
) -> Page[ApiKey]:
    rows = await repository.list_keys(session, access.project.id, paging)
    return page_of(
        [ApiKey(**_fields(row)) for row in rows], paging, lambda item: Position(item.created_at, item.id)
    )


@router.post("/projects/{project_id}/api-keys", status_code=201)
async def create_api_key(
    body: ApiKeyCreate,
    access: Annotated[ProjectAccess, Depends(project_with(Permission.API_KEY_MANAGE))],
    session: TheSession,
    clock: TheClock,
    response: Response,
) -> ApiKeyCreated:
    row, key = await service.create_api_key(session, access.actor, access.project, body, clock.now())
    response.headers["Location"] = f"/api/v1/api-keys/{row.id}"
    return ApiKeyCreated(**_fields(row), key=key)


@router.delete("/api-keys/{key_id}", status_code=204)
async def revoke_api_key(key_id: str, actor: TheActor, session: TheSession) -> None:
    """Refused everywhere within seconds, and for good."""
    row = await repository.find_key(session, key_id)
    access = None
    if row is not None:
        access = await access_project(session, actor, row.project_id, Permission.API_KEY_MANAGE)
    if row is None or access is None:
        raise NotFoundError("There is no such API key.")
    if await repository.revoke_key(session, key_id):
        service.record_api_key(session, actor, access.project, row, "api_key.revoke")


def _fields(row: ApiKeyRow) -> dict[str, object]:
    names = ("id", "project_id", "name", "scope", "hint", "created_at", "expires_at", "revoked_at")
    return {name: getattr(row, name) for name in names}
