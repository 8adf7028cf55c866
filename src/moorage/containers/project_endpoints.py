"""Removing a project. It lies here and not with the projects because its containers go first."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.containers.replica_limits.service import withdraw_requests_of_project
from moorage.containers.repository import list_container_ids
from moorage.containers.service import delete_container
from moorage.identity.actor import Actor
from moorage.kit.errors import FieldError, InvalidInputError, NotFoundError
from moorage.kit.web import TheSession
from moorage.organizations import repository as organizations
from moorage.organizations.access import ProjectAccess, project_with
from moorage.organizations.models import ProjectRow
from moorage.organizations.permissions import Permission
from moorage.organizations.service import remove_project as close_project

router = APIRouter(tags=["organizations"])


@router.delete("/projects/{project_id}", summary="Delete a project", status_code=204)
async def remove_project(
    access: Annotated[ProjectAccess, Depends(project_with(Permission.PROJECT_REMOVE))],
    session: TheSession,
    name: Annotated[str, Query(description="The project's name, typed to confirm.")] = "",
) -> None:
    """Stops and deletes the project's containers and revokes its keys. Send the project's name as `name` to confirm.
    Payments and logs stay on record."""
    if name != access.project.name:
        fields = (FieldError("name", "must be the name of the project"),)
        raise InvalidInputError(
            "Send the project's name to confirm that you delete it with all of its containers.",
            code="name_mismatch",
            fields=fields,
        )
    await _remove(session, access.actor, access.project)


async def _remove(session: AsyncSession, actor: Actor, project: ProjectRow) -> None:
    # The project first: from here on nothing new can be put into it.
    if not await organizations.remove_project(session, project.id):
        raise NotFoundError("There is no such project.")
    container_ids = await list_container_ids(session, project.id)
    for container_id in container_ids:
        await delete_container(session, actor, container_id)
    await withdraw_requests_of_project(session, actor, project.id)
    await close_project(session, actor, project, container_ids)
