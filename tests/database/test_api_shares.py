"""The connections to the database are shared: whoever keeps its own busy waits for them, and nobody else does."""

import asyncio
import socket
import threading
from collections import Counter
from contextlib import AsyncExitStack

import pytest
from api_support import ANONYMOUS, Api, Home, assert_problem, bearer, new_home
from api_support import api_fixture as api_fixture
from sqlalchemy import text

from moorage.kit.clients import Client, current_client
from moorage.kit.database import Database
from moorage.kit.errors import TooManyRequestsError, UnavailableError
from moorage.kit.fair_slots import FairSlots


def client(slots: FairSlots, name: str) -> Client:
    return Client(name, slots, note=lambda _: None)


async def hold(database: Database, who: Client | None, until: asyncio.Event) -> None:
    current_client.set(who)
    async with database.reading() as session:
        await session.execute(text("SELECT 1"))
        await until.wait()


async def in_use(database: Database, count: int) -> None:
    async with asyncio.timeout(20):
        while database.connections_in_use != count:  # noqa: ASYNC110 - the pool tells nobody
            await asyncio.sleep(0.01)


async def test_a_client_has_its_share_and_others_theirs(database: Database) -> None:
    slots, until = FairSlots(10, 3, 20, 30), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for _ in range(12):
            group.create_task(hold(database, client(slots, "greedy"), until))
        await in_use(database, 3)
        other = group.create_task(hold(database, client(slots, "other"), until))
        own = group.create_task(hold(database, None, until))
        await in_use(database, 5)
        assert not other.done()
        assert not own.done()
        until.set()
    assert (slots.clients, database.connections_in_use) == (0, 0)


async def test_a_session_that_gave_its_connection_back_holds_no_place(database: Database) -> None:
    """An endpoint that goes on to ask a registry has committed."""
    slots, until = FairSlots(10, 1, 0, 30), asyncio.Event()
    current_client.set(client(slots, "one"))
    async with database.session() as session:
        await session.execute(text("SELECT 1"))
        assert slots.held_by("one") == 1
        await session.commit()
        assert slots.held_by("one") == 0
        until.set()
        await asyncio.create_task(hold(database, client(slots, "one"), until))
        async with database.reading() as second, database.reading() as third:
            # Of one and the same request: it does not wait for itself.
            await second.execute(text("SELECT 1"))
            await third.execute(text("SELECT 1"))
            assert slots.held_by("one") == 1
    assert slots.clients == 0


async def test_a_connection_that_cannot_be_made_or_is_lost_gives_its_place_back(database: Database) -> None:
    slots = FairSlots(10, 1, 0, 30)
    current_client.set(client(slots, "one"))
    unreachable = Database("postgresql://moorage@127.0.0.1:1/moorage", pool_size=2)
    for _ in range(3):
        with pytest.raises(OSError):
            async with unreachable.reading() as session:
                await session.execute(text("SELECT 1"))
    await unreachable.close()
    for _ in range(3):
        with pytest.raises(Exception, match=r"terminat|closed"):
            async with database.session() as session:
                await session.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))
    assert slots.clients == 0


async def test_who_cannot_wait_is_told(database: Database) -> None:
    slots, until = FairSlots(10, 1, 1, 0.1), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(hold(database, client(slots, "one"), until))
        await in_use(database, 1)
        waiting = asyncio.create_task(hold(database, client(slots, "one"), until))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        with pytest.raises(TooManyRequestsError):
            await asyncio.create_task(hold(database, client(slots, "one"), until))
        with pytest.raises(UnavailableError):
            await waiting
        until.set()


