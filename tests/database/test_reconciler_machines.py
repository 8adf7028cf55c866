"""Several machines: what one does not answer concerns its own replicas, and others take their place."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest
from machines_support import (
    SECOND,
    UNREACHABLE,
    Fleet,
    change,
    leading,
    new_fleet,
    none_twice,
    rounds,
    serving,
    silent_for,
)
from reconciler_support import driven, eventually
from test_renewals import charged

from moorage.catalog.capacity import Placement
from moorage.catalog.repository import forget_engine, list_nodes, replace_nodes
from moorage.containers import service
from moorage.containers.capacity_repository import insert_replica
from moorage.containers.models import ReplicaRow
from moorage.containers.reconciler.doubt_repository import list_doubts
from moorage.engines.base import LOCAL_ENGINE, Image, ImageRequest, NodeCapacity, PullProgress
from moorage.engines.engines import Engines
from moorage.engines.simulated_machine import SimulatedImage, engine_ref
from moorage.kit.database import Database
from moorage.kit.errors import EngineError, ImageError

CHAT_OF_A_REGISTRY = """settings || '{"image": "registry.example/chat:1", "registry_provider": "other"}'"""


@pytest.fixture
async def fleet(database: Database) -> Fleet:
    return await new_fleet(database)


def machines_of(replicas: list[ReplicaRow]) -> list[tuple[str, str]]:
    return sorted((one.engine, one.node) for one in replicas)


async def test_a_containers_replicas_spread_over_machines_and_are_reached_where_they_are(
    fleet: Fleet,
) -> None:
    async with leading(fleet) as alive:
        container_id = await fleet.world.create(replicas=2)
        routed = await serving(alive, container_id, 2)
    assert machines_of(routed) == [(LOCAL_ENGINE, "simulated"), (SECOND, "second")]
    assert {one.host for one in routed} == {machine.address for machine in fleet.machines.values()}
    assert fleet.running(container_id) == {"simulated": 1, "second": 1}


async def test_of_many_machines_some_are_looked_at_and_all_where_these_have_no_room(fleet: Fleet) -> None:
    async with leading(fleet) as alive:
        placing = alive.reconciler._placing
        placing.looks_at = 0
        container_id = await fleet.world.create()
        loaded = await alive.reconciler._load(container_id)
        assert loaded is not None
        room = await placing.room(loaded)
        assert (len(room.nodes), room.whole) == (1, False)
        await change(fleet.world, "UPDATE nodes SET cordoned_at = now() WHERE name = 'simulated'")
        # One at random; that all of them are the open one is as likely as ten throws of a coin.
        for _ in range(10):
            room = await placing.room(loaded)
            assert "second" in {node.name for node in room.nodes}
        routed = await serving(alive, container_id, 1)
    assert machines_of(routed) == [(SECOND, "second")]


async def test_a_port_is_one_of_its_machine(fleet: Fleet) -> None:
    container_id = await fleet.world.create()
    container = await fleet.world.container(container_id)
    places = [Placement(LOCAL_ENGINE, "simulated", ()), Placement(SECOND, "second", ())]
    async with fleet.world.database.transaction() as session:
        for slot, placement in enumerate(places):
            row = await insert_replica(session, container, slot, placement, (14000, 14000))
            assert row.host_port == 14000
        with pytest.raises(EngineError, match="of second are in use"):
            await insert_replica(session, container, 2, places[1], (14000, 14000))


async def test_an_engine_that_is_away_takes_nobody_elses_machines_along(fleet: Fleet) -> None:
    async with fleet.world.database.transaction() as session:
        await replace_nodes(session, await fleet.second_engine.capacity(), SECOND)
        assert [node.key for node in await list_nodes(session)] == [
            (SECOND, "second"),
            (LOCAL_ENGINE, "simulated"),
        ]
        await forget_engine(session, SECOND)
        assert [node.key for node in await list_nodes(session)] == [(LOCAL_ENGINE, "simulated")]


@pytest.mark.parametrize("swept_first", [False, True])
async def test_a_machine_that_returns_takes_nothing_while_what_was_replaced_still_runs_there(
    fleet: Fleet, swept_first: bool
) -> None:
    """Its memory and its GPUs would be promised twice."""
    async with leading(fleet) as alive:
        container_id = await fleet.world.create(replicas=2)
        lost = next(one for one in await serving(alive, container_id, 2) if one.engine == SECOND)
        fleet.second.cut_off()
        fleet.world.failing[lost.id] = UNREACHABLE
        await fleet.world.gateway_step()
        await silent_for(alive, SECOND, 21)
        assert machines_of(await serving(alive, container_id, 2)) == [(LOCAL_ENGINE, "simulated")] * 2
        fleet.second.come_back()
        if swept_first:
            await alive.reconciler._sweep.refresh_nodes(SECOND, alive.lease)
        await alive.reconciler._pulse.beat(SECOND, alive.lease)
        other = await fleet.world.create(replicas=2)
        assert machines_of(await serving(alive, other, 2)) == [(LOCAL_ENGINE, "simulated")] * 2
        assert fleet.second.runs(lost.id)
        await alive.reconciler._sweep._compare(SECOND, alive.lease)
        assert not fleet.second.running()
        await alive.reconciler._pulse.beat(SECOND, alive.lease)
        third = await fleet.world.create(replicas=2)
        assert (SECOND, "second") in machines_of(await serving(alive, third, 2))


async def test_a_machine_left_alone_is_ready_again_although_nobody_asks_it(fleet: Fleet) -> None:
    """It was silent when another was there: now there is no other to ask for, and a new leader did not hear its silence."""
    async with leading(fleet) as alive:
        fleet.world.machine.cut_off()
        await silent_for(alive, LOCAL_ENGINE, 1)
        fleet.world.machine.come_back()
        fleet.engines.remove(SECOND)
    async with leading(fleet) as alive:
        await alive.reconciler._pulse.beat(LOCAL_ENGINE, alive.lease)
        await serving(alive, await fleet.world.create(), 1)


async def test_what_gateways_still_reach_on_a_silent_machine_stays(fleet: Fleet) -> None:
    async with leading(fleet) as alive:
        container_id = await fleet.world.create(replicas=2)
        before = await serving(alive, container_id, 2)
        fleet.second.cut_off()
        await silent_for(alive, SECOND, 3600)
        await rounds(alive, container_id)
        row = await fleet.world.container(container_id)
        assert (row.state, row.failed_passes) == ("RUNNING", 0)
        assert {one.id for one in await fleet.world.replicas(container_id)} == {one.id for one in before}
        # Nothing new starts there meanwhile.
        other = await fleet.world.create(replicas=2)
        assert machines_of(await serving(alive, other, 2)) == [(LOCAL_ENGINE, "simulated")] * 2
        fleet.second.come_back()
        await alive.reconciler._pulse.beat(SECOND, alive.lease)
        third = await fleet.world.create(replicas=2)
        assert (SECOND, "second") in machines_of(await serving(alive, third, 2))


async def test_a_lost_machines_replicas_are_replaced_and_nothing_is_doubled_when_it_returns(
    fleet: Fleet,
) -> None:
    async with leading(fleet) as alive:
        container_id = await fleet.world.create(replicas=2)
        before = await serving(alive, container_id, 2)
        paid = await charged(fleet.world)
        lost = next(one for one in before if one.engine == SECOND)
        fleet.second.cut_off()
        fleet.world.failing[lost.id] = UNREACHABLE
        await fleet.world.gateway_step()
        await silent_for(alive, SECOND, 15)
        await rounds(alive, container_id, 2)
        assert (await fleet.world.replicas(container_id, "routed"))[lost.slot].id == lost.id, "not so soon"
        await silent_for(alive, SECOND, 6)
        after = await serving(alive, container_id, 2)
        assert machines_of(after) == [(LOCAL_ENGINE, "simulated")] * 2
        ended = next(one for one in await fleet.world.replicas(container_id) if one.id == lost.id)
        assert (ended.reason, ended.state) == ("node_lost", "removed")
        assert await charged(fleet.world) == paid, "its slot has an hour already"
        assert fleet.running(container_id) == {"simulated": 2, "second": 1}, "nobody could end it there"
        fleet.second.come_back()
        await alive.reconciler._pulse.beat(SECOND, alive.lease)
        await alive.reconciler._sweep._compare(SECOND, alive.lease)
        assert fleet.running(container_id) == {"simulated": 2, "second": 0}
        await rounds(alive, container_id, 3)
        assert {one.id for one in await fleet.world.replicas(container_id, "routed")} == {
            one.id for one in after
        }
    none_twice(fleet)


async def test_nobody_is_given_up_where_no_machine_answers(fleet: Fleet) -> None:
    async with leading(fleet) as alive:
        container_id = await fleet.world.create(replicas=2)
        before = await serving(alive, container_id, 2)
        for name, machine in fleet.machines.items():
            machine.cut_off()
            await silent_for(alive, name, 3600)
        for one in before:
            fleet.world.failing[one.id] = UNREACHABLE
        await fleet.world.gateway_step()
        await rounds(alive, container_id, 3)
        assert {one.id for one in await fleet.world.replicas(container_id)} == {one.id for one in before}
        assert (await fleet.world.container(container_id)).failed_passes == 0
        new = await fleet.world.create()
        await rounds(alive, new, 2)
        assert (await fleet.world.container(new)).state == "PENDING"


async def test_what_was_to_start_on_a_lost_machine_starts_elsewhere(fleet: Fleet) -> None:
    async def die(call: str) -> None:
        if call == "start":
            fleet.second.cut_off()

    fleet.second_engine.before = die
    async with leading(fleet) as alive:
        fleet.world.machine.schedulable = False
        await fleet.describe()
        container_id = await fleet.world.create()
        await alive.reconciler.reconcile(container_id, alive.lease)
        await alive.finish_operations()
        [requested] = await fleet.world.replicas(container_id)
        assert (requested.engine, requested.state, requested.host) == (SECOND, "requested", None)
        fleet.world.machine.schedulable = True
        await silent_for(alive, SECOND, 21)
        async with fleet.world.database.transaction() as session:
            await replace_nodes(session, await fleet.local_engine.capacity(), LOCAL_ENGINE)
        assert machines_of(await serving(alive, container_id, 1)) == [(LOCAL_ENGINE, "simulated")]
        assert (await fleet.world.container(container_id)).failed_generation == 0


@pytest.mark.parametrize("wish", [service.stop_container, service.delete_container])
async def test_a_lost_machine_is_never_in_the_way_of_stop_and_delete(fleet: Fleet, wish: object) -> None:
    async with leading(fleet) as alive:
        container_id = await fleet.world.create(replicas=2)
        before = await serving(alive, container_id, 2)
        fleet.second.cut_off()
        for one in before:
            if one.engine == SECOND:
                fleet.world.failing[one.id] = UNREACHABLE
        await silent_for(alive, SECOND, 21)
        await fleet.world.ask(wish, container_id)  # type: ignore[arg-type]
        await rounds(alive, container_id, 10)
        row = await fleet.world.container(container_id)
        assert row.deleted_at is not None or row.state == "STOPPED"
        assert {one.state for one in await fleet.world.replicas(container_id)} == {"removed"}


async def test_a_machine_that_left_for_good_is_not_waited_for(fleet: Fleet) -> None:
    async with leading(fleet) as alive:
        container_id = await fleet.world.create(replicas=2)
        await serving(alive, container_id, 2)
        fleet.engines.remove(SECOND)
        await rounds(alive, container_id, 2)
        assert len(await fleet.world.replicas(container_id, "routed")) == 2, (
            "it may yet come: its row is there"
        )
        async with fleet.world.database.transaction() as session:
            await forget_engine(session, SECOND)
        assert machines_of(await serving(alive, container_id, 2)) == [(LOCAL_ENGINE, "simulated")] * 2


async def test_an_engine_that_is_not_there_yet_is_noted_as_silent(fleet: Fleet) -> None:
    async with leading(fleet) as alive:
        fleet.engines.remove(SECOND)
        absent = asyncio.create_task(alive.reconciler._pulse.run_absent(alive.lease))

        async def noted() -> bool:
            async with fleet.world.database.reading() as session:
                return [node.ready for node in await list_nodes(session)] == [False, True]

        await eventually(noted, "its machine is not ready")
        absent.cancel()


async def test_doubt_is_about_one_machine(fleet: Fleet) -> None:
    """Of all replicas fewer than half are missing, of the machine all."""
    async with leading(fleet) as alive:
        fleet.world.machine.schedulable = False
        await fleet.describe()
        on_second = await fleet.world.create(replicas=3)
        before = await serving(alive, on_second, 3)
        fleet.world.machine.schedulable, fleet.second.schedulable = True, False
        await fleet.describe()
        await serving(alive, await fleet.world.create(replicas=4), 4)
        fleet.second_engine.hidden = {one.id for one in before}
        await rounds(alive, on_second, 2)
        async with fleet.world.database.reading() as session:
            [doubt] = await list_doubts(session)
        assert (doubt.engine, doubt.node, doubt.missing, doubt.expected) == (SECOND, "second", 3, 3)
        await alive.reconciler._sweep._compare(LOCAL_ENGINE, alive.lease)
        async with fleet.world.database.reading() as session:
            assert await list_doubts(session), "what another engine lists says nothing about it"
        fleet.second_engine.hidden = set()
        await alive.reconciler._sweep._compare(SECOND, alive.lease)
        async with fleet.world.database.reading() as session:
            assert await list_doubts(session) == []


async def test_the_image_is_brought_to_each_machine_that_needs_it(fleet: Fleet) -> None:
    """Each by the digest that the first one found."""
    tagged = "registry.example/chat:1"
    pinned = f"registry.example/chat@{engine_ref(tagged)}"
    image = SimulatedImage(exposed_ports=(8000,))
    for machine in fleet.machines.values():
        machine.images = {**machine.images, tagged: image, pinned: image}
    container_id = await fleet.world.create(replicas=2)
    settings = 'settings || \'{"image": "registry.example/chat:1", "registry_provider": "other"}\''
    await change(fleet.world, f"UPDATE containers SET settings = {settings}")
    async with leading(fleet) as alive:
        await rounds(alive, container_id, 1)
        first = next(name for name, one in fleet.machines.items() if one.pulled)
        other = next(one for name, one in fleet.machines.items() if name != first)
        other.pruned.add(engine_ref(tagged))
        routed = await serving(alive, container_id, 2)
        assert machines_of(routed) == [(LOCAL_ENGINE, "simulated"), (SECOND, "second")]
        assert other.pulled == {engine_ref(pinned)}
        assert (await fleet.world.container(container_id)).image_ref == engine_ref(tagged)


@pytest.mark.parametrize("foreign", [LOCAL_ENGINE, SECOND])
async def test_an_image_runs_on_the_machines_that_it_is_built_for(fleet: Fleet, foreign: str) -> None:
    fleet.machines[foreign].architecture = "arm64"
    reference = "registry.example/chat:1"
    pinned = f"registry.example/chat@{engine_ref(reference)}"
    for machine in fleet.machines.values():
        image = SimulatedImage(exposed_ports=(8000,))
        machine.images = {**machine.images, reference: image, pinned: image}
        if machine.architecture == "arm64":
            machine.pruned.add(engine_ref(reference))
    await fleet.describe()
    async with leading(fleet) as alive:
        container_id = await fleet.world.create(replicas=2)
        await change(fleet.world, f"UPDATE containers SET settings = {CHAT_OF_A_REGISTRY}")
        routed = await serving(alive, container_id, 2)
        assert {one.engine for one in routed} == {LOCAL_ENGINE, SECOND} - {foreign}
        assert (await fleet.world.container(container_id)).failed_generation == 0
        # Where no machine is left that it is built for, it fails and says why.
        for machine in fleet.machines.values():
            machine.architecture = "arm64"
            machine.pruned.add(engine_ref(reference))
        other = await fleet.world.create()
        await change(
            fleet.world, f"UPDATE containers SET settings = {CHAT_OF_A_REGISTRY} WHERE id = '{other}'"
        )
        await rounds(alive, other, 5)
        row = await fleet.world.container(other)
        assert (row.state, row.reason) == ("FAILED", "image_architecture_mismatch")


@pytest.mark.parametrize("full", [LOCAL_ENGINE, SECOND])
async def test_a_machine_whose_disk_is_full_is_not_in_the_way_of_a_deployment(
    fleet: Fleet, full: str
) -> None:
    """The image is fetched first where there is most room, and that may be where there is none on the disk."""
    with_images_of_a_registry(fleet)
    engine = {LOCAL_ENGINE: fleet.local_engine, SECOND: fleet.second_engine}[full]

    async def refuse(call: str) -> None:
        if call == "ensure_image":
            raise ImageError("The machine has no disk space left.", code="disk_full")

    engine.before = refuse
    fleet.machines[full].pruned.add(engine_ref("registry.example/chat:1"))
    async with leading(fleet) as alive:
        container_id = await fleet.world.create(replicas=2)
        await change(fleet.world, f"UPDATE containers SET settings = {CHAT_OF_A_REGISTRY}")
        routed = await serving(alive, container_id, 2)
        assert {one.engine for one in routed} == {LOCAL_ENGINE, SECOND} - {full}
        assert (await fleet.world.container(container_id)).failed_generation == 0


async def test_what_an_engine_cannot_start_again_and_again_starts_elsewhere(fleet: Fleet) -> None:
    async def fail(call: str) -> None:
        if call == "start":
            raise EngineError("no space left on device")

    fleet.second_engine.before = fail
    fleet.world.machine.schedulable = False
    await fleet.describe()
    async with leading(fleet) as alive:
        container_id = await fleet.world.create()
        await rounds(alive, container_id, 2)
        assert machines_of(await fleet.world.replicas(container_id, "requested")) == [(SECOND, "second")]
        fleet.world.machine.schedulable = True
        await fleet.describe()
        assert machines_of(await serving(alive, container_id, 1)) == [(LOCAL_ENGINE, "simulated")]


@pytest.mark.long
async def test_where_there_is_no_other_machine_an_engine_that_fails_is_asked_again(fleet: Fleet) -> None:
    fails = True

    async def fail(call: str) -> None:
        if call == "start" and fails:
            raise EngineError("no space left on device")

    fleet.engines.remove(SECOND)
    fleet.local_engine.before = fail
    async with leading(fleet) as alive:
        container_id = await fleet.world.create()
        await rounds(alive, container_id, 10)
        [requested] = await fleet.world.replicas(container_id)
        assert (requested.state, requested.ended_badly) == ("requested", False)
        fails = False
        assert [one.id for one in await serving(alive, container_id, 1)] == [requested.id]


def with_images_of_a_registry(fleet: Fleet) -> None:
    reference = "registry.example/chat:1"
    pinned = f"registry.example/chat@{engine_ref(reference)}"
    for machine in fleet.machines.values():
        image = SimulatedImage(exposed_ports=(8000,))
        machine.images = {**machine.images, reference: image, pinned: image}


async def test_a_machine_that_does_not_say_who_it_is_holds_up_no_other(fleet: Fleet) -> None:
    """Most of its replicas are missing, and what its engine is made of cannot be asked: a GPU's driver hangs, say."""
    async with leading(fleet) as alive:
        container_id = await fleet.world.create(replicas=8)
        before = await serving(alive, container_id, 8)
        missing = {one.id for one in before if one.engine == SECOND}
        fleet.second_engine.hidden |= missing

        async def fail() -> list[NodeCapacity]:
            raise EngineError("nvidia-smi does not answer")

        fleet.second_engine.capacity = fail  # type: ignore[method-assign]
        dies = next(one for one in before if one.engine == LOCAL_ENGINE)
        fleet.world.machine.end(dies.id)
        await rounds(alive, container_id, 2)
        row = await fleet.world.container(container_id)
        assert (row.failed_passes, row.reason) == (0, "node_lost")
        after = await fleet.world.replicas(container_id)
        assert next(one for one in after if one.id == dies.id).state != "routed", "its end was seen"
        assert {one.id for one in after if one.missing_since is not None} == missing, (
            "and the others are doubted"
        )


