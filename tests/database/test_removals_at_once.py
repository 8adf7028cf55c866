"""While somebody is removed, what they and others do at that moment neither fails nor makes the removal fail."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any

import httpx
from api_support import Api, Home, bearer, new_home
from api_support import api_fixture as api_fixture
from reconciler_support import eventually
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession
from test_api_invitations import INVITED, invite, link_token, person
from test_api_keys_at_once import WAITING
from test_api_members import new_member

from moorage.identity.sessions.repository import end_sessions
from moorage.kit.ids import UserId
from moorage.organizations.endings import end_rights
from moorage.organizations.repository import lock_organization

LONG_AGO = "UPDATE sessions SET last_used_at = now() - interval '5 minutes'"
"""So that the next request notes that they were used."""


@asynccontextmanager
async def removing(
    api: Api, home: Home, user_id: str, meanwhile: Awaitable[httpx.Response], *, waits: bool
) -> AsyncIterator[asyncio.Task[Any]]:
    """A removal that has begun, then what is asked meanwhile, as far as that gets; then the rest of the removal."""
    async with api.database.transaction() as session:
        await lock_organization(session, home.organization_id)
        asked = asyncio.ensure_future(meanwhile)

        async def has_come_to_rest() -> bool:
            return asked.done() or await waiting(session) == 1

        await eventually(has_come_to_rest, "it is answered, or waits")
        assert asked.done() != waits
        await end_rights(
            session,
            home.organization_id,
            user_id,
            lost_projects=[home.project_id],
            managed=True,
            revoke_keys=True,
        )
        await end_sessions(session, UserId(user_id))
    yield asked


async def waiting(session: AsyncSession) -> int:
    await session.execute(text("SELECT pg_stat_clear_snapshot()"))
    return int((await session.execute(text(WAITING))).scalar_one())


async def test_whoever_is_removed_makes_a_key(api: Api) -> None:
    home = await new_home(api)
    user_id, member = await new_member(api, home, "member@example.com", "admin")
    await api.execute(LONG_AGO)
    making = api.post(member, f"/projects/{home.project_id}/api-keys", {"name": "x"})
    async with removing(api, home, user_id, making, waits=True) as made:
        assert (await made).status_code == 201, "of this removal nothing but its ends was carried out"


async def test_what_they_sent_is_accepted(api: Api) -> None:
    home = await new_home(api)
    await invite(api, home)
    bea, (maker,) = await person(api, INVITED), await api.rows("SELECT invited_by FROM invitations")
    accepting = api.post(bea, f"/invitations/{await link_token(api)}/accept")
    async with removing(api, home, maker[0], accepting, waits=True) as accepted:
        assert (await accepted).status_code == 404


async def test_their_key_is_changed(api: Api) -> None:
    """By an admin, whose change is recorded for the organization; and the key itself makes another."""
    home = await new_home(api)
    user_id, member = await new_member(api, home, "member@example.com", "admin")
    made = await api.post(member, f"/projects/{home.project_id}/api-keys", {"name": "x", "scope": "manage"})
    changing = api.ask(home.admin, "PATCH", f"/api/v1/api-keys/{made.json()['id']}", json={"name": "y"})
    async with removing(api, home, user_id, changing, waits=False) as changed:
        assert (await changed).status_code == 200


async def test_their_key_makes_another(api: Api) -> None:
    home = await new_home(api)
    user_id, member = await new_member(api, home, "member@example.com", "admin")
    path = f"/projects/{home.project_id}/api-keys"
    first = (await api.post(member, path, {"name": "x", "scope": "manage"})).json()
    async with removing(
        api, home, user_id, api.post(bearer("key", first["key"]), path, {"name": "y"}), waits=False
    ) as made:
        assert (await made).status_code == 201
    assert await api.rows("SELECT id FROM api_keys WHERE revoked_at IS NULL") == []
