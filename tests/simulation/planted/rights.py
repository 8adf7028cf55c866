"""Mistakes about rights that end: members, invitations, keys."""

from typing import Any

from sqlalchemy import select

from moorage.gateway import repository as gateway_repository
from moorage.identity import authentication
from moorage.identity.api_keys import repository as keys_repository
from moorage.identity.api_keys.models import ApiKeyRow
from moorage.organizations import endings
from moorage.organizations.api_keys import service as keys_service
from moorage.organizations.invitations import repository as invitations_repository
from moorage.organizations.invitations import service as invitations_service
from moorage.organizations.members import repository as members_repository
from moorage.organizations.members import service as members_service
from moorage.organizations.models import OrganizationRow
from tests.simulation.planted.bug import Bug, Patch, nothing


async def _none(*_: Any, **__: Any) -> list[str]:
    return []


def _keys_stay(patch: Patch) -> None:
    patch(endings, "revoke_keys_made_by", _none)


def _let_in_is_let_in(patch: Patch) -> None:
    """Whoever makes a key was allowed to when they asked; nobody looks again."""

    async def enter(session: Any, settings: Any, actor: Any, project: Any, now: Any, **_: Any) -> None:
        return None

    patch(keys_service, "_enter", enter)


def _children_stay(patch: Patch) -> None:
    patch(keys_repository, "_and_made_with_them", lambda first: first)


def _every_key_opens_the_api(patch: Patch) -> None:
    async def find(session: Any, key_hash: bytes) -> tuple[ApiKeyRow, bool] | None:
        query = select(ApiKeyRow).where(ApiKeyRow.key_hash == key_hash)
        row = (await session.execute(query)).scalar_one_or_none()
        return None if row is None else (row, False)

    patch(authentication, "find_live_key", find)


def _the_gateway_keeps_keys(patch: Patch) -> None:
    read = gateway_repository._keys

    async def keep(session: Any, before: Any) -> Any:
        return {**before, **await read(session, before)}

    patch(gateway_repository, "_keys", keep)


def _the_gateway_learns_no_keys(patch: Patch) -> None:
    async def keep(session: Any, before: Any) -> Any:
        return dict(before)

    patch(gateway_repository, "_keys", keep)


def _the_removed_stay(patch: Patch) -> None:
    patch(members_repository, "remove_member", nothing)


def _the_removed_stay_in_projects(patch: Patch) -> None:
    patch(members_repository, "leave_projects", nothing)


def _the_last_admin_may_go(patch: Patch) -> None:
    patch(members_service, "_refuse_last_admin", nothing)


def _members_change_at_once(patch: Patch) -> None:
    """Each looks whether another admin is left, and nobody waits for anybody."""
    patch(members_service, "lock_organization", nothing)


def _invitations_stay(patch: Patch) -> None:
    patch(endings, "withdraw_invitations_by", _none)


def _invitations_are_never_used_up(patch: Patch) -> None:
    patch(invitations_repository, "close", nothing)


def _nobody_waits_for_who_accepts(patch: Patch) -> None:
    """An admin invites somebody who becomes a member meanwhile."""
    patch(invitations_service, "hold_organization", nothing)


def _everybody_waits_for_members(patch: Patch) -> None:
    """Also who records something about the organization, and holds what the change of members is about."""

    async def lock(session: Any, organization_id: str) -> None:
        query = select(OrganizationRow.id).where(OrganizationRow.id == organization_id)
        (await session.execute(query.with_for_update())).scalar_one()

    patch(members_service, "lock_organization", lock)


def _uses_are_noted_first(patch: Patch) -> None:
    """So that every request holds its session from its beginning to its end."""

    async def at_once(request: Any, session: Any, work: Any) -> None:
        await work()

    patch(authentication, "at_the_end", at_once)


_OUTLIVES = ("no key outlives the right to make it",)
_REVOKED = ("a revoked key opens nothing",)
_REMOVED = ("who was removed can do nothing",)
_ADMIN = ("an admin is always left",)
_MAY_GIVE = ("an invitation makes what its maker may give",)
BUGS = (
    Bug(
        "the removed keep their keys",
        _OUTLIVES,
        _keys_stay,
        needs=("a key is made as its maker goes", "make a key"),
    ),
    Bug(
        "who makes a key is looked at once",
        _OUTLIVES,
        _let_in_is_let_in,
        needs=("a key is made as its maker goes", "a key is made with one that ends"),
    ),
    Bug(
        "a key's children outlive it", _OUTLIVES, _children_stay, needs=("a key is made with one that ends",)
    ),
    Bug(
        "every key opens the API",
        _REVOKED,
        _every_key_opens_the_api,
        needs=("a key is made with one that ends", "use a key", "revoke a key"),
    ),
    Bug("the gateway keeps keys", _REVOKED, _the_gateway_keeps_keys, needs=("revoke a key", "make a key")),
    Bug(
        "the gateway learns of no key",
        ("the gateway knows the keys",),
        _the_gateway_learns_no_keys,
        needs=("make a key",),
    ),
    Bug("the removed stay members", _REMOVED, _the_removed_stay, needs=("remove a member", "leave")),
    Bug(
        "the removed stay in their projects",
        _REMOVED,
        _the_removed_stay_in_projects,
        needs=("remove a member", "leave"),
    ),
    Bug("the last admin may go", _ADMIN, _the_last_admin_may_go, needs=("leave", "admins remove each other")),
    Bug("members change at once", _ADMIN, _members_change_at_once, needs=("admins remove each other",)),
    Bug(
        "invitations outlive their maker",
        _MAY_GIVE,
        _invitations_stay,
        needs=("accepted while its maker goes", "invite"),
    ),
    Bug(
        "invitations are never used up",
        _MAY_GIVE,
        _invitations_are_never_used_up,
        needs=("accepted twice at once",),
    ),
    Bug(
        "nobody waits for who accepts",
        ("nobody is invited who is here",),
        _nobody_waits_for_who_accepts,
        needs=("invited while they accept",),
    ),
    Bug(
        "everybody waits for a change of members",
        ("no request crashes",),
        _everybody_waits_for_members,
        needs=("accepted while its maker goes", "a key is made with one that ends"),
    ),
    Bug(
        "uses are noted first",
        ("no request crashes",),
        _uses_are_noted_first,
        needs=("a key is made as its maker goes", "admins remove each other"),
    ),
)