async def test_no_container_is_given_up_because_an_engine_starts_nothing(fleet: Fleet) -> None:
    """It served, its process ended, and the next one cannot be started for longer than its health timeout."""
    fails = False

    async def fail(call: str) -> None:
        if call == "start" and fails:
            raise EngineError("no space left on device")

    fleet.engines.remove(SECOND)
    fleet.local_engine.before = fail
    async with leading(fleet) as alive:
        container_id = await fleet.world.create()
        [ended] = await serving(alive, container_id, 1)
        fails = True
        fleet.world.machine.end(ended.id)
        for _ in range(6):
            await alive.round(container_id)
            await change(
                fleet.world,
                "UPDATE containers SET unready_since = unready_since - interval '20 s'",
            )
            await change(fleet.world, "UPDATE replicas SET ended_at = ended_at - interval '20 s'")
        row = await fleet.world.container(container_id)
        assert (row.state, row.reason, row.failed_generation) == ("STARTING", "engine_error", 0)
        fails = False
        await serving(alive, container_id, 1)


async def test_a_local_image_runs_where_it_was_built(fleet: Fleet) -> None:
    fleet.second.images = {}
    async with leading(fleet) as alive:
        container_id = await fleet.world.create(replicas=3)
        assert machines_of(await serving(alive, container_id, 3)) == [(LOCAL_ENGINE, "simulated")] * 3


