"""What people do to caches: they look, and delete. The controller does the work."""

from sqlalchemy import func
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.containers.activity import record_action
from moorage.containers.caches import repository
from moorage.containers.caches.repository import ShownCache
from moorage.containers.repository import lock_container, mark_due
from moorage.kit.errors import ConflictError, NotFoundError
from moorage.organizations.access import OrganizationAccess, access_project
from moorage.organizations.permissions import Permission


async def delete_cache(session: AsyncSession, access: OrganizationAccess, cache_id: str) -> ShownCache:
    found = await repository.find_cache(session, access.organization.id, cache_id)
    project = None
    if found is not None:
        project = await access_project(session, access.actor, found.project_id, Permission.CONTAINER_MANAGE)
    if found is None or project is None:
        raise NotFoundError("There is no such cache.")
    # A pass that starts something on it holds the container first, and then the cache: docs/locking.md.
    container = await lock_container(session, found.row.container_id)
    found = await repository.find_cache(session, access.organization.id, cache_id)
    if found is None:
        raise NotFoundError("There is no such cache.")
    if found.in_use:
        raise ConflictError(
            "A replica uses this cache. Stop the container first.",
            code="cache_in_use",
        )
    if found.row.deleting_at is None:
        found.row.deleting_at = func.now()
        deleted = {"node": found.row.node, "size_bytes": found.row.size_bytes}
        record_action(session, container, access.actor.id, "cache.delete", deleted)
        await session.flush()
        await session.refresh(found.row)
        await mark_due(session, [found.row.container_id])
    return found
