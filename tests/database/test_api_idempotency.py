"""`Idempotency-Key`: a POST that is repeated makes nothing twice."""

import asyncio
from collections import Counter
from typing import Any

import httpx
import pytest
from api_support import Api, Asker, assert_problem, bearer, container_body, new_home
from api_support import api_fixture as api_fixture
from log_support import eventually
from sqlalchemy import text
from test_api_access import ACME, EXPECTED, FIXED_ANSWERS, NOT_SET_UP, OK, ROUTES, good_body, new_town

from moorage.entrypoints.api import create_app
from moorage.kit.clock import SystemClock
from moorage.kit.database import Database

ADMIN = 8
"""The place of "admin" in `EXPECTED`."""


async def post(api: Api, asker: Asker, path: str, body: Any, key: str, **how: Any) -> httpx.Response:
    return await api.post(asker, path, body, headers={"Idempotency-Key": key}, **how)


async def test_fifty_at_once(api: Api) -> None:
    """One container, however many ask; and everybody gets the same answer."""
    api.app.state.clock = SystemClock()
    home = await new_home(api)
    path = f"/projects/{home.project_id}/containers"
    answers = await asyncio.gather(*(post(api, home.admin, path, container_body(), "one") for _ in range(50)))
    statuses = Counter(answer.status_code for answer in answers)
    assert set(statuses) <= {201, 409}, statuses
    made = [answer for answer in answers if answer.status_code == 201]
    assert len({answer.json()["id"] for answer in made}) == 1
    assert [answer.headers.get("idempotency-replayed") for answer in made].count(None) == 1
    assert len(await api.rows("SELECT 1 FROM containers")) == 1
    assert len(await api.rows("SELECT 1 FROM activities WHERE kind = 'container.create'")) == 1
    for answer in answers:
        if answer.status_code == 409:
            assert_problem(answer, 409, "idempotency_key_in_use")
    print(f"50 concurrent creates with one key: {dict(statuses)}, 1 container")


async def test_other_request_with_the_same_key(api: Api) -> None:
    home = await new_home(api)
    path = f"/projects/{home.project_id}/api-keys"
    assert (await post(api, home.admin, path, {"name": "one"}, "k")).status_code == 201
    for other_path, body in ((path, {"name": "two"}), ("/organizations", {"name": "one"})):
        answer = await post(api, home.admin, other_path, body, "k")
        assert_problem(answer, 422, "idempotency_key_reused")
    again = await post(api, home.admin, path, {"name": "one"}, "k", params={"x": "1"})
    assert_problem(again, 422, "idempotency_key_reused")
    assert len(await api.rows("SELECT 1 FROM api_keys")) == 1


async def test_per_actor(api: Api) -> None:
    """Somebody else's key is not one's own; another session of the same person is."""
    home, other = await new_home(api), await new_home(api, "eve@example.com")
    body = {"name": "x"}
    first = await post(api, home.admin, f"/organizations/{home.organization_id}/projects", body, "k")
    theirs = await post(api, other.admin, f"/organizations/{other.organization_id}/projects", body, "k")
    assert (first.status_code, theirs.status_code) == (201, 201)
    assert first.json()["id"] != theirs.json()["id"]
    _, token = await api.new_person("ada@example.com")
    path = f"/organizations/{home.organization_id}/projects"
    again = await post(api, bearer("ada elsewhere", token), path, body, "k")
    assert again.json() == first.json()
    assert again.headers["location"] == first.headers["location"]


async def test_secret_is_sealed(api: Api) -> None:
    """The answer holds a key that is shown once: repeated to its owner, and unreadable in the database."""
    home = await new_home(api)
    path = f"/projects/{home.project_id}/api-keys"
    first = await post(api, home.admin, path, {}, "k")
    again = await post(api, home.admin, path, {}, "k")
    assert again.json()["key"] == first.json()["key"]
    dump = await api.dump()
    assert first.json()["key"] not in dump
    assert first.json()["key"].encode().hex() not in dump


async def test_refusal_is_not_remembered(api: Api) -> None:
    home = await new_home(api)
    await api.new_project(home.organization_id, "taken")
    path = f"/organizations/{home.organization_id}/projects"
    assert_problem(await post(api, home.admin, path, {"name": "taken"}, "k"), 409, "name_taken")
    assert_problem(await post(api, home.admin, path, {"name": ""}, "k2"), 422)
    await api.execute("UPDATE projects SET name = 'other' WHERE name = 'taken'")
    assert (await post(api, home.admin, path, {"name": "taken"}, "k")).status_code == 201
    assert (await post(api, home.admin, path, {"name": "right"}, "k2")).status_code == 201


