"""Replicas that vanish: what is doubted and for how long, what is charged meanwhile, and that every state has a way out."""

import asyncio
from datetime import timedelta

import pytest
from reconciler_support import GATEWAY, KEYRING, SETTINGS, Life, WatchedEngine, World, life, new_world
from sqlalchemy import text
from test_renewals import charged, leave_credit, renew_all

from moorage.catalog.repository import find_instance_type
from moorage.containers import service
from moorage.containers.reconciler.doubt_repository import Doubt, list_doubts, say_gone
from moorage.containers.repository import ready_counts
from moorage.engines.base import LOCAL_ENGINE
from moorage.gateway.liveness import Health
from moorage.gateway.repository import RouteReport, register_gateway, report
from moorage.kit.database import Database
from moorage.kit.ids import GatewayId
from moorage.kit.pagination import PageRequest
from moorage.ledger.check_repository import find_differences
from moorage.notifications.repository import list_outbox

ELSEWHERE = GatewayId("gtw_elsewhere")


@pytest.fixture
async def world(database: Database) -> World:
    return await new_world(database)


async def change(world: World, statement: str) -> None:
    async with world.database.transaction() as session:
        await session.execute(text(statement))


async def serving(alive: Life, replicas: int = 4) -> tuple[str, set[str]]:
    container_id = await alive.world.create(replicas=replicas)
    return container_id, await until_serving(alive, container_id, replicas)


async def until_serving(alive: Life, container_id: str, replicas: int = 4) -> set[str]:
    for _ in range(12):
        await alive.round(container_id)
        routed = {
            row.id for row in await alive.world.replicas(container_id, "routed") if row.missing_since is None
        }
        row = await alive.world.container(container_id)
        if len(routed) == replicas and (row.state, row.reason) == ("RUNNING", None):
            return routed
        # The pause after a loss is a second of the database's clock.
        await change(alive.world, "UPDATE replicas SET ended_at = ended_at - interval '2 s'")
    raise AssertionError(f"not {replicas} serve: {row.state} {row.message}")


async def doubts(world: World) -> list[Doubt]:
    async with world.database.reading() as session:
        return await list_doubts(session)


async def sweep(alive: Life) -> None:
    await alive.reconciler._sweep._compare(LOCAL_ENGINE, alive.lease)


async def wait_is_over(world: World) -> None:
    await change(world, "UPDATE machine_doubts SET since = since - interval '15 minutes'")


async def test_most_missing_at_once_is_doubted_told_once_and_believed_when_they_are_back(
    world: World,
) -> None:
    engine = WatchedEngine(world.machine)
    async with life(world, engine) as alive:
        container_id, before = await serving(alive)
        engine.hidden = set(sorted(before)[:3])
        for _ in range(3):
            await alive.round(container_id)
        row = await world.container(container_id)
        assert {row.id for row in await world.replicas(container_id)} == before, "nothing is replaced"
        assert (row.state, row.reason, row.failed_passes) == ("RUNNING", "node_lost", 0)
        assert "3 of 4 replicas on the machine simulated disappeared" in (row.message or "")
        [doubt] = await doubts(world)
        assert (doubt.node, doubt.missing, doubt.expected) == ("simulated", 3, 4)
        async with world.database.reading() as session:
            assert await ready_counts(session, [container_id]) == {container_id: 1}
            mails = await list_outbox(session, KEYRING, PageRequest(10, None))
        told = [mail for mail in mails if mail.subject == "Replicas are missing on simulated"]
        assert [mail.to for mail in told] == [SETTINGS.operator_email]
        await sweep(alive)
        assert await doubts(world), "the sweep does not end what is still missing"
        engine.hidden = set()
        await alive.round(container_id)
        await sweep(alive)
        row = await world.container(container_id)
        assert (row.state, row.reason) == ("RUNNING", None)
        assert {row.id for row in await world.replicas(container_id, "routed")} == before
        assert await doubts(world) == []
        assert [row.missing_since for row in await world.replicas(container_id)] == [None] * 4


