"""Sleep on real rows: what falls asleep and when, what wakes it, what that costs, and what everything else does to it."""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from reconciler_support import GATEWAY, KEYRING, SETTINGS, Life, WatchedEngine, World, life, new_world
from sqlalchemy import select, text
from test_renewals import END_SOON, PRICE, balance, change, charged, leave_credit, query, renew_all, rounds

from moorage.autoscaling.sleep.reconciler import SleepReconciler
from moorage.catalog.siblings import PriceRange
from moorage.containers import service
from moorage.containers.drafts.service import apply_draft, save_draft
from moorage.containers.rollout import Rollout
from moorage.containers.schemas import SettingsPatch
from moorage.containers.shown import container_json
from moorage.containers.sleep.models import SleepRow
from moorage.containers.sleep.service import Woken, fall_asleep, stay_awake, wake
from moorage.containers.states import Strategy, TrialStep
from moorage.containers.trial import trial_step
from moorage.gateway.repository import RouteReport, read_table, register_gateway, report
from moorage.kit.clock import system_clock
from moorage.kit.database import Database, database_now
from moorage.kit.errors import ConflictError, InsufficientCreditError
from moorage.kit.ids import ContainerId, GatewayId
from moorage.kit.settings import Settings
from moorage.reconcile.lease import LeaseKeeper
from moorage.telemetry.metrics.repository import store_samples
from moorage.telemetry.metrics.samples import Sample

IDLE_S = 60


@pytest.fixture
async def world(database: Database) -> World:
    return await new_world(database)


@pytest.fixture
async def controller(world: World) -> AsyncIterator[Life]:
    async with life(world, WatchedEngine(world.machine)) as controller:
        yield controller


async def deploy(world: World, controller: Life, image: str = "local/chat:latest", replicas: int = 1) -> str:
    container_id = await world.create(image, replicas=replicas, sleep_after_s=IDLE_S)
    await rounds(world, controller, container_id)
    assert (await world.container(container_id)).state == "RUNNING"
    return container_id


async def sleep(world: World, controller: Life, container_id: str) -> None:
    async with world.database.transaction() as session:
        assert await fall_asleep(session, container_id, IDLE_S)
    # The gateway's turn comes first: replicas go when it has let go of them.
    await world.gateway_step()
    await rounds(world, controller, container_id)
    assert await world.nothing_left(container_id), [
        (one.slot, one.state, one.reason, one.port_released_at) for one in await world.replicas(container_id)
    ]


async def rouse(world: World, container_id: str) -> Woken:
    async with world.database.transaction() as session:
        return await wake(
            session, container_id, "key_test", by_request=True, settings=SETTINGS, clock=system_clock
        )


async def activities(world: World, container_id: str) -> list[str]:
    found = await query(
        world, f"SELECT kind FROM activities WHERE container_id = '{container_id}' ORDER BY at, id"
    )
    return [str(kind) for (kind,) in found]


async def test_it_sleeps_without_replicas_and_wakes_as_it_was(world: World, controller: Life) -> None:
    container_id = await deploy(world, controller, replicas=2)
    before = await world.container(container_id)
    await sleep(world, controller, container_id)
    row = await world.container(container_id)
    assert (row.state, row.state_since) == ("RUNNING", before.state_since)
    shown = container_json(row, 0, PriceRange(PRICE, PRICE), Settings(home=Path("/nonexistent")))
    assert (shown.asleep, shown.replicas.desired, shown.replicas.ready) == (True, 0, 0)
    async with world.database.transaction() as session:
        assert (await read_table(session)).routes[ContainerId(container_id)].asleep

    assert (await rouse(world, container_id)).anything
    assert not (await rouse(world, container_id)).anything
    await controller.round(container_id)
    row = await world.container(container_id)
    assert (row.state, row.asleep_since) == ("RUNNING", None)
    assert row.woken_at is not None, "shown as asleep until it serves"
    world.machine.health_status = 503
    for _ in range(3):
        await controller.round(container_id)
    progress = (await world.container(container_id)).progress
    assert progress is not None, "whoever waits for it sees how far it is"
    assert (progress["phase"], progress["limit_s"]) == ("start", 60)
    world.machine.health_status = 200
    await rounds(world, controller, container_id)
    row = await world.container(container_id)
    assert (row.state, row.woken_at, row.generation) == ("RUNNING", None, before.generation)
    assert len(await world.replicas(container_id, "routed")) == 2
    assert row.image_ref == before.image_ref
    assert (await activities(world, container_id))[-3:] == [
        "container.sleep",
        "container.wake",
        "container.awake",
    ]
    await balance(world)


