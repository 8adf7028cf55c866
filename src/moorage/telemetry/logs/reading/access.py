"""Whose lines may be read, and whether they still may be.

A container's own routes end with it; the project's show what a deleted one printed for as long as it is kept.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import Query, Request

from moorage.containers.access import readable_container
from moorage.identity.authentication import current_actor
from moorage.kit.clock import Clock
from moorage.kit.errors import ForbiddenError, NotAuthenticatedError, NotFoundError
from moorage.kit.web import TheDatabase, TheSettings
from moorage.organizations.access import project_with
from moorage.organizations.permissions import Permission
from moorage.telemetry.logs.reading.repository import LogScope

ASK_AGAIN_EVERY_S = 3.0
"""How long somebody who was removed, or whose key was revoked, still gets lines."""


@dataclass(frozen=True)
class LogAccess:
    scope: LogScope
    still_holds: Callable[[], Awaitable[bool]]
    """Asks everything again: the session or key, the membership, the container. For answers that take long."""


class AskedAgain:
    """Whether the access holds, as of a moment ago."""

    def __init__(self, access: LogAccess, clock: Clock) -> None:
        self._access = access
        self._clock = clock
        self._asked_at_s = clock.monotonic()

    async def __call__(self) -> bool:
        if self._clock.monotonic() - self._asked_at_s < ASK_AGAIN_EVERY_S:
            return True
        self._asked_at_s = self._clock.monotonic()
        return await self._access.still_holds()


Find = Callable[[], Awaitable[LogScope]]


async def container_logs(
    container_id: str, request: Request, database: TheDatabase, settings: TheSettings
) -> LogAccess:
    async def find() -> LogScope:
        async with database.reading() as session:
            actor = await current_actor(request, session, settings)
            access = await readable_container(container_id, actor, session)
        return LogScope(access.project.id, access.container.id)

    return await _access(find)


async def project_logs(
    project_id: str,
    request: Request,
    database: TheDatabase,
    settings: TheSettings,
    container: Annotated[str | None, Query(pattern="^ctr_[a-z2-7]{20}$")] = None,
) -> LogAccess:
    readable_project = project_with(Permission.CONTAINER_VIEW)

    async def find() -> LogScope:
        async with database.reading() as session:
            actor = await current_actor(request, session, settings)
            access = await readable_project(project_id, actor, session)
        return LogScope(access.project.id, container)

    return await _access(find)


async def _access(find: Find) -> LogAccess:
    scope = await find()

    async def still_holds() -> bool:
        try:
            return await find() == scope
        except (NotAuthenticatedError, NotFoundError, ForbiddenError):
            return False

    return LogAccess(scope, still_holds)