async def test_all_missing_is_not_shown_as_serving_and_does_not_fail_meanwhile(world: World) -> None:
    engine = WatchedEngine(world.machine)
    async with life(world, engine) as alive:
        container_id, before = await serving(alive, 3)
        engine.hidden = before
        await alive.round(container_id)
        row = await world.container(container_id)
        assert (row.state, row.reason, row.unready_since) == ("STARTING", "node_lost", None)
        await wait_is_over(world)
        engine.hidden = set()
        for replica_id in before:
            world.machine.lose(replica_id)
        assert not await until_serving(alive, container_id, 3) & before


async def test_doubt_ends_with_its_time(world: World) -> None:
    async with life(world, WatchedEngine(world.machine)) as alive:
        container_id, before = await serving(alive)
        for replica_id in sorted(before)[:3]:
            world.machine.lose(replica_id)
        await alive.round(container_id)
        assert len(await world.replicas(container_id, "routed")) == 4
        await wait_is_over(world)
        after = await until_serving(alive, container_id)
        assert len(after & before) == 1
        await sweep(alive)
        assert await doubts(world) == []


async def test_doubt_ends_with_the_operators_word(world: World) -> None:
    async with life(world, WatchedEngine(world.machine)) as alive:
        container_id, before = await serving(alive)
        for replica_id in before:
            world.machine.lose(replica_id)
        await alive.round(container_id)
        async with world.database.transaction() as session:
            assert await say_gone(session, "elsewhere") is None
            said = await say_gone(session, "simulated")
        assert said is not None
        assert said.gone_at is not None
        assert (await alive.reconciler.due(10)).keys == [container_id]
        assert not await until_serving(alive, container_id) & before


@pytest.mark.parametrize("wish", [service.stop_container, service.delete_container])
async def test_doubt_is_never_in_the_way_of_stop_and_delete(world: World, wish: object) -> None:
    async with life(world, WatchedEngine(world.machine)) as alive:
        container_id, before = await serving(alive)
        for replica_id in sorted(before)[:3]:
            world.machine.lose(replica_id)
        await alive.round(container_id)
        assert await doubts(world)
        await world.ask(wish, container_id)  # type: ignore[arg-type]
        for _ in range(8):
            await alive.round(container_id)
        assert await world.nothing_left(container_id)
        row = await world.container(container_id)
        assert row.deleted_at is not None or row.state == "STOPPED"
        await sweep(alive)
        assert await doubts(world) == []


async def test_another_engine_cannot_have_them_so_nobody_waits(world: World) -> None:
    """Wiped, or a restore on a new machine: the engine's identity is another one."""
    async with life(world, WatchedEngine(world.machine)) as alive:
        container_id, before = await serving(alive)
        world.machine.wipe()
        assert not await until_serving(alive, container_id) & before
        assert await doubts(world) == []


async def test_a_machine_that_is_gone_with_its_name_is_waited_for_in_bounds(world: World) -> None:
    """Rows of before engines had identities, on a machine of another name."""
    async with life(world, WatchedEngine(world.machine)) as alive:
        container_id, before = await serving(alive)
        await change(world, "UPDATE replicas SET engine_identity = NULL")
        world.machine.wipe()
        world.machine.name = "another"
        await alive.reconciler._sweep.refresh_nodes(LOCAL_ENGINE, alive.lease)
        await alive.round(container_id)
        assert [doubt.node for doubt in await doubts(world)] == ["simulated"]
        await wait_is_over(world)
        assert not await until_serving(alive, container_id) & before
        assert {row.node for row in await world.replicas(container_id, "routed")} == {"another"}


async def test_where_nothing_listens_any_more_nobody_waits(world: World) -> None:
    async with life(world, WatchedEngine(world.machine)) as alive:
        container_id, before = await serving(alive)
        for replica_id in before:
            world.machine.lose(replica_id)
            world.failing[replica_id] = Health("refused", None, 0)
        await world.gateway_step()
        assert not await until_serving(alive, container_id) & before
        assert await doubts(world) == []


async def test_nothing_is_charged_for_what_is_missing_and_what_comes_back_is_paid_again(world: World) -> None:
    engine = WatchedEngine(world.machine)
    async with life(world, engine) as alive:
        container_id, before = await serving(alive)
        price = await _price(world)
        assert await charged(world) == 4 * price
        engine.hidden = set(sorted(before)[:3])
        await alive.round(container_id)
        await change(world, "UPDATE hours SET due_at = now() WHERE state = 'paid'")
        await renew_all(world)
        assert await charged(world) == 5 * price, "only the one that is there is renewed"
        await change(world, "UPDATE hours SET expires_at = now(), due_at = now() WHERE due_at = expires_at")
        await renew_all(world)
        assert await charged(world) == 5 * price
        engine.hidden = set()
        await alive.round(container_id)
        assert {row.id for row in await world.replicas(container_id, "routed")} == before
        assert await charged(world) == 8 * price, "from now on they are paid for again"
        await renew_all(world)
        assert await charged(world) == 8 * price
        async with world.database.reading() as session:
            assert await find_differences(session) == []


