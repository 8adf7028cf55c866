"""A failure whose fix is a setting, from the engine's word to the accepted fix."""

from functools import partial

import pytest
from reconciler_support import KEYRING, SETTINGS, WatchedEngine, World, driven, eventually, new_world

from moorage.containers import service
from moorage.containers.models import ContainerRow
from moorage.containers.states import ContainerState
from moorage.kit.database import Database

accept = partial(service.apply_fix, seen=None, keyring=KEYRING, settings=SETTINGS)


async def failed(world: World, container_id: str, generation: int) -> ContainerRow:
    async def there() -> bool:
        row = await world.container(container_id)
        return row.state == ContainerState.FAILED and row.failed_generation == generation

    await eventually(there, f"generation {generation} failed")
    return await world.container(container_id)


async def test_out_of_memory_offers_the_next_larger_type_until_there_is_none(database: Database) -> None:
    world = await new_world(database)
    async with driven(world, WatchedEngine(world.machine)):
        container_id = await world.create("local/hungry:latest", replicas=2)
        offers = []
        for generation in (1, 2, 3):
            row = await failed(world, container_id, generation)
            assert (row.reason, row.failure_reason) == ("out_of_memory", "out_of_memory")
            assert row.failure_fix is not None
            offers.append((row.failure_fix["from"], row.failure_fix["to"]))
            await world.ask(accept, container_id)
        row = await failed(world, container_id, 4)
    assert offers == [("cpu-nano", "cpu-small"), ("cpu-small", "cpu-medium"), ("cpu-medium", "cpu-large")]
    assert (row.instance_type, row.failure_fix) == ("cpu-large", None)


@pytest.mark.long
async def test_a_server_that_is_late_gets_more_time(database: Database) -> None:
    world = await new_world(database)
    async with driven(world, WatchedEngine(world.machine)):
        container_id = await world.create("local/deaf:latest", health_timeout_s=1)
        row = await failed(world, container_id, 1)
        assert row.failure_fix == {"field": "health_check.timeout_s", "from": 1, "to": 2}