async def test_expires_after_a_day(api: Api) -> None:
    home = await new_home(api)
    path = f"/projects/{home.project_id}/api-keys"
    await post(api, home.admin, path, {"name": "x"}, "k")
    await api.execute("UPDATE idempotent_requests SET begun_at = now() - interval '25 hours'")
    again = await post(api, home.admin, path, {"name": "y"}, "k")
    assert again.status_code == 201
    assert "idempotency-replayed" not in again.headers


async def test_crash_before_and_after_the_commit(api: Api) -> None:
    """What vanished without a commit is overtaken after a minute; what committed is never done again."""
    home = await new_home(api)
    path = f"/projects/{home.project_id}/api-keys"
    await post(api, home.admin, path, {}, "k")
    await api.execute("UPDATE idempotent_requests SET answer = NULL")
    assert_problem(await post(api, home.admin, path, {}, "k"), 409, "idempotency_answer_lost")
    await api.execute("UPDATE idempotent_requests SET begun_at = now() - interval '2 minutes'")
    assert_problem(await post(api, home.admin, path, {}, "k"), 409, "idempotency_answer_lost")
    await api.execute("DELETE FROM api_keys")
    await api.execute("UPDATE idempotent_requests SET committed = false, begun_at = now()")
    assert_problem(await post(api, home.admin, path, {}, "k"), 409, "idempotency_key_in_use")
    await api.execute("UPDATE idempotent_requests SET begun_at = now() - interval '2 minutes'")
    assert (await post(api, home.admin, path, {}, "k")).status_code == 201


async def test_overtaken(api: Api, database_dsn: str) -> None:
    """A request that hung for so long that another went ahead commits nothing."""
    home = await new_home(api)
    path = f"/projects/{home.project_id}/api-keys"
    slow_database = Database(database_dsn, pool_size=2)
    slow = Api(create_app(api.settings, slow_database, api.app.state.keyring), slow_database, api.settings)
    async with api.database.transaction() as session:
        # Holds the project, for which the slow one must wait before it can insert its key.
        await session.execute(
            text("SELECT 1 FROM projects WHERE id = :id FOR UPDATE"), {"id": home.project_id}
        )
        hanging = asyncio.create_task(post(slow, home.admin, path, {}, "k"))

        async def claimed() -> bool:
            return bool(await api.rows("SELECT 1 FROM idempotent_requests"))

        await eventually(claimed, "the slow request holds the key")
        await api.execute("UPDATE idempotent_requests SET attempt = 'try_of_another'")
    assert_problem(await hanging, 409, "idempotency_key_in_use")
    assert await api.rows("SELECT 1 FROM api_keys") == []
    await slow_database.close()


async def test_bad_key(api: Api) -> None:
    home = await new_home(api)
    for bad in ("", "x" * 256, "a b", "\u00e9"):
        answer = await api.post(
            home.admin, "/organizations", {"name": "x"}, headers={"Idempotency-Key": bad.encode("latin-1")}
        )
        assert [one["field"] for one in assert_problem(answer, 422)["errors"]] == ["Idempotency-Key"], bad
    large = await post(api, home.admin, "/organizations", {"name": "x" * 3_000_000}, "k")
    assert_problem(large, 413)
    wrong = bearer("nobody", "moor_ses_x")
    assert_problem(await post(api, wrong, "/organizations", {"name": "x"}, "k"), 401)


@pytest.mark.long
async def test_every_post_route(api: Api) -> None:
    """From the route table: whatever an admin may post, posted twice, is done once."""
    town = await new_town(api)
    routes = [
        route
        for route, rule in ROUTES.items()
        if route.startswith("POST")
        and EXPECTED[rule][ADMIN] == OK
        and rule != "anybody"
        and route not in {*FIXED_ANSWERS, *NOT_SET_UP}
        and not route.endswith("/auth/logout")  # afterwards they are nobody
    ]
    for number, route in enumerate(routes):
        ids = await town.ids(town.acme, ACME, route)
        path = route.split(" ")[1].removeprefix("/api/v1").format(**ids)
        body = good_body(route, f"twice-{number}")
        first = await post(api, town.askers["admin"], path, body, f"key-{number}")
        assert first.status_code < 300, f"{route}: {first.text}"
        before = await api.dump()
        again = await post(api, town.askers["admin"], path, body, f"key-{number}")
        assert again.headers.get("idempotency-replayed") == "true", route
        assert (again.status_code, again.text) == (first.status_code, first.text), route
        assert await api.dump() == before, route
    print(f"{len(routes)} POST routes, 0 repeated")
