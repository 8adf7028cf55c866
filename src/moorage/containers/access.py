"""A container of the path, if the actor may see it or change it; otherwise there is no such container."""

import math
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from fastapi import Depends
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.containers.admission import is_paid, refuse_spent_allowance
from moorage.containers.models import ContainerRow
from moorage.containers.repository import ages_of_asked_starts_s, failed_starts, find_container
from moorage.containers.start_limit import start_again_at, start_limit, wait_for_pace_s
from moorage.containers.states import ContainerState
from moorage.identity.actor import Actor
from moorage.identity.authentication import TheActor
from moorage.kit.clock import Clock
from moorage.kit.errors import NotFoundError, TooManyRequestsError
from moorage.kit.settings import Settings
from moorage.kit.web import TheClock, TheSession, TheSettings
from moorage.organizations.access import access_project
from moorage.organizations.models import ProjectRow
from moorage.organizations.permissions import Permission

_AT_REST = (ContainerState.STOPPING, ContainerState.STOPPED, ContainerState.FAILED)


@dataclass(frozen=True)
class ContainerAccess:
    container: ContainerRow
    project: ProjectRow
    actor: Actor


async def readable_container(container_id: str, actor: TheActor, session: TheSession) -> ContainerAccess:
    return await _container(session, actor, container_id, Permission.CONTAINER_VIEW)


async def manageable_container(container_id: str, actor: TheActor, session: TheSession) -> ContainerAccess:
    return await _container(session, actor, container_id, Permission.CONTAINER_MANAGE)


async def startable_container(
    access: Annotated[ContainerAccess, Depends(manageable_container)],
    session: TheSession,
    settings: TheSettings,
    clock: TheClock,
) -> ContainerAccess:
    await refuse_start(session, access, settings, clock)
    return access


async def restartable_container(
    access: Annotated[ContainerAccess, Depends(startable_container)],
    session: TheSession,
    settings: TheSettings,
    clock: TheClock,
) -> ContainerAccess:
    await refuse_restart(session, access, settings, clock)
    return access


async def refuse_start(
    session: AsyncSession, access: ContainerAccess, settings: Settings, clock: Clock
) -> None:
    """Where it failed to start so often within the last hour that it has to wait, was started often within the last minute,
    or its organization has used up the day's time for starts that come to nothing."""
    if access.container.state == ContainerState.FAILED:
        slots: dict[int, list[datetime]] = {}
        for slot, at in await failed_starts(session, access.container.id):
            slots.setdefault(slot, []).append(at)
        untils = [start_again_at(times, settings.failed_starts_per_hour) for times in slots.values()]
        until = max((one for one in untils if one is not None), default=None)
        if until is not None and until > clock.now():
            verdict = start_limit(settings.failed_starts_per_hour, until)
            wait_s = math.ceil((until - clock.now()).total_seconds())
            raise TooManyRequestsError(verdict.message, code=verdict.reason, retry_after_s=wait_s)
    await _refuse_beyond_pace(session, access.container, settings)
    if access.container.state in _AT_REST and not await is_paid(session, access.container):
        await refuse_spent_allowance(session, access.project.organization_id, settings, clock.now())


async def _refuse_beyond_pace(session: AsyncSession, container: ContainerRow, settings: Settings) -> None:
    ages_s = await ages_of_asked_starts_s(session, container.id)
    wait_s = wait_for_pace_s(ages_s, settings.starts_per_minute)
    if wait_s is not None:
        message = (
            f"It was started or restarted {settings.starts_per_minute} times within a minute. It may start "
            f"again in {wait_s} s. You can stop it at any time."
        )
        raise TooManyRequestsError(message, code="too_many_starts", retry_after_s=wait_s)


async def refuse_restart(
    session: AsyncSession, access: ContainerAccess, settings: Settings, clock: Clock
) -> None:
    """What serves goes on until its successor does, and has one hour with it: nobody pays for the successor's start."""
    if access.container.state == ContainerState.RUNNING:
        await refuse_spent_allowance(session, access.project.organization_id, settings, clock.now())


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
