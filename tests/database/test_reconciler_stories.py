"""The life of containers under the driver, as it is deployed: every ordinary thing that can happen to one."""

import asyncio

import pytest
from reconciler_support import WatchedEngine, World, driven, eventually, new_world

from moorage.containers import service
from moorage.containers.states import ContainerState
from moorage.kit.clock import system_clock
from moorage.kit.database import Database, Listener
from moorage.reconcile.driver import Driver, Due
from moorage.reconcile.lease import Lease
from moorage.reconcile.status import reconciler_statuses


@pytest.fixture
async def world(database: Database) -> World:
    return await new_world(database)


async def reaches(world: World, container_id: str, state: ContainerState, ready: int | None = None) -> None:
    async def there() -> bool:
        routed = await world.replicas(container_id, "routed")
        return (await world.container(container_id)).state == state and (
            ready is None or len(routed) == ready
        )

    await eventually(there, f"{container_id} is {state}")


async def test_create_restart_stop_start_delete(world: World) -> None:
    async with driven(world, WatchedEngine(world.machine)):
        container_id = await world.create(replicas=3)
        await reaches(world, container_id, ContainerState.RUNNING, ready=3)
        rows = await world.replicas(container_id)
        assert [row.slot for row in rows] == [0, 1, 2]
        assert world.machine.ids_of(container_id) == {row.id for row in rows}

        world.fewest_enabled[container_id] = 3
        await world.ask(service.restart_container, container_id)

        async def taken_over() -> bool:
            rows = await world.replicas(container_id, "routed")
            return len(rows) == 3 and all(row.generation == 2 for row in rows)

        await eventually(taken_over, "the new generation has all slots")
        await eventually(lambda: _only(world, container_id, 3), "nothing of the generation before it is left")
        assert world.fewest_enabled.pop(container_id) == 3, (
            "a slot's old replica stays until the new one serves"
        )

        await world.ask(service.stop_container, container_id)
        await reaches(world, container_id, ContainerState.STOPPED)
        await eventually(lambda: world.nothing_left(container_id), "nothing is left after a stop")
        assert (await world.container(container_id)).reason == "stopped_by_user"

        await world.ask(service.start_container, container_id)
        await reaches(world, container_id, ContainerState.RUNNING, ready=3)
        await world.ask(service.delete_container, container_id)

        async def gone() -> bool:
            return (await world.container(container_id)).deleted_at is not None

        await eventually(gone, "the container is deleted")
        await eventually(lambda: world.nothing_left(container_id), "and its ports are free")
    assert world.machine.twins == []


async def _only(world: World, container_id: str, count: int) -> bool:
    return len(world.machine.ids_of(container_id)) == count


async def test_a_running_replica_that_ends_is_replaced_and_the_others_stay(world: World) -> None:
    async with driven(world, WatchedEngine(world.machine)):
        container_id = await world.create(replicas=3)
        await reaches(world, container_id, ContainerState.RUNNING, ready=3)
        before = {row.slot: row.id for row in await world.replicas(container_id)}
        world.machine.end(before[1], exit_code=9)

        async def replaced() -> bool:
            routed = {row.slot: row.id for row in await world.replicas(container_id, "routed")}
            return len(routed) == 3 and routed[1] != before[1]

        await eventually(replaced, "slot 1 has a new replica")
        rows = {row.id: row for row in await world.replicas(container_id)}
        ended = rows.pop(before[1])
        assert len(rows) == 3
        assert {before[0], before[2]} <= rows.keys()
        assert (ended.reason, ended.exit_code, ended.ended_badly) == ("exited", 9, True)
        assert ended.ended_at is not None
        successor = next(row for row in rows.values() if row.slot == 1)
        assert (successor.created_at - ended.ended_at).total_seconds() >= 1, "backoff"


