"""A container of the path, if the actor may see it or change it; otherwise there is no such container."""

from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.containers.models import ContainerRow
from moorage.containers.repository import find_container
from moorage.identity.actor import Actor
from moorage.identity.authentication import TheActor
from moorage.kit.errors import NotFoundError
from moorage.kit.web import TheSession
from moorage.organizations.access import access_project
from moorage.organizations.models import ProjectRow
from moorage.organizations.permissions import Permission


@dataclass(frozen=True)
class ContainerAccess:
    container: ContainerRow
    project: ProjectRow
    actor: Actor


async def readable_container(container_id: str, actor: TheActor, session: TheSession) -> ContainerAccess:
    return await _container(session, actor, container_id, Permission.CONTAINER_VIEW)


async def manageable_container(container_id: str, actor: TheActor, session: TheSession) -> ContainerAccess:
    return await _container(session, actor, container_id, Permission.CONTAINER_MANAGE)


async def _container(
    session: AsyncSession, actor: Actor, container_id: str, permission: Permission
) -> ContainerAccess:
    container = await find_container(session, container_id)
    access = None
    if container is not None:
        access = await access_project(session, actor, container.project_id, permission)
    if container is None or access is None:
        raise NotFoundError("There is no such container.")
    return ContainerAccess(container, access.project, actor)