@pytest.mark.long
async def test_an_hour_asleep_costs_nothing_and_a_paid_one_is_used_up(world: World, controller: Life) -> None:
    container_id = await deploy(world, controller)
    assert await charged(world) == PRICE
    await sleep(world, controller, container_id)
    # Woken within the hour: that one is used.
    await rouse(world, container_id)
    await rounds(world, controller, container_id)
    assert await charged(world) == PRICE
    await sleep(world, controller, container_id)
    await change(world, "UPDATE hours SET expires_at = now() - interval '1 second' WHERE state = 'paid'")
    await change(world, END_SOON)
    await renew_all(world)
    await rounds(world, controller, container_id)
    held = (await balance(world)).held_microusd
    assert (await charged(world), held) == (PRICE, 0)
    # The next one is bought when it serves again, not before.
    await rouse(world, container_id)
    assert (await balance(world)).held_microusd == PRICE
    assert await charged(world) == PRICE
    await rounds(world, controller, container_id)
    assert await charged(world) == 2 * PRICE
    await balance(world)


@pytest.mark.long
async def test_without_credit_it_sleeps_on(world: World, controller: Life) -> None:
    container_id = await deploy(world, controller)
    await sleep(world, controller, container_id)
    await change(world, "UPDATE hours SET expires_at = now() - interval '1 second', due_at = NULL")
    await leave_credit(world, PRICE - 1)
    with pytest.raises(InsufficientCreditError):
        await rouse(world, container_id)
    row = await world.container(container_id)
    assert row.asleep_since is not None
    assert row.woken_at is None
    await balance(world)


@pytest.mark.long
async def test_a_wake_that_fails_fails_the_container_with_its_verdict(world: World, controller: Life) -> None:
    container_id = await deploy(world, controller)
    await sleep(world, controller, container_id)
    world.machine.images["local/chat:latest"] = world.machine.images["local/crash:latest"]
    try:
        await rouse(world, container_id)
        await rounds(world, controller, container_id, 8)
    finally:
        world.machine.images["local/chat:latest"] = type(world.machine.images["local/crash:latest"])(
            exposed_ports=(8000,)
        )
    row = await world.container(container_id)
    assert (row.state, row.reason, row.woken_at) == ("FAILED", "exited", None)


@pytest.mark.long
@pytest.mark.parametrize("waking", [False, True])
async def test_stop_start_restart_and_delete(world: World, controller: Life, waking: bool) -> None:
    container_id = await deploy(world, controller)
    for change_it in (service.stop_container, service.restart_container, service.delete_container):
        await sleep(world, controller, container_id)
        if waking:
            await rouse(world, container_id)
        await world.ask(change_it, container_id)
        if change_it is service.stop_container:
            row = await world.container(container_id)
            assert (row.asleep_since, row.woken_at) == (None, None)
            with pytest.raises(ConflictError):
                await rouse(world, container_id)
            await rounds(world, controller, container_id)
            assert (await world.container(container_id)).state == "STOPPED"
            await world.ask(service.start_container, container_id)
        await rounds(world, controller, container_id, 8)
        if change_it is not service.delete_container:
            row = await world.container(container_id)
            assert (row.state, row.asleep_since, row.woken_at) == ("RUNNING", None, None)
            assert len(await world.replicas(container_id, "routed")) == 1
    assert (await world.container(container_id)).deleted_at is not None
    await balance(world)


async def test_a_request_that_came_at_the_last_moment_is_served_and_keeps_it_awake(
    world: World, controller: Life
) -> None:
    container_id = await deploy(world, controller)
    (replica,) = await world.replicas(container_id, "routed")
    async with world.database.transaction() as session:
        assert await fall_asleep(session, container_id, IDLE_S)
    # The gateway has let go of it, but for one request.
    async with world.database.transaction() as session:
        await report(session, GATEWAY, {replica.id: RouteReport(draining=True, in_flight=1)})
    await controller.reconciler.reconcile(container_id, controller.lease)
    assert [one.id for one in await world.replicas(container_id, "routed")] == [replica.id]
    await tick(world)
    row = await world.container(container_id)
    assert row.asleep_since is None
    await rounds(world, controller, container_id)
    assert [one.id for one in await world.replicas(container_id, "routed")] == [replica.id]
    assert (await world.container(container_id)).woken_at is None


