"""A project's API keys. The keys live in `identity`; who may touch them is decided by their project, so here.

A key with scope `manage` is a `user` of its project, but it makes no second one and prolongs none: whoever finds a leaked
key cannot make it outlive its own end.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.identity.actor import Actor, KeyActor
from moorage.identity.api_keys.models import ApiKeyRow
from moorage.identity.api_keys.repository import (
    add_key,
    count_lasting_keys,
    key_changed,
    lock_key,
    lock_keys,
    revoke_key,
)
from moorage.identity.tokens import API_KEY_PREFIX, new_token
from moorage.kit.crypto import sha256
from moorage.kit.errors import (
    ConflictError,
    FieldError,
    ForbiddenError,
    InvalidInputError,
    NotAuthenticatedError,
    NotFoundError,
)
from moorage.kit.ids import new_api_key_id
from moorage.kit.settings import Settings
from moorage.organizations.access import access_project
from moorage.organizations.api_keys.schemas import ApiKeyCreate, ApiKeyPatch, KeyStatus
from moorage.organizations.audit.repository import record_audit
from moorage.organizations.caps import API_KEYS, require_room
from moorage.organizations.models import ProjectRow
from moorage.organizations.names import check_name
from moorage.organizations.permissions import Permission
from moorage.organizations.repository import hold_organization, hold_project


async def create_api_key(
    session: AsyncSession,
    settings: Settings,
    actor: Actor,
    project: ProjectRow,
    wanted: ApiKeyCreate,
    now: datetime,
) -> tuple[ApiKeyRow, str]:
    """The key's row and, this once, the key itself."""
    check_name(wanted.name)
    _check_scope(actor, wanted.scope)
    _check_expiry(wanted.expires_at, now)
    await _enter(session, settings, actor, project, now)
    row, key = await _new_key(
        session,
        actor,
        project,
        name=wanted.name,
        scope=wanted.scope,
        expires_at=await _end_within(session, actor, wanted.expires_at),
        requests_per_minute=wanted.requests_per_minute,
    )
    _record(session, actor, project, row, "api_key.create", scope=row.scope)
    return row, key


async def change_api_key(
    session: AsyncSession, actor: Actor, project: ProjectRow, key_id: str, patch: ApiKeyPatch, now: datetime
) -> ApiKeyRow:
    row = await lock_key(session, key_id)
    _check_scope(actor, row.scope)
    if row.revoked_at is not None:
        raise ConflictError("The key was revoked for good. Create a new one.", code="key_revoked")
    sent, before = patch.model_fields_set, _changeable(row)
    if "name" in sent:
        check_name(patch.name)
        row.name = patch.name
    if "expires_at" in sent:
        _check_expiry(patch.expires_at, now)
        row.expires_at = await _end_within(session, actor, patch.expires_at)
    if "requests_per_minute" in sent:
        row.requests_per_minute = patch.requests_per_minute
    if "disabled" in sent and patch.disabled != (row.disabled_at is not None):
        row.disabled_at = now if patch.disabled else None
    after = _changeable(row)
    changed = {name for name, value in after.items() if value != before[name]}
    if not changed:
        return row
    await key_changed(session)
    details = patch.model_dump(mode="json", include=changed - {"name"})
    if "name" in changed:
        details["name_before"] = before["name"]
    _record(session, actor, project, row, "api_key.change", **details)
    return row


def _changeable(row: ApiKeyRow) -> dict[str, object]:
    return {
        "name": row.name,
        "expires_at": row.expires_at,
        "requests_per_minute": row.requests_per_minute,
        "disabled": row.disabled_at is not None,
    }


async def rotate_api_key(
    session: AsyncSession,
    settings: Settings,
    actor: Actor,
    project: ProjectRow,
    key_id: str,
    overlap: timedelta,
    now: datetime,
) -> tuple[ApiKeyRow, str]:
    """A new key like the old one, which ends with the overlap if it does not end sooner."""
    await _enter(session, settings, actor, project, now, and_lock=key_id)
    old = await lock_key(session, key_id)
    _check_scope(actor, old.scope)
    if status_of(old, now) != "active":
        raise ConflictError(
            f"The key is {status_of(old, now)}. Only a working key can be rotated. Create a new one.",
            code="key_not_active",
        )
    row, key = await _new_key(
        session,
        actor,
        project,
        name=old.name,
        scope=old.scope,
        expires_at=await _end_within(session, actor, old.expires_at),
        requests_per_minute=old.requests_per_minute,
        replaces=old.id,
    )
    end = now + overlap
    old.expires_at = min(old.expires_at, end) if old.expires_at is not None else end
    await key_changed(session)
    _record(session, actor, project, old, "api_key.rotate", new_key_id=row.id, old_ends=end.isoformat())
    return row, key


