"""Whoever asks the doctor gets one answer, from inside a replica that runs, and the activity keeps it."""

import pytest
from api_support import Api, assert_problem, new_home
from api_support import api_fixture as api_fixture
from reconciler_support import SETTINGS, WatchedEngine, World, life, new_world

from moorage.containers.doctor import repository, service
from moorage.containers.doctor.models import NetworkDiagnosisRow
from moorage.containers.doctor.reconciler import Doctor
from moorage.containers.repository import list_activities
from moorage.engines.base import LOCAL_ENGINE
from moorage.engines.engines import Engines
from moorage.kit.clock import system_clock
from moorage.kit.database import Database
from moorage.kit.errors import ConflictError
from moorage.kit.pagination import PageRequest
from moorage.reconcile.lease import Lease, LeaseKeeper


async def running(world: World, engine: WatchedEngine) -> str:
    container_id = await world.create()
    async with life(world, engine) as controller:
        for _ in range(4):
            await controller.round(container_id)
    assert (await world.container(container_id)).state == "RUNNING"
    return container_id


async def ask(world: World, container_id: str) -> bool:
    container = await world.container(container_id)
    async with world.database.transaction() as session:
        _, is_new = await service.ask(session, world.actor, container)
        return is_new


async def lease_of(world: World) -> Lease:
    lease = await LeaseKeeper(world.database, "doctor", "test", system_clock).acquire()
    assert lease is not None
    return lease


async def found(world: World, container_id: str) -> NetworkDiagnosisRow:
    async with world.database.transaction() as session:
        row = await repository.find(session, container_id)
    assert row is not None
    return row


async def test_asked_and_answered_once(database: Database) -> None:
    world = await new_world(database)
    engine = WatchedEngine(world.machine)
    container_id = await running(world, engine)
    doctor, lease = Doctor(world.database, Engines({LOCAL_ENGINE: engine}), SETTINGS), await lease_of(world)
    assert await ask(world, container_id)
    assert not await ask(world, container_id), "one at a time"
    assert list((await doctor.due(10)).keys) == [container_id]
    await doctor.reconcile(container_id, lease)
    await doctor.reconcile(container_id, lease)  # a second leader that had begun as well

    row = await found(world, container_id)
    (replica,) = await world.replicas(container_id)
    assert (row.state, row.replica_id, row.node) == ("done", replica.id, "simulated")
    assert row.message == "Names resolve. 1.1.1.1:443 answers. Listening: 0.0.0.0 port 8000."
    assert row.findings is not None
    assert {one["outcome"] for one in row.findings["forbidden"]} == {"timed_out"}
    assert list((await doctor.due(10)).keys) == []
    async with database.transaction() as session:
        kinds = [one.kind for one in await list_activities(session, container_id, PageRequest(50, None))]
    assert (kinds.count("container.doctor"), kinds.count("container.diagnosed")) == (1, 1)


async def test_a_machine_without_a_way_out(database: Database) -> None:
    world = await new_world(database)
    engine = WatchedEngine(world.machine)
    container_id = await running(world, engine)
    world.machine.online = False
    await ask(world, container_id)
    await Doctor(world.database, Engines({LOCAL_ENGINE: engine}), SETTINGS).reconcile(
        container_id, await lease_of(world)
    )
    row = await found(world, container_id)
    assert row.message is not None
    assert "huggingface.co does not resolve" in row.message
    assert "the machine itself cannot reach the internet" in row.message


async def test_its_replica_ends_meanwhile(database: Database) -> None:
    world = await new_world(database)
    engine = WatchedEngine(world.machine)
    container_id = await running(world, engine)
    await ask(world, container_id)
    (replica,) = await world.replicas(container_id)
    world.machine.end(replica.id)
    doctor, lease = Doctor(world.database, Engines({LOCAL_ENGINE: engine}), SETTINGS), await lease_of(world)
    await doctor.reconcile(container_id, lease)
    row = await found(world, container_id)
    assert (row.state, row.findings) == ("failed", None)
    assert row.message is not None
    assert row.message.startswith("No replica runs")
    assert await ask(world, container_id), "it may be asked again"
    await doctor.postpone(container_id, RuntimeError("a defect"), lease)
    assert (await found(world, container_id)).state == "failed"


async def test_without_a_replica_there_is_nothing_to_look_at(database: Database) -> None:
    world = await new_world(database)
    container_id = await world.create()
    with pytest.raises(ConflictError) as refused:
        await ask(world, container_id)
    assert refused.value.code == "no_replica_running"


async def test_over_http(api: Api) -> None:
    home = await new_home(api)
    container_id = await api.new_container(home.project_id, "chat")
    path = f"/containers/{container_id}/doctor"
    assert (await api.get(home.admin, path)).json()["state"] == "never_asked"
    assert_problem(await api.post(home.admin, path), 409, "no_replica_running")
    await api.new_replica(container_id, state="stopped")
    assert_problem(await api.post(home.admin, path), 409, "no_replica_running")
    await api.new_replica(container_id)
    first, second = await api.post(home.admin, path), await api.post(home.admin, path)
    assert (first.status_code, second.status_code) == (202, 200)
    assert first.json() == second.json() == (await api.get(home.admin, path)).json()
    assert first.json()["state"] == "asked"
