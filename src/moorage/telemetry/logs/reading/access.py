"""Whose lines may be read, and whether they still may be.

A container's own routes end with it; the project's show what a deleted one printed for as long as it is kept.
"""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Query, Request

from moorage.containers.access import readable_container
from moorage.identity.authentication import current_actor
from moorage.kit.web import TheDatabase, TheSettings
from moorage.organizations.access import project_with
from moorage.organizations.lasting_access import LastingAccess, lasting
from moorage.organizations.permissions import Permission
from moorage.telemetry.logs.reading.repository import LogScope


@dataclass(frozen=True)
class ReadScope(LogScope):
    reader_id: str
    """Whose streams these are: of a person and their keys together."""


LogAccess = LastingAccess[ReadScope]


async def container_logs(
    container_id: str, request: Request, database: TheDatabase, settings: TheSettings
) -> LogAccess:
    async def find() -> ReadScope:
        async with database.reading() as session:
            actor = await current_actor(request, session, settings)
            access = await readable_container(container_id, actor, session)
        return ReadScope(access.project.id, access.container.id, actor.shares_as)

    return await lasting(find)


async def project_logs(
    project_id: str,
    request: Request,
    database: TheDatabase,
    settings: TheSettings,
    container: Annotated[str | None, Query(pattern="^ctr_[a-z2-7]{20}$")] = None,
) -> LogAccess:
    readable_project = project_with(Permission.CONTAINER_VIEW)

    async def find() -> ReadScope:
        async with database.reading() as session:
            actor = await current_actor(request, session, settings)
            access = await readable_project(project_id, actor, session)
        return ReadScope(access.project.id, container, actor.shares_as)

    return await lasting(find)
