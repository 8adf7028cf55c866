"""A replica that ends badly leaves a capsule: complete, masked, never changed, and there after its container is gone."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from api_support import Api, new_home
from api_support import api_fixture as api_fixture
from log_support import BASE_NS, KEYRING, SECRET, Printer, World, chunk, eventually, new_world
from sqlalchemy import func, select, text, update
from sqlalchemy.exc import DBAPIError

from moorage.containers.models import ReplicaRow
from moorage.engines.base import LOCAL_ENGINE
from moorage.engines.engines import Engines
from moorage.kit.clock import system_clock
from moorage.kit.database import Database
from moorage.kit.ids import new_container_id
from moorage.kit.pagination import PageRequest
from moorage.kit.settings import Settings
from moorage.telemetry.capsules.models import CrashCapsuleRow
from moorage.telemetry.capsules.repository import LAST_LINES, list_capsules
from moorage.telemetry.capsules.writer import CapsuleWriter
from moorage.telemetry.logs.collector import LogCollector


@pytest.fixture
async def world(database: Database) -> World:
    return await new_world(database)


async def ends_badly(world: World, replica_id: str, **values: Any) -> None:
    ended = {"state": "stopped", "ended_at": func.now(), "ended_badly": True, "reason": "exited", **values}
    async with world.database.transaction() as session:
        await session.execute(update(ReplicaRow).where(ReplicaRow.id == replica_id).values(ended))


async def write_all(world: World) -> int:
    writer = CapsuleWriter(world.database, system_clock)
    keys = (await writer.due(100)).keys
    for key in keys:
        await writer.reconcile(key, world.lease)
    return len(keys)


async def capsules_of(world: World, container_id: str) -> list[CrashCapsuleRow]:
    async with world.database.transaction() as session:
        return await list_capsules(session, container_id, PageRequest(50, None))


async def crash(world: World, container_id: str, **values: Any) -> str:
    """One without output, whose logs are in."""
    source = await world.new_replica(container_id)
    await ends_badly(world, source.replica_id, collected_at=func.now(), **values)
    return source.replica_id


async def test_written_once_its_logs_are_in_with_all_that_is_known(world: World) -> None:
    container_id = await world.new_container()
    lines = [chunk(number, f"line {number}") for number in range(LAST_LINES + 50)]
    printer = Printer([*lines, chunk(10**6, f"password {SECRET} refused")], ended=False)
    source = await world.new_replica(container_id, printer)
    probes = [
        {
            "by": "controller",
            "outcome": "status",
            "status": 500,
            "first_at": "2026-01-01T00:00:00+00:00",
            "last_at": "2026-01-01T00:01:00+00:00",
            "count": 60,
        }
    ]
    message = "The process ended with exit code 3. See its last log lines."
    await ends_badly(world, source.replica_id, exit_code=3, message=message, probe_history=probes)
    assert await write_all(world) == 0, "its logs are not in yet"

    collector = LogCollector(
        world.database,
        Engines({LOCAL_ENGINE: world.engine}),
        KEYRING,
        Settings(home=Path("/nonexistent")),
        system_clock,  # type: ignore[arg-type]
    )
    following = asyncio.create_task(collector.lead(world.lease))
    printer.ends()

    async def collected() -> bool:
        return (await world.replica(source.replica_id)).collected_at is not None

    await eventually(collected, "its logs are in")
    following.cancel()
    assert await write_all(world) == 1
    assert await write_all(world) == 0, "once"

    (capsule,) = await capsules_of(world, container_id)
    content = capsule.content
    assert (content["reason"], content["exit_code"], content["message"]) == ("exited", 3, message)
    assert (content["generation"], content["node"], content["gpu_device_ids"]) == (1, "here", [])
    assert [run["count"] for run in content["probes"]] == [60]
    texts = [line["text"] for line in content["last_lines"]]
    assert len(texts) == LAST_LINES
    assert texts[:2] == ["line 51", "line 52"]
    assert texts[-1] == "password •••••• refused"
    first = datetime.fromisoformat(content["last_lines"][0]["time"])
    assert first.astimezone(UTC).timestamp() == pytest.approx(BASE_NS / 10**9, abs=1)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE crash_capsules SET content = '{}'",
        "DELETE FROM crash_capsules",
        "TRUNCATE crash_capsules",
    ],
)
async def test_the_database_refuses_to_change_one(world: World, statement: str) -> None:
    container_id = await world.new_container()
    await crash(world, container_id)
    await write_all(world)
    before = (await capsules_of(world, container_id))[0].content
    with pytest.raises(DBAPIError, match="never changed"):
        async with world.database.transaction() as session:
            await session.execute(text(statement))
    assert (await capsules_of(world, container_id))[0].content == before


async def test_one_that_never_ran_or_whose_logs_never_came_has_one_too(world: World) -> None:
    container_id = await world.new_container()
    never_ran = await crash(world, container_id, started_at=None)
    late = await world.new_replica(container_id, Printer([]))
    await ends_badly(world, late.replica_id, state="collected")
    ended_well = await world.new_replica(container_id, state="removed")
    assert await write_all(world) == 2
    found = {capsule.replica_id for capsule in await capsules_of(world, container_id)}
    assert found == {never_ran, late.replica_id}
    assert ended_well.replica_id not in found


async def test_pages_newest_first_also_after_the_container_is_deleted(api: Api) -> None:
    home, stranger = await new_home(api), await new_home(api, "bob@example.com")
    container_id = await api.new_container(home.project_id, "chat")
    async with api.database.transaction() as session:
        now = (await session.execute(select(func.now()))).scalar_one()
        for number in range(5):
            session.add(
                CrashCapsuleRow(
                    replica_id=f"rep_{number}",
                    container_id=container_id,
                    project_id=home.project_id,
                    written_at=now + timedelta(milliseconds=number),
                    content=CONTENT,
                )
            )
    await api.execute("UPDATE containers SET deleted_at = now(), state = 'DELETING'")
    path = f"/containers/{container_id}/capsules"
    first = (await api.get(home.admin, f"{path}?limit=3")).json()
    assert [one["replica_id"] for one in first["items"]] == ["rep_4", "rep_3", "rep_2"]
    assert first["items"][0]["exit_code"] == 1
    assert [gpu["device_id"] for gpu in first["items"][0]["gpus"]] == ["GPU-mine"]
    second = (await api.get(home.admin, f"{path}?limit=3&cursor={first['next_cursor']}")).json()
    assert [one["replica_id"] for one in second["items"]] == ["rep_1", "rep_0"]
    assert second["next_cursor"] is None
    refused = await api.get(stranger.admin, path)
    absent = await api.get(stranger.admin, f"/containers/{new_container_id()}/capsules")
    assert refused.status_code == absent.status_code == 404
    assert refused.json()["detail"] == absent.json()["detail"]


CONTENT: dict[str, Any] = {
    "reason": "exited",
    "message": None,
    "exit_code": 1,
    "slot": 0,
    "generation": 1,
    "image": "local/chat:latest",
    "image_digest": None,
    "node": "here",
    "gpu_device_ids": ["GPU-mine"],
    "gpus": [
        {"device_id": "GPU-anothers", "memory_bytes": 1},
        {"device_id": "GPU-mine", "memory_bytes": None},
    ],
    "created_at": "2026-01-01T00:00:00Z",
    "started_at": None,
    "ready_at": None,
    "ended_at": None,
    "probes": [],
    "last_lines": [],
}
