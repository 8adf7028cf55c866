"""Containers from before there were versions have a first one, and a version from before can go on with what it finds."""

import json
from typing import Any

import pytest
from reconciler_support import KEYRING, WatchedEngine, driven, new_world
from sqlalchemy import text
from test_reconciler_canary import begin
from test_reconciler_drafts import running

from moorage.containers.secrets import unseal
from moorage.containers.states import Reason
from moorage.entrypoints.migrate import migrate
from moorage.kit.database import Database


async def test_what_there_is_becomes_the_first_version(database: Database, database_dsn: str) -> None:
    world = await new_world(database)
    running = await world.create(env={"WORD": "secret"})
    stopped = await world.create()
    async with database.transaction() as session:
        await session.execute(
            text(
                "UPDATE containers SET state = 'RUNNING', image_ref = 'sha256:1', image_digest = 'sha256:2', port = 8000"
                " WHERE id = :id"
            ),
            {"id": running},
        )
        await session.execute(text("UPDATE containers SET state = 'STOPPED' WHERE id = :id"), {"id": stopped})
    await migrate(database_dsn, "0072")
    await migrate(database_dsn)
    async with database.transaction() as session:
        columns = "container_id, version, outcome, image, served_since IS NOT NULL, settings, secrets"
        found = {
            row[0]: row for row in await session.execute(text(f"SELECT {columns} FROM container_versions"))
        }
    assert tuple(found[running])[1:5] == (
        1,
        "serving",
        {"ref": "sha256:1", "digest": "sha256:2", "port": 8000, "gpu_environment": None},
        True,
    )
    assert tuple(found[stopped])[1:5] == (1, None, None, False)
    row = await world.container(running)
    assert (row.version, row.rollout, found[running][5]) == (1, None, row.settings)
    assert unseal(KEYRING, running, found[running][6]).environment == {"WORD": "secret"}


@pytest.mark.long
async def test_a_version_before_canaries_goes_on_with_what_serves(
    database: Database, database_dsn: str
) -> None:
    world = await new_world(database)
    async with driven(world, WatchedEngine(world.machine)):
        container_id = await begin(world, replicas=1)
    await execute(database, "UPDATE containers SET reconcile_at = NULL, changes = 7")
    await migrate(database_dsn, "0082")
    assert await one_row(database, "SELECT changes, reconcile_at IS NOT NULL FROM containers") == (8, True)
    async with database.transaction() as session:
        query = (
            "SELECT generation, image_generation, serving_generation, rollout, trial_image FROM containers"
        )
        assert tuple((await session.execute(text(query))).one()) == (3, 3, 3, None, None)
        query = "SELECT version, generation FROM replicas WHERE state = 'routed' ORDER BY 1"
        assert [tuple(row) for row in await session.execute(text(query))] == [(1, 3), (2, 2)]
        query = "SELECT strategy FROM container_versions WHERE version = 2 AND container_id = :id"
        assert (await session.execute(text(query), {"id": container_id})).scalar_one() == "rolling"
    await migrate(database_dsn)


async def execute(database: Database, statement: str, **values: object) -> None:
    async with database.transaction() as session:
        await session.execute(text(statement), values)


async def one_row(database: Database, query: str) -> tuple[Any, ...]:
    async with database.transaction() as session:
        return tuple((await session.execute(text(query))).one())


@pytest.mark.parametrize(
    ("setting", "before"),
    [({"sleep_after_s": 600}, "0081"), ({"cache_gib": 20}, "0083")],
    ids=["sleep", "caches"],
)
async def test_a_version_before_a_setting_can_read_all_settings(
    database: Database, database_dsn: str, setting: dict[str, int], before: str
) -> None:
    world = await new_world(database)
    container_id = await world.create()
    settings = (await world.container(container_id)).settings | setting
    await execute(
        database,
        "UPDATE containers SET settings = :settings, trial_settings = :settings, "
        "fallback = jsonb_build_object('settings', CAST(:settings AS jsonb), 'desired_replicas', 1)",
        settings=json.dumps(settings),
    )
    await execute(
        database, "UPDATE container_versions SET settings = :settings", settings=json.dumps(settings)
    )
    await migrate(database_dsn, before)
    unknown = {*setting, "cache_gib"}
    known = {name: value for name, value in settings.items() if name not in unknown}
    columns = "c.settings, c.trial_settings, c.fallback, v.settings"
    found = await one_row(database, f"SELECT {columns} FROM containers c, container_versions v")
    assert found == (known, known, {"settings": known, "desired_replicas": 1}, known)
    await migrate(database_dsn)


@pytest.mark.parametrize("column", ["asleep_since", "woken_at"])
async def test_a_version_before_sleep_looks_at_what_sleeps(
    database: Database, database_dsn: str, column: str
) -> None:
    world = await new_world(database)
    sleeps, other = await world.create(), await world.create()
    await execute(database, "UPDATE containers SET reconcile_at = NULL, changes = 7")
    await execute(database, f"UPDATE containers SET {column} = now() WHERE id = :id", id=sleeps)
    await migrate(database_dsn, "0081")
    async with database.transaction() as session:
        rows = await session.execute(text("SELECT id, changes, reconcile_at IS NOT NULL FROM containers"))
        assert {row[0]: tuple(row)[1:] for row in rows} == {sleeps: (8, True), other: (7, False)}
    await migrate(database_dsn)


@pytest.mark.parametrize(
    ("reason", "without_canaries", "without_versions"),
    [
        (Reason.ROLLED_BACK, Reason.ROLLED_BACK, Reason.STOPPED_BY_USER),
        (Reason.ERRORS_ABOVE_BOUND, Reason.ERRORS_ABOVE_BOUND, Reason.HEALTH_CHECK_STATUS),
        (Reason.SLOWER_THAN_BEFORE, Reason.ERRORS_ABOVE_BOUND, Reason.HEALTH_CHECK_STATUS),
        (Reason.EXITED, Reason.EXITED, Reason.EXITED),
    ],
)
@pytest.mark.long
async def test_a_version_before_knows_the_word_of_every_reason(
    database: Database, database_dsn: str, reason: Reason, without_canaries: Reason, without_versions: Reason
) -> None:
    world = await new_world(database)
    async with driven(world, WatchedEngine(world.machine)):
        await running(world)
    await execute(
        database,
        "UPDATE containers SET reason = :reason, failure_reason = :reason, "
        "trial_failure = jsonb_build_object('reason', CAST(:reason AS varchar), 'message', 'Why.')",
        reason=reason,
    )
    await execute(database, "UPDATE replicas SET reason = :reason", reason=reason)
    query = "SELECT c.reason, c.failure_reason, c.trial_failure, r.reason FROM containers c, replicas r"
    for revision, word in (("0082", without_canaries), ("0072", without_versions)):
        await migrate(database_dsn, revision)
        failure = {"reason": word, "message": "Why."}
        assert await one_row(database, query) == (word, word, failure, word)
    await migrate(database_dsn)