@pytest.mark.parametrize(
    ("settings", "reason", "message"),
    [
        (
            {"image": "local/crash:latest"},
            "exited",
            "The process ended with exit code 3. See its last log lines.",
        ),
        (
            {"image": "local/absent:latest"},
            "image_not_found",
            "The image local/absent:latest does not exist.",
        ),
        (
            {"image": "local/strict:latest", "start_command": "launch --now"},
            "start_command_not_found",
            "The start command 'launch' was not found in the image.",
        ),
        (
            {"image": "local/deaf:latest", "health_timeout_s": 3, "port": 9000},
            "port_not_listening",
            "Nothing listens on port 9000 yet; it has 3 s from its start. See its logs for what it is doing.",
        ),
        (
            {"health_timeout_s": 1},
            "health_check_status",
            "GET /health answered 503; expected 200. Fix the health path or the server.",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and "_" in value[:20] else "",
)
@pytest.mark.long
async def test_what_cannot_start_fails_with_its_reason_and_leaves_nothing(
    world: World, settings: dict[str, object], reason: str, message: str
) -> None:
    world.machine.health_status = 503 if reason == "health_check_status" else 200
    async with driven(world, WatchedEngine(world.machine)):
        container_id = await world.create(**settings)  # type: ignore[arg-type]
        await reaches(world, container_id, ContainerState.FAILED)
        row = await world.container(container_id)
        assert (row.reason, row.message) == (reason, message)
        await eventually(lambda: world.nothing_left(container_id), "nothing is left of what failed")
        row = await world.container(container_id)
        assert (row.state, row.reason, row.message) == ("FAILED", reason, message), "and it goes on saying so"


@pytest.mark.long
async def test_a_failed_restart_leaves_the_old_replica_serving(world: World) -> None:
    async with driven(world, WatchedEngine(world.machine)):
        container_id = await world.create(health_timeout_s=1)
        await reaches(world, container_id, ContainerState.RUNNING, ready=1)
        world.fewest_enabled[container_id] = 1
        world.machine.health_status = 500
        await world.ask(service.restart_container, container_id)

        async def given_up() -> bool:
            row = await world.container(container_id)
            return row.failed_generation == 2 and len(world.machine.ids_of(container_id)) == 1

        await eventually(given_up, "the restart is given up")
        row = await world.container(container_id)
        assert (row.state, row.reason) == ("RUNNING", "health_check_status")
        assert world.fewest_enabled[container_id] == 1


class Busy:
    """Always has a pass under way, which a stop interrupts."""

    name, channels = "busy", ("busy",)

    def __init__(self) -> None:
        self.under_way = asyncio.Event()

    async def due(self, limit: int) -> Due:
        return Due(["a", "b", "c"], None)

    async def reconcile(self, key: str, lease: Lease) -> None:
        self.under_way.set()
        await asyncio.Event().wait()

    async def postpone(self, key: str, error: Exception, lease: Lease) -> None:
        raise AssertionError("nothing fails here")

    async def lead(self, lease: Lease) -> None:
        return None


class Hints(Listener):
    """Notifications that come exactly when the test wants them."""

    def subscribe(self, *channels: str) -> asyncio.Event:
        self.event = super().subscribe(*channels)
        return self.event


@pytest.mark.parametrize("turns_between", range(6))
async def test_a_stop_together_with_a_notification_ends_the_driver(
    database: Database, turns_between: int
) -> None:
    for _ in range(3):
        reconciler, hints = Busy(), Hints(database.dsn)
        driver = Driver(reconciler, database, hints, "test", system_clock)
        running = asyncio.create_task(driver.run())
        await asyncio.wait_for(reconciler.under_way.wait(), timeout=10)
        await eventually(lambda: _recorded(database), "its round is over")
        hints.event.set()
        for _ in range(turns_between):
            await asyncio.sleep(0)
        running.cancel()
        done, _ = await asyncio.wait([running], timeout=5)
        assert done, "it goes on although it was told to stop"
        assert running.cancelled()


async def _recorded(database: Database) -> bool:
    async with database.transaction() as session:
        return "busy" in {status.name for status in await reconciler_statuses(session)}
