"""Organizations, their projects, and the keys of those."""

import re
from datetime import UTC, datetime

from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.identity.actor import Actor, KeyActor
from moorage.identity.api_keys.models import ApiKeyRow
from moorage.identity.api_keys.repository import add_key
from moorage.identity.tokens import API_KEY_PREFIX, new_token
from moorage.identity.users.models import UserRow
from moorage.kit.crypto import sha256
from moorage.kit.errors import ConflictError, FieldError, ForbiddenError, InvalidInputError
from moorage.kit.ids import OrganizationId, UserId, new_api_key_id
from moorage.kit.names import checked_name
from moorage.organizations import repository
from moorage.organizations.models import OrganizationRow, ProjectRow
from moorage.organizations.schemas import ApiKeyCreate


async def create_first_organization(session: AsyncSession, user: UserRow) -> None:
    """What everybody gets at sign-up. Named after the local part of their address; they may rename it."""
    wished = re.sub(r"[^A-Za-z0-9 ._-]", "-", user.email.partition("@")[0]).lstrip(" ._-")[:63]
    await repository.create_organization(session, wished or "My organization", UserId(user.id))


async def create_project(session: AsyncSession, organization: OrganizationRow, name: str) -> ProjectRow:
    _check_name(name)
    if await repository.project_name_taken(session, organization.id, name):
        raise _project_name_taken(name)
    try:
        return await repository.create_project(session, OrganizationId(organization.id), name)
    except IntegrityError as exc:  # somebody else's came in between
        if "uq_projects_organization_id_name" in str(exc.orig):
            raise _project_name_taken(name) from exc
        raise


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
    return row, key


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
