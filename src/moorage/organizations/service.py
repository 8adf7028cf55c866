"""Organizations, their projects, and the keys of those. Each change leaves its audit record."""

import re
from datetime import UTC, datetime

from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.identity.actor import Actor, KeyActor, UserActor
from moorage.identity.api_keys.models import ApiKeyRow
from moorage.identity.api_keys.repository import add_key, revoke_keys_of_project
from moorage.identity.tokens import API_KEY_PREFIX, new_token
from moorage.identity.users.models import UserRow
from moorage.kit.crypto import sha256
from moorage.kit.errors import ConflictError, FieldError, ForbiddenError, InvalidInputError, NotFoundError
from moorage.kit.ids import OrganizationId, UserId, new_api_key_id
from moorage.kit.names import checked_name
from moorage.organizations import repository
from moorage.organizations.audit.repository import record_audit
from moorage.organizations.models import OrganizationRow, ProjectRow
from moorage.organizations.schemas import ApiKeyCreate


async def create_first_organization(session: AsyncSession, user: UserRow) -> None:
    """What everybody gets at sign-up. Named after the local part of their address; they may rename it."""
    wished = re.sub(r"[^A-Za-z0-9 ._-]", "-", user.email.partition("@")[0]).lstrip(" ._-")[:63]
    await _create_organization(session, UserId(user.id), wished or "My organization")


async def create_organization(session: AsyncSession, actor: UserActor, name: str) -> OrganizationRow:
    _check_name(name)
    return await _create_organization(session, actor.user_id, name)


async def rename_organization(
    session: AsyncSession, actor: UserActor, organization: OrganizationRow, name: str
) -> None:
    _check_name(name)
    before, organization.name = organization.name, name
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
    session: AsyncSession, actor: UserActor, organization: OrganizationRow, name: str
) -> ProjectRow:
    _check_name(name)
    if await repository.project_name_taken(session, organization.id, name):
        raise _project_name_taken(name)
    try:
        row = await repository.create_project(session, OrganizationId(organization.id), name)
    except IntegrityError as exc:  # somebody else's came in between
        raise _explained(exc, name) from exc
    _record_project(session, actor, row, "project.create", name=name)
    return row


async def rename_project(session: AsyncSession, actor: Actor, project: ProjectRow, name: str) -> None:
    _check_name(name)
    before, project.name = project.name, name
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


async def create_api_key(
    session: AsyncSession, actor: Actor, project: ProjectRow, wanted: ApiKeyCreate, now: datetime
) -> tuple[ApiKeyRow, str]:
    """The key's row and, this once, the key itself."""
    _check_name(wanted.name)
    if isinstance(actor, KeyActor) and wanted.scope == "manage":
        raise ForbiddenError("A key cannot make another key with scope 'manage'; sign in as a person.")
    if wanted.expires_at is not None and not _is_later(wanted.expires_at, now):
        fields = (FieldError("expires_at", "must be a time in the future, with its zone"),)
        raise InvalidInputError("The key would be expired from the start.", fields=fields)
    if not await repository.hold_project(session, project.id):
        raise NotFoundError("There is no such project.")
    key = new_token(API_KEY_PREFIX)
    row = ApiKeyRow(
        id=new_api_key_id(),
        project_id=project.id,
        name=wanted.name,
        scope=wanted.scope,
        key_hash=sha256(key),
        hint=key[-4:],
        created_by=actor.id,
        expires_at=wanted.expires_at,
    )
    await add_key(session, row)
    record_api_key(session, actor, project, row, "api_key.create", scope=row.scope)
    return row, key


def record_api_key(
    session: AsyncSession, actor: Actor, project: ProjectRow, row: ApiKeyRow, action: str, **details: object
) -> None:
    record_audit(
        session,
        project.organization_id,
        actor=actor.id,
        action=action,
        target=row.id,
        name=row.name,
        project_id=project.id,
        **details,
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


def _is_later(time: datetime, now: datetime) -> bool:
    try:
        return time.tzinfo is not None and time.astimezone(UTC) > now
    except OverflowError:  # the last day there is, in a far time zone
        return False


def _project_name_taken(name: str) -> ConflictError:
    return ConflictError(f"There is a project named {name} already.", code="name_taken")


def _check_name(name: str) -> None:
    try:
        checked_name(name)
    except ValueError as exc:
        raise InvalidInputError(f"The name {exc}.", fields=(FieldError("name", str(exc)),)) from exc