async def test_a_request_that_nobody_pays_for_does_not_keep_it_awake_for_ever(
    world: World, controller: Life
) -> None:
    """A stream that its client keeps open, of an organization without credit."""
    container_id = await deploy(world, controller)
    (replica,) = await world.replicas(container_id, "routed")
    async with world.database.transaction() as session:
        assert await fall_asleep(session, container_id, IDLE_S)
    await change(world, "UPDATE hours SET expires_at = now() - interval '1 second', due_at = NULL")
    await leave_credit(world, PRICE - 1)
    async with world.database.transaction() as session:
        await report(session, GATEWAY, {replica.id: RouteReport(draining=True, in_flight=1)})
    await controller.reconciler.reconcile(container_id, controller.lease)
    await tick(world)
    assert [one.id for one in await world.replicas(container_id, "routed")] == [replica.id]
    assert (await world.container(container_id)).asleep_since is not None
    await change(world, "UPDATE containers SET asleep_since = asleep_since - interval '61 s'")
    await controller.reconciler.reconcile(container_id, controller.lease)
    assert [one.id for one in await world.replicas(container_id, "draining")] == [replica.id]
    await rounds(world, controller, container_id)
    assert await world.nothing_left(container_id)
    await balance(world)


@pytest.mark.long
@pytest.mark.parametrize("strategy", list(Strategy))
async def test_a_draft_that_is_applied_to_it_wakes_it_with_the_new_settings(
    world: World, controller: Life, strategy: Strategy
) -> None:
    container_id = await deploy(world, controller)
    await sleep(world, controller, container_id)
    async with world.database.transaction() as session:
        patch = SettingsPatch.model_validate({"category": "new"})
        await save_draft(session, world.actor, container_id, patch, keyring=KEYRING, settings=SETTINGS)
        await apply_draft(
            session, world.actor, container_id, keyring=KEYRING, settings=SETTINGS, strategy=strategy
        )
    await rounds(world, controller, container_id, 12)
    row = await world.container(container_id)
    assert (row.state, row.asleep_since, row.woken_at) == ("RUNNING", None, None)
    assert (row.settings["category"], row.fallback, row.version) == ("new", None, 2)
    assert len(await world.replicas(container_id, "routed")) == 1
    await balance(world)


@pytest.mark.parametrize("strategy", [Strategy.ROLLING, Strategy.CANARY])
@pytest.mark.long
async def test_a_draft_that_is_applied_while_it_wakes_has_nothing_to_be_beside(
    world: World, controller: Life, strategy: Strategy
) -> None:
    container_id = await deploy(world, controller)
    await sleep(world, controller, container_id)
    assert (await rouse(world, container_id)).anything
    async with world.database.transaction() as session:
        patch = SettingsPatch.model_validate({"category": "new"})
        await save_draft(session, world.actor, container_id, patch, keyring=KEYRING, settings=SETTINGS)
        await apply_draft(
            session, world.actor, container_id, keyring=KEYRING, settings=SETTINGS, strategy=strategy
        )
    rollout = Rollout.from_json((await world.container(container_id)).rollout)
    assert rollout is not None
    assert rollout.strategy is Strategy.REPLACE


async def test_requests_that_wake_it_while_a_draft_is_applied_wait_for_the_new_settings(
    world: World, controller: Life
) -> None:
    container_id = await deploy(world, controller)
    await sleep(world, controller, container_id)
    async with world.database.transaction() as session:
        patch = SettingsPatch.model_validate({"category": "new"})
        await save_draft(session, world.actor, container_id, patch, keyring=KEYRING, settings=SETTINGS)
        await apply_draft(session, world.actor, container_id, keyring=KEYRING, settings=SETTINGS)
    assert (await rouse(world, container_id)).anything
    steps = set()
    for _ in range(20):
        await controller.round(container_id)
        row = await world.container(container_id)
        if row.woken_at is None:
            break
        steps.add(trial_step(row))
    assert TrialStep.STOP in steps
    assert (row.version, len(await world.replicas(container_id, "routed"))) == (2, 1), "held until it serves"
    await balance(world)


@pytest.mark.long
async def test_nothing_is_undone_by_a_pass_that_began_before_the_wake(world: World, controller: Life) -> None:
    container_id = await deploy(world, controller)
    async with world.database.transaction() as session:
        await fall_asleep(session, container_id, IDLE_S)
    await world.gateway_step()
    load = controller.reconciler._load

    async def woken_meanwhile(key: str) -> object:
        loaded = await load(key)
        await rouse(world, container_id)
        return loaded

    controller.reconciler._load = woken_meanwhile  # type: ignore[method-assign, assignment]
    await controller.reconciler.reconcile(container_id, controller.lease)
    controller.reconciler._load = load  # type: ignore[method-assign]
    assert (await world.container(container_id)).woken_at is not None
    await rounds(world, controller, container_id, 8)
    row = await world.container(container_id)
    assert (row.state, row.woken_at) == ("RUNNING", None)
    assert len(await world.replicas(container_id, "routed")) == 1
    await balance(world)


