"""Containers from before there were versions have a first one."""

from reconciler_support import KEYRING, WatchedEngine, driven, new_world
from sqlalchemy import text
from test_reconciler_canary import begin

from moorage.containers.secrets import unseal
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


async def test_a_version_before_canaries_goes_on_with_what_serves(
    database: Database, database_dsn: str
) -> None:
    world = await new_world(database)
    async with driven(world, WatchedEngine(world.machine)):
        container_id = await begin(world, replicas=1)
    await migrate(database_dsn, "0082")
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
