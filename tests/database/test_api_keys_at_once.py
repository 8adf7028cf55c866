"""A key that is made while its maker loses the right to it: whichever comes first, no key works afterwards."""

import asyncio
from typing import Any

import httpx
import pytest
from api_support import Api, Home, bearer, new_home
from api_support import api_fixture as api_fixture
from reconciler_support import eventually
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession
from test_api_members import new_member, remove

from moorage.kit.database import take_turn

WAITING = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
)
WORKING = "SELECT id FROM api_keys WHERE revoked_at IS NULL"


async def hold_the_turn(session: AsyncSession, home: Home) -> None:
    """Whoever makes a key has been let in by then, and has asked for nothing else."""
    await take_turn(session, f"too_many_api_keys:{home.project_id}")


async def hold_the_project(session: AsyncSession, home: Home) -> None:
    """Whoever makes a key has looked at everything by then."""
    await session.execute(text("SELECT FROM projects WHERE id = :id FOR UPDATE"), {"id": home.project_id})


HOLDS = [hold_the_turn, hold_the_project]


async def at_once(api: Api, home: Home, hold: Any, making: Any, ending: Any) -> tuple[httpx.Response, Any]:
    """The key is made as far as `hold` lets it; then the right ends, or waits for it."""
    async with api.database.transaction() as session:
        await hold(session, home)

        async def waiting() -> int:
            # Asked in the transaction that holds, which must not stand still for long and sees one picture unless told to look.
            await session.execute(text("SELECT pg_stat_clear_snapshot()"))
            return int((await session.execute(text(WAITING))).scalar_one())

        async def makes_and_waits() -> bool:
            return await waiting() == 1

        async def has_ended_or_waits() -> bool:
            return await waiting() == 2 or ended.done()

        made = asyncio.create_task(making)
        await eventually(makes_and_waits, "whoever makes a key waits")
        ended = asyncio.create_task(ending)
        await eventually(has_ended_or_waits, "the right ends, or waits for the key")
    return await made, await ended


@pytest.mark.parametrize("hold", HOLDS)
async def test_by_somebody_who_is_removed(api: Api, hold: Any) -> None:
    home = await new_home(api)
    user_id, member = await new_member(api, home, "member@example.com", "admin")
    path = f"/projects/{home.project_id}/api-keys"
    made, removed = await at_once(
        api, home, hold, api.post(member, path, {"name": "x"}), remove(api, home, user_id)
    )
    assert (made.status_code, removed.status_code) in ((404, 200), (201, 200)), made.text
    assert await api.rows(WORKING) == []


@pytest.mark.parametrize("hold", HOLDS)
async def test_by_a_rotation_of_somebody_who_is_removed(api: Api, hold: Any) -> None:
    home = await new_home(api)
    user_id, member = await new_member(api, home, "member@example.com", "admin")
    first = await api.post(member, f"/projects/{home.project_id}/api-keys", {"name": "x"})
    path = f"/api-keys/{first.json()['id']}/rotate"
    made, removed = await at_once(
        api, home, hold, api.post(member, path, {"overlap_s": 0}), remove(api, home, user_id)
    )
    assert (made.status_code, removed.status_code) in ((404, 200), (201, 200)), made.text
    assert await api.rows(WORKING) == []


@pytest.mark.parametrize("hold", HOLDS)
async def test_with_a_key_that_is_revoked(api: Api, hold: Any) -> None:
    home = await new_home(api)
    key_id, key = await api.new_key(home.project_id, "manage")
    path = f"/projects/{home.project_id}/api-keys"
    revoke = api.ask(home.admin, "DELETE", f"/api/v1/api-keys/{key_id}")
    made, revoked = await at_once(api, home, hold, api.post(bearer("key", key), path, {"name": "x"}), revoke)
    assert (made.status_code, revoked.status_code) in ((401, 204), (201, 204)), made.text
    assert await api.rows(WORKING) == []


@pytest.mark.parametrize("what", ["projects", "organizations"])
async def test_with_a_key_whose_project_is_deleted(api: Api, what: str) -> None:
    """Both lock the project and the key. In the same order, or they would wait for each other."""
    home = await new_home(api)
    key_id, key = await api.new_key(home.project_id, "manage")

    async def hold_the_key(session: AsyncSession, _: Home) -> None:
        await session.execute(text("SELECT FROM api_keys WHERE id = :id FOR UPDATE"), {"id": key_id})

    path = f"/projects/{home.project_id}/api-keys"
    deleted = f"/api/v1/projects/{home.project_id}"
    how: dict[str, Any] = {"params": {"name": "default"}}
    if what == "organizations":
        deleted = f"/api/v1/organizations/{home.organization_id}"
        how = {"params": {"name": "acme", "gives_up_microusd": 20_000_000}}
    delete = api.ask(home.admin, "DELETE", deleted, **how)
    made, ended = await at_once(
        api, home, hold_the_key, api.post(bearer("key", key), path, {"name": "x"}), delete
    )
    assert ended.status_code in (200, 202, 204), ended.text
    assert made.status_code in (201, 401, 404), made.text
    assert await api.rows(WORKING) == []
