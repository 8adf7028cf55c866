"""Organizations and their projects. Each change leaves its audit record."""

import re

from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.identity.actor import Actor, UserActor
from moorage.identity.api_keys.repository import revoke_keys_of_project
from moorage.identity.users.models import UserRow
from moorage.kit.errors import ConflictError
from moorage.kit.ids import OrganizationId, UserId
from moorage.kit.settings import Settings
from moorage.ledger.initial_credit_repository import NEEDS_OF_SETTING, offer_initial_credit
from moorage.ledger.repository import require_credit
from moorage.organizations import repository
from moorage.organizations.access import hold_as_member
from moorage.organizations.audit.repository import record_audit
from moorage.organizations.caps import ORGANIZATIONS, PROJECTS, require_room
from moorage.organizations.models import OrganizationRow, ProjectRow
from moorage.organizations.names import check_name


async def create_first_organization(settings: Settings, session: AsyncSession, user: UserRow) -> None:
    """What everybody gets at sign-up. Named after the local part of their address; they may rename it."""
    wished = re.sub(r"[^A-Za-z0-9 ._-]", "-", user.email.partition("@")[0]).lstrip(" ._-")[:63]
    organization = await _create_organization(session, UserId(user.id), wished or "My organization")
    needs = NEEDS_OF_SETTING[settings.initial_credit]
    await offer_initial_credit(session, organization.id, user.id, user.email, needs=needs)


async def create_organization(
    session: AsyncSession, settings: Settings, actor: UserActor, name: str
) -> OrganizationRow:
    check_name(name)
    await require_room(
        session,
        ORGANIZATIONS,
        actor.user_id,
        repository.count_administered,
        settings.organizations_per_person,
    )
    return await _create_organization(session, actor.user_id, name)


async def rename_organization(
    session: AsyncSession, actor: UserActor, organization: OrganizationRow, name: str
) -> None:
    check_name(name)
    before, organization.name = organization.name, name
    if before == name:
        return
    record_audit(
        session,
        organization.id,
        actor=actor.id,
        action="organization.rename",
        target=organization.id,
        name=name,
        name_before=before,
    )


async def create_project(
    session: AsyncSession, settings: Settings, actor: UserActor, organization: OrganizationRow, name: str
) -> ProjectRow:
    check_name(name)
    most = settings.projects_per_organization
    await require_room(session, PROJECTS, organization.id, repository.count_projects, most)
    if await repository.project_name_taken(session, organization.id, name):
        raise _project_name_taken(name)
    await require_credit(session, organization.id)
    await hold_as_member(session, organization.id, actor.user_id)
    try:
        row = await repository.create_project(session, OrganizationId(organization.id), name)
    except IntegrityError as exc:  # somebody else's came in between
        raise _explained(exc, name) from exc
    _record_project(session, actor, row, "project.create", name=name)
    return row


async def rename_project(session: AsyncSession, actor: Actor, project: ProjectRow, name: str) -> None:
    check_name(name)
    before, project.name = project.name, name
    if before == name:
        return
    try:
        await session.flush()
    except IntegrityError as exc:
        raise _explained(exc, name) from exc
    _record_project(session, actor, project, "project.rename", name=name, name_before=before)


async def remove_project(
    session: AsyncSession, actor: Actor, project: ProjectRow, container_ids: list[str]
) -> None:
    """The last step of a removal: what ran in it was told to stop by whoever calls this. Its ledger and its logs
    stay, for as long as they are kept anyway."""
    revoked = await revoke_keys_of_project(session, project.id)
    _record_project(
        session,
        actor,
        project,
        "project.remove",
        name=project.name,
        container_ids=container_ids,
        revoked_key_ids=revoked,
    )


async def _create_organization(session: AsyncSession, admin: UserId, name: str) -> OrganizationRow:
    row = await repository.create_organization(session, name, admin)
    record_audit(session, row.id, actor=admin, action="organization.create", target=row.id, name=name)
    return row


def _record_project(
    session: AsyncSession, actor: Actor, row: ProjectRow, action: str, **details: object
) -> None:
    record_audit(session, row.organization_id, actor=actor.id, action=action, target=row.id, **details)


def _explained(error: IntegrityError, name: str) -> Exception:
    return _project_name_taken(name) if "uq_projects_organization_id_name" in str(error.orig) else error


def _project_name_taken(name: str) -> ConflictError:
    return ConflictError(f"A project named {name} already exists.", code="name_taken")
