from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Response
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.identity.actor import Actor
from moorage.identity.api_keys import repository
from moorage.identity.api_keys.models import ApiKeyRow
from moorage.identity.api_keys.uses import KeyUse
from moorage.identity.authentication import TheActor
from moorage.kit.errors import NotFoundError
from moorage.kit.pagination import Page, PageRequest, Position, page_of, page_request
from moorage.kit.web import TheClock, TheSession, TheSettings
from moorage.organizations.access import ProjectAccess, access_project, project_with
from moorage.organizations.api_keys import service
from moorage.organizations.api_keys.schemas import (
    ApiKey,
    ApiKeyCreate,
    ApiKeyCreated,
    ApiKeyPatch,
    ApiKeyRotate,
)
from moorage.organizations.models import ProjectRow
from moorage.organizations.permissions import Permission

router = APIRouter(tags=["api-keys"])


@dataclass(frozen=True)
class KeyAccess:
    key: ApiKeyRow
    project: ProjectRow
    actor: Actor


def key_with(permission: Permission) -> Callable[..., Awaitable[KeyAccess]]:
    """A dependency: the key of the path, if the actor may do this to it."""

    async def dependency(key_id: str, actor: TheActor, session: TheSession) -> KeyAccess:
        row = await repository.find_key(session, key_id)
        access = await access_project(session, actor, row.project_id, permission) if row is not None else None
        if row is None or access is None:
            raise NotFoundError("There is no such API key.")
        return KeyAccess(row, access.project, actor)

    return dependency


Manageable = Annotated[KeyAccess, Depends(key_with(Permission.API_KEY_MANAGE))]


@router.get("/projects/{project_id}/api-keys", summary="List API keys")
async def list_api_keys(
    access: Annotated[ProjectAccess, Depends(project_with(Permission.API_KEY_VIEW))],
    session: TheSession,
    clock: TheClock,
    paging: Annotated[PageRequest, Depends(page_request)],
) -> Page[ApiKey]:
    """Lists the project's keys, newest first. No answer contains a whole key."""
    now = clock.now()
    rows = await repository.list_keys(session, access.project.id, paging)
    uses = await repository.uses_of(session, [row.id for row in rows])
    shown = [ApiKey(**_fields(row, now, uses.get(row.id))) for row in rows]
    return page_of(shown, paging, lambda item: Position(item.created_at, item.id))


@router.post("/projects/{project_id}/api-keys", summary="Create an API key", status_code=201)
async def create_api_key(
    body: ApiKeyCreate,
    access: Annotated[ProjectAccess, Depends(project_with(Permission.API_KEY_MANAGE))],
    session: TheSession,
    settings: TheSettings,
    clock: TheClock,
    response: Response,
) -> ApiKeyCreated:
    """Creates a key for requests to containers (`inference`) or for this API (`manage`). The answer shows the
    key once; Moorage keeps only its hash. It works within seconds."""
    now = clock.now()
    row, key = await service.create_api_key(session, settings, access.actor, access.project, body, now)
    response.headers["Location"] = f"/api/v1/api-keys/{row.id}"
    return ApiKeyCreated(**_fields(row, now), key=key)


@router.get("/api-keys/{key_id}", summary="Get an API key")
async def get_api_key(
    access: Annotated[KeyAccess, Depends(key_with(Permission.API_KEY_VIEW))],
    session: TheSession,
    clock: TheClock,
) -> ApiKey:
    """Returns the key's name, scope, limit, end and last use, but never the key itself."""
    return await _shown(session, access.key, clock.now())


@router.patch("/api-keys/{key_id}", summary="Change an API key")
async def change_api_key(
    body: ApiKeyPatch, access: Manageable, session: TheSession, clock: TheClock
) -> ApiKey:
    """Changes a key's name, end or limit, or disables it. Gateways follow within seconds."""
    now = clock.now()
    row = await service.change_api_key(session, access.actor, access.project, access.key.id, body, now)
    return await _shown(session, row, now)


@router.post("/api-keys/{key_id}/rotate", summary="Rotate an API key", status_code=201)
async def rotate_api_key(
    access: Manageable,
    session: TheSession,
    settings: TheSettings,
    clock: TheClock,
    response: Response,
    body: ApiKeyRotate | None = None,
) -> ApiKeyCreated:
    """Creates a new key with the same name, scope, limit and end. The old key keeps working for `overlap_s` seconds,
    so that clients can change over."""
    now, overlap = clock.now(), timedelta(seconds=(body or ApiKeyRotate()).overlap_s)
    row, key = await service.rotate_api_key(
        session, settings, access.actor, access.project, access.key.id, overlap, now
    )
    response.headers["Location"] = f"/api/v1/api-keys/{row.id}"
    return ApiKeyCreated(**_fields(row, now), key=key)


@router.delete("/api-keys/{key_id}", summary="Revoke an API key", status_code=204)
async def revoke_api_key(access: Manageable, session: TheSession) -> None:
    """Revokes the key for good. Gateways refuse it within seconds."""
    await service.revoke_api_key(session, access.actor, access.project, access.key)


async def _shown(session: AsyncSession, row: ApiKeyRow, now: datetime) -> ApiKey:
    uses = await repository.uses_of(session, [row.id])
    return ApiKey(**_fields(row, now, uses.get(row.id)))


def _fields(row: ApiKeyRow, now: datetime, use: KeyUse | None = None) -> dict[str, Any]:
    derived = {
        "status": service.status_of(row, now),
        "message": service.refusal_of(row, now),
        "last_used_at": use.at if use else None,
        "last_used_from": use.client_address if use else None,
    }
    return {name: getattr(row, name) for name in ApiKey.model_fields.keys() - derived.keys()} | derived