async def test_a_local_image_is_waited_for_while_a_machine_that_may_have_it_is_silent(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, the others' word that they have no such image made the deployment fail for good."""
    fleet.second.images = {}
    honest, answers = fleet.local_engine.ensure_image, False

    async def away_at_first(request: ImageRequest, on_progress: Callable[[PullProgress], None]) -> Image:
        if not answers:
            raise EngineError("It does not answer.")
        return await honest(request, on_progress)

    monkeypatch.setattr(fleet.local_engine, "ensure_image", away_at_first)
    async with leading(fleet) as alive:
        container_id = await fleet.world.create()
        await rounds(alive, container_id, 2)
        row = await fleet.world.container(container_id)
        assert (row.state, row.reason) == ("PENDING", "engine_error")
        answers = True
        await serving(alive, container_id, 1)


async def test_no_machine_chooses_what_another_starts_as_a_local_image(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first that is asked names an image of its choice: on another machine that may be anybody's."""
    fleet.engines = Engines({SECOND: fleet.second_engine, LOCAL_ENGINE: fleet.local_engine})
    for machine in fleet.machines.values():
        machine.images = {**machine.images, "private": SimulatedImage()}
    honest = fleet.second_engine.ensure_image

    async def another(request: ImageRequest, on_progress: Callable[[PullProgress], None]) -> Image:
        return replace(await honest(request, on_progress), engine_ref=engine_ref("private"))

    monkeypatch.setattr(fleet.second_engine, "ensure_image", another)
    async with leading(fleet) as alive:
        container_id = await fleet.world.create(replicas=2)
        await serving(alive, container_id, 2)
    image = (await fleet.world.container(container_id)).settings["image"]
    started = {one.image for one in fleet.world.machine.running() if one.container_id == container_id}
    assert started == {engine_ref(image)}


async def test_one_that_waits_for_the_machine_of_its_local_image_says_so(fleet: Fleet) -> None:
    fleet.second.images = {}
    fleet.world.machine.schedulable = False
    await fleet.describe()
    async with leading(fleet) as alive:
        container_id = await fleet.world.create()
        await rounds(alive, container_id, 2)
        row = await fleet.world.container(container_id)
        assert (row.state, row.reason) == ("PENDING", "no_capacity")
        assert row.message is not None
        assert row.message.startswith("Waits for a machine that has ")
        assert "it is a local image" in row.message


async def test_waiting_and_pulling_are_waited_for_and_what_fails_later_is_told(fleet: Fleet) -> None:
    fleet.world.machine.schedulable = False
    fleet.second.waits_s, fleet.second.tells_failures_later = 3600, True
    await fleet.describe()
    async with leading(fleet) as alive:
        container_id = await fleet.world.create()
        await rounds(alive, container_id, 2)
        [requested] = await fleet.world.replicas(container_id)
        assert (requested.state, requested.host) == ("requested", None)
        assert fleet.second.started_count == 1
        fleet.second.waits_s = 0
        fleet.second.find_a_place(requested.id)

        async def serves() -> bool:
            await alive.round(container_id)
            return bool(await fleet.world.replicas(container_id, "routed"))

        await eventually(serves, "it runs once it has found a place")
        assert fleet.second.started_count == 1, "nobody started it again meanwhile"
        wrong = await fleet.world.create("local/strict:latest", start_command="absent")

        async def failed() -> bool:
            await alive.round(wrong)
            return (await fleet.world.container(wrong)).state == "FAILED"

        await eventually(failed, "why it could not start is seen")
        assert (await fleet.world.container(wrong)).reason == "start_command_not_found"


@pytest.mark.long
async def test_a_machine_may_join_and_leave_while_the_controller_runs(fleet: Fleet) -> None:
    second = fleet.engines.remove(SECOND)
    assert second is not None
    async with fleet.world.database.transaction() as session:
        await forget_engine(session, SECOND)
    async with driven(fleet.world, fleet.engines):
        container_id = await fleet.world.create()

        async def serve(count: int) -> bool:
            return len(await fleet.world.replicas(container_id, "routed")) == count

        await eventually(lambda: serve(1), "it serves on the one machine")
        fleet.engines.add(SECOND, second)

        async def described() -> bool:
            async with fleet.world.database.reading() as session:
                return len(await list_nodes(session)) == 2

        await eventually(described, "the new machine is described")
        await change(fleet.world, "UPDATE containers SET desired_replicas = 2, reconcile_at = now()")
        await eventually(lambda: serve(2), "another replica serves")
        routed = await fleet.world.replicas(container_id, "routed")
        assert machines_of(routed) == [(LOCAL_ENGINE, "simulated"), (SECOND, "second")]
        # Its process ends there, and the controller hears of it from that engine.
        fleet.second.end(next(one.id for one in routed if one.engine == SECOND))

        async def replaced() -> bool:
            again = await fleet.world.replicas(container_id, "routed")
            return len(again) == 2 and {one.id for one in again} != {one.id for one in routed}

        await eventually(replaced, "another takes its place")


@pytest.mark.long
async def test_a_machine_that_hangs_holds_up_nobody_else(fleet: Fleet) -> None:
    """All its places are taken by calls that do not end."""
    hangs = asyncio.Event()

    async def hang(name: str) -> None:
        if name == "start":
            await hangs.wait()

    fleet.second_engine.before = hang
    async with driven(fleet.world, fleet.engines):
        many = [await fleet.world.create(replicas=2) for _ in range(8)]

        async def each_serves_here() -> bool:
            routed = [one for name in many for one in await fleet.world.replicas(name, "routed")]
            return {one.container_id for one in routed if one.engine == LOCAL_ENGINE} == set(many)

        await eventually(each_serves_here, "each serves on the other machine")
        assert not [
            one for name in many for one in await fleet.world.replicas(name, "routed") if one.engine == SECOND
        ]
        hangs.set()


@pytest.mark.long
async def test_within_thirty_seconds_of_a_machines_loss_its_replicas_are_replaced(fleet: Fleet) -> None:
    """The controller as it is deployed: nobody tells it of the loss, or of the return."""
    async with driven(fleet.world, fleet.engines):
        container_id = await fleet.world.create(replicas=2)

        async def serve_on_both() -> bool:
            routed = await fleet.world.replicas(container_id, "routed")
            return machines_of(routed) == [(LOCAL_ENGINE, "simulated"), (SECOND, "second")]

        await eventually(serve_on_both, "one on each machine")
        [lost] = [one for one in await fleet.world.replicas(container_id, "routed") if one.engine == SECOND]
        fleet.second.cut_off()
        fleet.world.failing[lost.id] = UNREACHABLE

        async def replaced() -> bool:
            routed = await fleet.world.replicas(container_id, "routed")
            return machines_of(routed) == [(LOCAL_ENGINE, "simulated")] * 2

        await eventually(replaced, "both on the machine that is left", timeout_s=30)
        assert fleet.running(container_id)["second"] == 1
        fleet.second.come_back()

        async def gone_there() -> bool:
            return fleet.running(container_id) == {"simulated": 2, "second": 0}

        await eventually(gone_there, "what was replaced is removed", timeout_s=30)

        async def ready() -> bool:
            async with fleet.world.database.reading() as session:
                return all(node.ready for node in await list_nodes(session))

        await eventually(ready, "and with that the machine is ready again", timeout_s=30)
        other = await fleet.world.create(replicas=2)

        async def taken_again() -> bool:
            routed = await fleet.world.replicas(other, "routed")
            return machines_of(routed) == [(LOCAL_ENGINE, "simulated"), (SECOND, "second")]

        await eventually(taken_again, "and the machine takes replicas again")
    none_twice(fleet)