async def revoke_api_key(session: AsyncSession, actor: Actor, project: ProjectRow, row: ApiKeyRow) -> None:
    revoked = await revoke_key(session, row.id)
    if revoked:
        made_with_it = [one for one in revoked if one != row.id]
        _record(session, actor, project, row, "api_key.revoke", made_with_it=made_with_it)


def status_of(row: ApiKeyRow, now: datetime) -> KeyStatus:
    if row.revoked_at is not None:
        return "revoked"
    if row.expires_at is not None and row.expires_at <= now:
        return "expired"
    return "disabled" if row.disabled_at is not None else "active"


def refusal_of(row: ApiKeyRow, now: datetime) -> str | None:
    """What its owner may know, and a caller with the key is not told: to them every dead key is a wrong one."""
    match status_of(row, now):
        case "revoked":
            return f"Refused: it was revoked for good at {_shown(row.revoked_at)}. Create a new key."
        case "expired":
            return (
                f"Refused: it expired at {_shown(row.expires_at)}. Give it a later end, or create a new key."
            )
        case "disabled":
            return f"Refused: it was disabled at {_shown(row.disabled_at)}. Enable it to use it again."
        case "active":
            return None


async def _enter(
    session: AsyncSession,
    settings: Settings,
    actor: Actor,
    project: ProjectRow,
    now: datetime,
    and_lock: str | None = None,
) -> None:
    """There is room for one more key, and whoever makes it may still do so: until this transaction ends, a removal, or the
    end of the key that they make it with, waits for them and then finds what they made."""
    most = settings.api_keys_per_project
    await require_room(session, API_KEYS, project.id, count_lasting_keys, most)
    # From the top of the order down (docs/locking.md): whoever removes the project holds it, and then revokes its keys.
    if not isinstance(actor, KeyActor):
        await hold_organization(session, project.organization_id)
    if await hold_project(session, project.id) is None:
        raise NotFoundError("There is no such project.")
    if isinstance(actor, KeyActor):
        locked = await lock_keys(session, [actor.key_id, *([and_lock] if and_lock else [])])
        own = locked.get(actor.key_id)  # None: it ended a while ago, and was purged.
        if own is None or status_of(own, now) != "active":
            raise NotAuthenticatedError("The key that you sent no longer works. Send a valid one.")
    # Only now: the first look was before a removal that this may have waited for.
    elif await access_project(session, actor, project.id, Permission.API_KEY_MANAGE) is None:
        raise NotFoundError("There is no such project.")


async def _new_key(
    session: AsyncSession, actor: Actor, project: ProjectRow, **fields: Any
) -> tuple[ApiKeyRow, str]:
    key = new_token(API_KEY_PREFIX)
    row = ApiKeyRow(
        id=new_api_key_id(),
        project_id=project.id,
        key_hash=sha256(key),
        hint=key[-4:],
        created_by=actor.id,
        **fields,
    )
    await add_key(session, row)
    return row, key


async def _end_within(session: AsyncSession, actor: Actor, wanted: datetime | None) -> datetime | None:
    """What is made with a key ends with it at the latest."""
    if not isinstance(actor, KeyActor):
        return wanted
    own_end = (await lock_key(session, actor.key_id)).expires_at
    ends = [end for end in (wanted, own_end) if end is not None]
    return min(ends, default=None)


def _shown(time: datetime | None) -> str:
    return f"{time:%Y-%m-%d %H:%M} UTC" if time is not None else ""


def _check_scope(actor: Actor, scope: str) -> None:
    if isinstance(actor, KeyActor) and scope == "manage":
        raise ForbiddenError("A key cannot create or change a key with scope 'manage'. Sign in as a person.")


def _check_expiry(expires_at: datetime | None, now: datetime) -> None:
    if expires_at is not None and not _is_later(expires_at, now):
        fields = (FieldError("expires_at", "must be a time in the future, with its zone"),)
        raise InvalidInputError("The key would already be expired.", fields=fields)


def _is_later(time: datetime, now: datetime) -> bool:
    try:
        return time.tzinfo is not None and time.astimezone(UTC) > now
    except OverflowError:  # the last day there is, in a far time zone
        return False


def _record(
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