async def test_what_comes_back_and_cannot_be_paid_drains(world: World) -> None:
    engine = WatchedEngine(world.machine)
    async with life(world, engine) as alive:
        container_id, before = await serving(alive, 3)
        engine.hidden = set(before)
        await alive.round(container_id)
        await change(world, "UPDATE hours SET expires_at = now(), due_at = now() WHERE state = 'paid'")
        await renew_all(world)
        price = await _price(world)
        await leave_credit(world, price)
        engine.hidden = set()
        for _ in range(6):
            await alive.round(container_id)
        assert len(await world.replicas(container_id, "routed")) == 1
        assert await charged(world) == 4 * price
        async with world.database.reading() as session:
            assert await find_differences(session) == []


async def test_a_gateway_that_is_gone_holds_up_no_delete_and_keeps_its_ports(world: World) -> None:
    """As after a restore on a new machine, which knows nothing of the gateway of the old one."""
    async with life(world, WatchedEngine(world.machine)) as alive:
        container_id, before = await serving(alive, 1)
        async with world.database.transaction() as session:
            await register_gateway(session, ELSEWHERE)
            held = dict.fromkeys(before, RouteReport(draining=False, in_flight=0))
            await report(session, ELSEWHERE, held)
        await world.ask(service.delete_container, container_id)
        drain_limit = timedelta(seconds=SETTINGS.drain_timeout_s + 1)
        await alive.round(container_id)
        await change(world, f"UPDATE replicas SET draining_at = now() - interval '{drain_limit.seconds} s'")
        for _ in range(4):
            await alive.round(container_id)
        assert [row.state for row in await world.replicas(container_id)] == ["collected"]
        await change(world, "UPDATE replicas SET ended_at = now() - interval '61 s'")
        for _ in range(2):
            await alive.round(container_id)
        assert (await world.container(container_id)).deleted_at is not None
        [row] = await world.replicas(container_id)
        assert (row.state, row.port_released_at) == ("removed", None), "that gateway may still send to it"
        async with world.database.transaction() as session:
            await session.execute(text("DELETE FROM gateways WHERE id = :id"), {"id": ELSEWHERE})
        await world.gateway_step()
        assert await world.nothing_left(container_id)


async def test_a_port_is_free_only_when_every_gateway_has_read_that_its_replica_ended(world: World) -> None:
    """A gateway that read of a replica just before it ended may set it up just after."""
    async with life(world, WatchedEngine(world.machine)) as alive:
        container_id = await world.create()
        async with asyncio.timeout(30):
            while not (found := await world.replicas(container_id, "ready")):
                await alive.reconciler.reconcile(container_id, alive.lease)
                await alive.finish_operations()
        [ready] = found
        world.machine.end(ready.id)
        await world.ask(service.stop_container, container_id)
        for _ in range(4):
            await alive.reconciler.reconcile(container_id, alive.lease)
            await alive.finish_operations()
            await world.collector_step()
            await alive.reconciler._sweep.release_ports(alive.lease)
        [row] = await world.replicas(container_id)
        assert (row.state, row.port_released_at) == ("removed", None)
        async with world.database.transaction() as session:
            # It set up what it had read, and says so.
            await report(session, GATEWAY, {row.id: RouteReport(draining=False, in_flight=0)})
            await session.execute(text("UPDATE gateways SET seen_at = clock_timestamp()"))
        await alive.reconciler._sweep.release_ports(alive.lease)
        [row] = await world.replicas(container_id)
        assert row.port_released_at is None
        await world.gateway_step()
        assert await world.nothing_left(container_id)


async def _price(world: World) -> int:
    async with world.database.reading() as session:
        instance_type = await find_instance_type(session, "cpu-nano")
    assert instance_type is not None
    return instance_type.price_per_hour_microusd
