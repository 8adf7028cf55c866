from typing import Annotated

from fastapi import APIRouter, Depends

from moorage.containers.caches import repository, service
from moorage.containers.caches.repository import ShownCache
from moorage.containers.caches.schemas import Cache
from moorage.kit.pagination import Page, PageRequest, Position, page_of, page_request
from moorage.kit.web import TheSession
from moorage.organizations.access import OrganizationAccess, organization_with
from moorage.organizations.permissions import Permission, Role
from moorage.organizations.repository import joined_project_ids

router = APIRouter(tags=["caches"])


@router.get("/organizations/{organization_id}/caches", summary="List caches")
async def list_caches(
    access: Annotated[OrganizationAccess, Depends(organization_with(Permission.CONTAINER_VIEW))],
    session: TheSession,
    paging: Annotated[PageRequest, Depends(page_request)],
) -> Page[Cache]:
    """Lists what your projects' containers keep on their machines between starts."""
    organization_id = access.organization.id
    joined = None
    if access.role is not Role.ADMIN:
        joined = await joined_project_ids(session, organization_id, access.actor.user_id)
    found = await repository.list_caches(session, organization_id, joined, paging)
    items = [_json(one) for one in found]
    return page_of(items, paging, lambda item: Position(item.created_at, item.id))


@router.delete(
    "/organizations/{organization_id}/caches/{cache_id}", summary="Delete a cache", status_code=202
)
async def delete_cache(
    cache_id: str,
    access: Annotated[OrganizationAccess, Depends(organization_with(Permission.CONTAINER_MANAGE))],
    session: TheSession,
) -> Cache:
    """Removes the cache from its machine. The next start there downloads and compiles again. A cache that a replica
    uses cannot be deleted."""
    return _json(await service.delete_cache(session, access, cache_id))


def _json(found: ShownCache) -> Cache:
    row = found.row
    return Cache(
        id=row.id,
        project_id=found.project_id,
        container_id=row.container_id,
        container_name=found.container_name,
        node=row.node,
        size_bytes=row.size_bytes,
        compiled_bytes=row.compiled_bytes,
        limit_bytes=found.limit_gib * 2**30 if found.limit_gib is not None else None,
        in_use=found.in_use,
        created_at=row.created_at,
        used_at=row.used_at,
        measured_at=row.measured_at,
        deleting=row.deleting_at is not None,
    )
