"""New settings that replace what serves: their image is on every machine that they will run on before anything is stopped."""

import json
from typing import Any

import pytest
from machines_support import SECOND, Fleet, change, leading, new_fleet, serving
from reconciler_support import Life, eventually
from test_reconciler_drafts import apply, draft

from moorage.containers.states import TrialStep
from moorage.containers.trial import trial_step
from moorage.engines.base import LOCAL_ENGINE
from moorage.engines.simulated import SimulatedImage
from moorage.engines.simulated_machine import engine_ref
from moorage.kit.database import Database
from moorage.kit.errors import ImageError

NEW = "registry.example/new:1"
REFERENCES = {engine_ref(NEW), engine_ref(f"registry.example/new@{engine_ref(NEW)}")}
NANO_BYTES = 2**28


@pytest.fixture
async def fleet(database: Database) -> Fleet:
    fleet = await new_fleet(database)
    image = SimulatedImage(exposed_ports=(8000,))
    for machine in fleet.machines.values():
        machine.images = {
            **machine.images,
            NEW: image,
            f"registry.example/new@{engine_ref(NEW)}": image,
        }
        machine.pruned |= REFERENCES
    return fleet


async def apply_new_image(fleet: Fleet, container_id: str, **settings: Any) -> None:
    await draft(fleet.world, container_id, env={"WORD": "new"})
    await fleet.world.ask(apply, container_id)
    new = json.dumps({"image": NEW, "registry_provider": "other", **settings})
    await change(fleet.world, f"UPDATE containers SET trial_settings = trial_settings || '{new}'")


async def until_it_stops(fleet: Fleet, alive: Life, container_id: str) -> set[str]:
    """Engines that had the image by the moment from which on nothing keeps the old replicas."""

    async def stops() -> bool:
        await alive.round(container_id)
        return trial_step(await fleet.world.container(container_id)) is not TrialStep.PREPARE

    await eventually(stops, "its image is there")
    return {name for name, machine in fleet.machines.items() if machine.pulled & REFERENCES}


async def test_it_is_fetched_where_there_is_room_only_once_the_old_one_is_gone(fleet: Fleet) -> None:
    """That machine has the cache. Another has room now, and is not where it will run."""
    async with leading(fleet) as alive:
        container_id = await fleet.world.create("local/model:latest", cache={"size_gib": 20})
        [old] = await serving(alive, container_id, 1)
        fleet.machines[old.engine].memory_bytes = NANO_BYTES
        await fleet.describe()
        await apply_new_image(fleet, container_id)
        assert await until_it_stops(fleet, alive, container_id) == {old.engine}
        [new] = await serving(alive, container_id, 1)
        assert (new.engine, new.id != old.id) == (old.engine, True)


async def test_it_is_fetched_on_each_machine_that_it_will_run_on(fleet: Fleet) -> None:
    async with leading(fleet) as alive:
        container_id = await fleet.world.create(replicas=2)
        assert {one.engine for one in await serving(alive, container_id, 2)} == {LOCAL_ENGINE, SECOND}
        await apply_new_image(fleet, container_id)
        assert await until_it_stops(fleet, alive, container_id) == {LOCAL_ENGINE, SECOND}
        assert {one.engine for one in await serving(alive, container_id, 2)} == {LOCAL_ENGINE, SECOND}


@pytest.mark.long
async def test_it_is_fetched_where_another_instance_type_is(fleet: Fleet) -> None:
    """The type that serves would stay where its cache is; the new one does not fit there."""
    async with leading(fleet) as alive:
        container_id = await fleet.world.create("local/model:latest", cache={"size_gib": 20})
        [old] = await serving(alive, container_id, 1)
        [other] = {LOCAL_ENGINE, SECOND} - {old.engine}
        fleet.machines[old.engine].memory_bytes = 2**30
        await fleet.describe()
        await apply_new_image(fleet, container_id, instance_type="cpu-large")
        assert await until_it_stops(fleet, alive, container_id) == {other}
        [new] = await serving(alive, container_id, 1)
        assert new.engine == other


@pytest.mark.long
async def test_a_machine_that_cannot_fetch_it_holds_up_nobody(fleet: Fleet) -> None:
    async with leading(fleet) as alive:
        container_id = await fleet.world.create(replicas=2)
        await serving(alive, container_id, 2)

        async def refuse(call: str) -> None:
            if call == "ensure_image" and fleet.world.machine.pulled | fleet.second.pulled:
                raise ImageError("The registry does not answer.", code="registry_unreachable")

        fleet.local_engine.before = fleet.second_engine.before = refuse
        await apply_new_image(fleet, container_id)
        assert len(await until_it_stops(fleet, alive, container_id)) == 1