async def test_all_keys_of_one_person_have_one_share(api: Api) -> None:
    """In however many projects: whoever is signed in makes those as they like."""
    home, other = await new_home(api), await new_home(api, "grace@example.com")
    projects = [home.project_id]
    for number in range(4):
        path = f"/organizations/{home.organization_id}/projects"
        projects.append((await api.post(home.admin, path, {"name": f"n{number}"})).json()["id"])
    keys = []
    for project_id in projects:
        made = await api.post(
            home.admin, f"/projects/{project_id}/api-keys", {"name": "key", "scope": "manage"}
        )
        keys.append(bearer("key", made.json()["key"]))
        assert (await api.get(keys[-1], f"/projects/{project_id}")).status_code == 200
    async with api.database.session() as session:
        locked = text("SELECT id FROM projects WHERE id = ANY(:ids) FOR UPDATE")
        await session.execute(locked, {"ids": projects})
        slow = [
            asyncio.create_task(api.post(key, f"/projects/{project_id}/api-keys", {"name": "another"}))
            for project_id, key in zip(projects, keys, strict=True)
            for _ in range(5)
        ]
        await in_use(api.database, 1 + api.database.most_connections // 4)
        async with asyncio.timeout(5):
            for _ in range(5):
                assert (await api.get(other.admin, "/organizations")).status_code == 200
        await session.rollback()
        assert {(await one).status_code for one in slow} == {201}
    await in_use(api.database, 0)


async def test_slow_questions_of_one_person_leave_the_others_their_connections(api: Api) -> None:
    """Their rows are locked, so each of these requests holds a connection for as long as it likes."""
    home, other = await new_home(api), await new_home(api, "grace@example.com")
    assert (await api.get(home.admin, "/me")).status_code == 200  # from now on its token is known
    async with AsyncExitStack() as kept:
        session = await kept.enter_async_context(api.database.session())
        await session.execute(
            text("SELECT id FROM organizations WHERE id = :id FOR UPDATE"), {"id": home.organization_id}
        )
        path = f"/api/v1/organizations/{home.organization_id}"
        slow = [
            asyncio.create_task(api.ask(home.admin, "PATCH", path, json={"name": f"n{number}"}))
            for number in range(30)
        ]
        await in_use(api.database, 1 + api.database.most_connections // 4)
        async with asyncio.timeout(5):
            for _ in range(5):
                assert (await api.get(other.admin, "/organizations")).status_code == 200
            assert_problem(await api.get(bearer("stranger", "mrg_ses_wrong"), "/me"), 401)
            assert (await api.post(ANONYMOUS, "/auth/device", {})).status_code == 201
        await session.rollback()
        assert {(await one).status_code for one in slow} == {200}
    await in_use(api.database, 0)


@pytest.mark.long
async def test_registries_that_answer_nobody_leave_others_their_preflights(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, other = await new_home(api), await new_home(api, "grace@example.com")
    await api.execute(
        "INSERT INTO nodes (name, infrastructure, architecture, cpu_millis, memory_bytes, gpus, seen_at)"
        " VALUES ('one', 'cpu', 'amd64', 1000, 1000, '[]', now())"
    )
    answered = threading.Event()

    def resolve(host: str, *_: object, **__: object) -> list[object]:
        if host.endswith("silent.example.com"):
            answered.wait(60)
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)

    async def preflight(asker: Home, host: str) -> int:
        body = {"image": f"{host}/a/b:1", "registry": {"provider": "other"}}
        path = f"/projects/{asker.project_id}/containers/preflight"
        return (await api.post(asker.admin, path, body)).status_code

    silent = [asyncio.create_task(preflight(home, f"n{number}.silent.example.com")) for number in range(80)]
    try:
        async with asyncio.timeout(20):
            # Four are asked and eight wait; the others are told so at once.
            while sum(one.done() for one in silent) < len(silent) - 12:  # noqa: ASYNC110 - they tell nobody
                await asyncio.sleep(0.02)
        async with asyncio.timeout(5):
            assert await preflight(other, "quick.example.com") == 200
    finally:
        answered.set()
    assert Counter(await asyncio.gather(*silent))[429] == len(silent) - 12
