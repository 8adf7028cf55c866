"""Who may do what to which organization and project: the one door that every route goes through.

What an actor cannot see answers exactly as what is not there (404); what it can see but may not change, 403.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.identity.actor import Actor, KeyActor, UserActor
from moorage.identity.authentication import TheActor, TheUser
from moorage.kit.errors import ForbiddenError, NotFoundError
from moorage.kit.ids import UserId
from moorage.kit.web import TheSession
from moorage.organizations.models import OrganizationRow, ProjectRow
from moorage.organizations.permissions import Permission, Role, allows
from moorage.organizations.repository import (
    find_joined_project,
    find_membership,
    find_project,
    hold_organization,
)


@dataclass(frozen=True)
class OrganizationAccess:
    organization: OrganizationRow
    actor: UserActor
    role: Role


@dataclass(frozen=True)
class ProjectAccess:
    project: ProjectRow
    actor: Actor
    role: Role


def organization_with(permission: Permission) -> Callable[..., Awaitable[OrganizationAccess]]:
    """A dependency: the organization of the path, if the actor may do this in it."""

    async def dependency(organization_id: str, actor: TheUser, session: TheSession) -> OrganizationAccess:
        found = await find_membership(session, organization_id, actor.user_id)
        if found is None:
            raise NotFoundError("There is no such organization.")
        organization, role = found
        _require(role, permission)
        return OrganizationAccess(organization, actor, role)

    return dependency


async def hold_as_member(session: AsyncSession, organization_id: str, user_id: UserId) -> None:
    """What is made for it from here on is found by whoever deletes it, who waits; or they were first, and there is nothing to make it
    for. After a turn, as docs/locking.md says."""
    await hold_organization(session, organization_id)
    if await find_membership(session, organization_id, user_id) is None:
        raise NotFoundError("There is no such organization.")


def project_with(permission: Permission) -> Callable[..., Awaitable[ProjectAccess]]:
    """A dependency: the project of the path, if the actor may do this in it."""

    async def dependency(project_id: str, actor: TheActor, session: TheSession) -> ProjectAccess:
        access = await access_project(session, actor, project_id, permission)
        if access is None:
            raise NotFoundError("There is no such project.")
        return access

    return dependency


async def access_project(
    session: AsyncSession, actor: Actor, project_id: str, permission: Permission
) -> ProjectAccess | None:
    """None where the actor cannot see the project; the caller says what was not found."""
    if isinstance(actor, KeyActor):
        project = await find_project(session, project_id) if actor.project_id == project_id else None
        found = (project, Role.USER) if project is not None else None
    else:
        found = await find_joined_project(session, project_id, actor.user_id)
    if found is None:
        return None
    _require(found[1], permission)
    return ProjectAccess(found[0], actor, found[1])


def _require(role: Role, permission: Permission) -> None:
    if not allows(role, permission):
        raise ForbiddenError(
            f"Your role here is '{role}', which does not include {permission}. Ask an admin."
        )