async def tick(world: World) -> None:
    await change(world, "UPDATE leases SET expires_at = now() - interval '1 second' WHERE name = 'sleep'")
    lease = await LeaseKeeper(world.database, "sleep", "test", system_clock).acquire()
    assert lease is not None
    await SleepReconciler(world.database, system_clock).reconcile("all", lease)


class Reports:
    """What gateways said, up to now."""

    def __init__(self, world: World, container_id: str, now: datetime) -> None:
        self.world, self.container_id, self.now = world, container_id, now.replace(microsecond=0)

    async def say(self, gateway: str, since_s: int, until_s: int = 0, asked_s_ago: int | None = None) -> None:
        samples = []
        if asked_s_ago is not None:
            at = self.now - timedelta(seconds=asked_s_ago)
            samples = [Sample(self.container_id, gateway, at, 0, 0, 1, 0, 5)]
        first, last = (self.now - timedelta(seconds=one) for one in (since_s, until_s))
        async with self.world.database.transaction() as session:
            await store_samples(session, gateway, samples, first, last)

    async def slept(self) -> bool:
        await tick(self.world)
        row = await self.world.container(self.container_id)
        asleep = row.asleep_since is not None
        await change(self.world, "UPDATE containers SET asleep_since = NULL")
        await change(self.world, "DELETE FROM gateway_reports")
        await change(self.world, "DELETE FROM container_samples")
        return asleep


@pytest.fixture
async def reports(world: World, controller: Life) -> Reports:
    container_id = await deploy(world, controller)
    await change(world, "UPDATE containers SET state_since = now() - interval '1 hour'")
    await change(world, "UPDATE replicas SET routed_at = now() - interval '1 hour'")
    async with world.database.reading() as session:
        return Reports(world, container_id, await database_now(session))


async def test_what_idleness_is(reports: Reports) -> None:
    await reports.say(GATEWAY, 600)
    assert await reports.slept()
    await reports.say(GATEWAY, 600, asked_s_ago=IDLE_S - 5)
    assert not await reports.slept(), "something was asked of it"
    await reports.say(GATEWAY, 600, asked_s_ago=IDLE_S + 5)
    assert await reports.slept()
    await reports.say(GATEWAY, 600, until_s=20)
    assert not await reports.slept(), "a gateway that has not reported is not idleness"
    await reports.say(GATEWAY, IDLE_S - 10)
    assert not await reports.slept(), "nobody knows what was before"
    assert not await reports.slept(), "nobody reports at all"


@pytest.mark.long
async def test_every_gateway_has_to_say_so(reports: Reports) -> None:
    other = GatewayId("gtw_other")
    async with reports.world.database.transaction() as session:
        await register_gateway(session, other)
    await reports.say(GATEWAY, 600)
    assert not await reports.slept(), "the other has never said anything"
    await reports.say(GATEWAY, 600)
    await reports.say(other, 600, asked_s_ago=10)
    assert not await reports.slept()
    await reports.say(GATEWAY, 600)
    await reports.say(other, 600)
    assert await reports.slept()


@pytest.mark.long
async def test_what_is_new_changes_or_never_sleeps_does_not_sleep(reports: Reports) -> None:
    world = reports.world
    await change(world, "UPDATE replicas SET routed_at = now() - interval '30 seconds'")
    await reports.say(GATEWAY, 600)
    assert not await reports.slept(), "it has just begun to serve"
    await change(world, "UPDATE replicas SET routed_at = now() - interval '1 hour'")
    await change(world, "UPDATE containers SET trial_settings = settings")
    await reports.say(GATEWAY, 600)
    assert not await reports.slept(), "an update is under way"
    await change(world, "UPDATE containers SET trial_settings = NULL, failed_generation = generation")
    await reports.say(GATEWAY, 600)
    assert not await reports.slept(), "its last restart failed, so it could not wake"
    await change(world, "UPDATE containers SET failed_generation = 0")
    await change(world, "UPDATE containers SET trial_settings = NULL, settings = settings - 'sleep_after_s'")
    await reports.say(GATEWAY, 600)
    assert not await reports.slept(), "it never sleeps"


@pytest.mark.long
async def test_what_was_saved_is_the_time_asleep_that_was_not_paid_for(
    world: World, controller: Life
) -> None:
    container_id = await deploy(world, controller)
    await sleep(world, controller, container_id)
    async with world.database.reading() as session:
        row = (await session.execute(select(SleepRow))).scalar_one()
        expires = (await session.execute(text("SELECT max(expires_at) FROM hours"))).scalar_one()
    assert (row.paid_until, row.replicas, row.price_per_hour_microusd) == (expires, 1, PRICE)
    async with world.database.transaction() as session:
        await stay_awake(session, container_id)
    async with world.database.reading() as session:
        row = (await session.execute(select(SleepRow))).scalar_one()
    assert row.woken_at is not None
