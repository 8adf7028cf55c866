"""A database that is away is no error of ours: whoever asks is told to come back, and is answered when they do."""

import asyncio
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest
from api_support import KEYRING, Api, Asker, assert_problem, bearer
from api_support import api_fixture as api_fixture
from sqlalchemy import text

from moorage.entrypoints.api import create_app
from moorage.kit.database import Database, connect
from tests.ports import free_port

DEADLINE_S = 30.0


@pytest.fixture(name="person")
async def person_fixture(api: Api) -> Asker:
    return bearer("person", (await api.new_person("captain@example.com"))[1])


@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": "one"}], ids=["plain", "idempotent"])
async def test_without_a_database_one_is_told_to_come_back(
    api: Api, person: Asker, headers: dict[str, str]
) -> None:
    nowhere = Database(_at_another_port(api.database.dsn))
    cut_off = Api(create_app(api.settings, nowhere, KEYRING), nowhere, api.settings)
    read = await cut_off.get(person, "/me")
    changed = await cut_off.post(person, "/organizations", {"name": "Harbour"}, headers=headers)
    assert_problem(read, 503, "unavailable")
    assert_problem(changed, 503, "unavailable")
    assert read.headers["Retry-After"] == changed.headers["Retry-After"] == "5"
    for cause in ("127.0.0.1", "refused", "asyncpg", "Traceback"):
        assert cause not in read.text + changed.text
    assert "whether" not in read.text
    assert "First check whether the request was carried out" in changed.text


async def test_a_connection_that_ends_before_it_was_of_use_says_the_same(
    api: Api, person: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def connect_and_lose(dsn: str, **how: Any) -> asyncpg.Connection:
        connection = await connect(dsn, **how)
        other = await connect(dsn)
        await other.execute("SELECT pg_terminate_backend($1, 10000)", connection.get_server_pid())
        await other.close()
        return connection

    unlucky = Database(api.database.dsn)
    monkeypatch.setattr("moorage.kit.database.connect", connect_and_lose)
    cut_off = Api(create_app(api.settings, unlucky, KEYRING), unlucky, api.settings)
    assert_problem(await cut_off.get(person, "/me"), 503, "unavailable")
    monkeypatch.undo()
    assert (await cut_off.get(person, "/me")).status_code == 200
    await unlucky.close()


async def test_a_connection_that_ends_under_a_request_says_the_same(api: Api, person: Asker) -> None:
    async with api.database.transaction() as other:
        await other.execute(text("LOCK TABLE users"))
        asked = asyncio.ensure_future(api.get(person, "/me"))
        async with asyncio.timeout(DEADLINE_S):
            while not await _ended_waiting(api):  # noqa: ASYNC110 - the server has no event for it
                await asyncio.sleep(0.02)
        answer = await asked
    assert_problem(answer, 503, "unavailable")
    assert (await api.get(person, "/me")).status_code == 200


def _at_another_port(dsn: str) -> str:
    parts = urlsplit(dsn)
    return parts._replace(netloc=f"{parts.username}:x@127.0.0.1:{free_port()}", query="").geturl()


async def _ended_waiting(api: Api) -> int:
    """How many connections that wait for a lock were ended. In a transaction of its own: one sees its first look."""
    ended = await api.rows(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    return len(ended)
