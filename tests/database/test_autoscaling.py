"""The autoscaling reconciler on real rows: demand in, replicas and reasons out."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise

import pytest
from reconciler_support import GATEWAY, World, driven, eventually, new_world
from reconciler_support import WatchedEngine as Engine
from sqlalchemy import func, select, text, update

from moorage.autoscaling import repository, service
from moorage.autoscaling.comparison import compare
from moorage.autoscaling.decide import Decision, State
from moorage.autoscaling.models import AutoscalingDecisionRow
from moorage.autoscaling.reconciler import Autoscaler
from moorage.autoscaling.replay_service import read_question
from moorage.autoscaling.schemas import ScaleRequest
from moorage.containers.models import ActivityRow, ContainerRow
from moorage.containers.service import start_container, stop_container
from moorage.gateway.repository import forget_gateway, register_gateway
from moorage.kit.clock import system_clock
from moorage.kit.database import Database
from moorage.kit.errors import InvalidInputError, LeaseLostError
from moorage.kit.ids import GatewayId
from moorage.reconcile.lease import Lease, LeaseKeeper
from moorage.telemetry.metrics.repository import store_samples
from moorage.telemetry.metrics.samples import Sample

OTHER = GatewayId("gtw_other")
START = 1_800_000_000
"""Ticks take the second they are about as an argument, so a test needs no clock."""


@pytest.fixture
async def world(database: Database) -> World:
    return await new_world(database)


class Town:
    """One autoscaling container that serves, and gateways that report what the test says."""

    def __init__(self, world: World, container_id: str, lease: Lease) -> None:
        self.world, self.container_id, self.lease = world, container_id, lease
        self.autoscaler = Autoscaler(world.database, system_clock)
        self.second = START

    async def report(self, in_flight: int, seconds: int, gateway: str = GATEWAY) -> None:
        first = self.second + 1
        times = [datetime.fromtimestamp(first + i, UTC) for i in range(seconds)]
        samples = [Sample(self.container_id, gateway, at, in_flight, 0, 1, 0, 5) for at in times if in_flight]
        async with self.world.database.transaction() as session:
            await store_samples(session, gateway, samples, times[0], times[-1])

    async def play(self, in_flight: int, seconds: int, *, gateways: tuple[str, ...] = (GATEWAY,)) -> None:
        """Demand for some seconds, each gateway with the same, and the ticks that see it."""
        for _ in range(0, seconds, 2):
            for gateway in gateways:
                await self.report(in_flight, 2, gateway)
            self.second += 2
            await self.autoscaler.tick(self.second, self.lease)

    async def replicas(self) -> int:
        return (await self.world.container(self.container_id)).desired_replicas

    async def decisions(self) -> list[AutoscalingDecisionRow]:
        row = AutoscalingDecisionRow
        async with self.world.database.transaction() as session:
            found = await session.execute(
                select(row).where(row.container_id == self.container_id).order_by(row.at)
            )
            return list(found.scalars())


async def new_town(world: World, **policy: int) -> Town:
    container_id = await world.create()
    wanted = {"min_replicas": 1, "max_replicas": 4} | policy
    async with world.database.transaction() as session:
        await service.change_scaling(session, world.actor, container_id, ScaleRequest(**wanted))
        await session.execute(
            update(ContainerRow).where(ContainerRow.id == container_id).values(state="RUNNING")
        )
    return Town(world, container_id, await leader(world))


async def leader(world: World) -> Lease:
    """A lease that lasts, because nobody renews it here."""
    lease = await LeaseKeeper(world.database, "autoscaling", "test", system_clock).acquire()
    assert lease is not None
    lease.deadline_s = float("inf")
    async with world.database.transaction() as session:
        await session.execute(text("UPDATE leases SET expires_at = now() + interval '1 hour'"))
    return lease


async def test_up_within_four_seconds_and_down_over_the_delay(world: World) -> None:
    town = await new_town(world, scale_down_delay_s=20)
    await town.play(0, 4)
    await town.play(10, 4)
    assert await town.replicas() > 1, "asked for within 4 s of overload"
    await town.play(10, 60)
    assert await town.replicas() == 4
    await town.play(0, 40)
    assert await town.replicas() == 1
    decisions = await town.decisions()
    assert decisions[0].replicas == 1
    assert {row.limited_by for row in decisions} >= {"scale_down_delay", "min_replicas"}
    for before, after in pairwise(decisions):
        same = (before.replicas, before.limited_by) == (after.replicas, after.limited_by)
        assert not same or before.wanted != after.wanted, "equal decisions are one"
    busiest = max(decisions, key=lambda row: row.inputs["stable_mean"])
    assert busiest.inputs["policy"]["max_replicas"] == 4
    async with world.database.transaction() as session:
        kinds = select(func.count()).select_from(ActivityRow).where(ActivityRow.kind == "container.autoscale")
        changes = sum(row.replicas != row.replicas_before for row in decisions)
        assert (await session.execute(kinds)).scalar_one() == changes >= 2


async def test_gateways_add_up(world: World) -> None:
    town = await new_town(world)
    async with world.database.transaction() as session:
        await register_gateway(session, OTHER)
    await town.play(3, 60)
    assert await town.replicas() == 2
    await town.play(3, 60, gateways=(GATEWAY, OTHER))
    assert await town.replicas() == 3


@pytest.mark.long
async def test_a_silent_gateway_keeps_its_value_until_it_is_gone(world: World) -> None:
    town = await new_town(world, scale_down_delay_s=10)
    async with world.database.transaction() as session:
        await register_gateway(session, OTHER)
    await town.play(5, 60, gateways=(GATEWAY, OTHER))
    busy = await town.replicas()
    assert busy == 4
    await town.play(0, 60)
    assert await town.replicas() == busy, "the other one fell silent with requests in flight"
    last = (await town.decisions())[-1]
    assert (last.limited_by, last.inputs["silent_gateways"]) == ("silent_gateway", [OTHER])
    async with world.database.transaction() as session:
        await forget_gateway(session, OTHER)
    await town.play(0, 30)
    assert await town.replicas() == 1


async def test_nobody_reports_nothing_changes(world: World) -> None:
    town = await new_town(world, scale_down_delay_s=10)
    await town.play(10, 30)
    busy = await town.replicas()
    for _ in range(10):
        town.second += 2
        await town.autoscaler.tick(town.second, town.lease)
    assert await town.replicas() == busy > 1
    assert (await town.decisions())[-1].limited_by == "no_samples"


async def test_another_leader_goes_on_where_the_first_one_stopped(world: World) -> None:
    town = await new_town(world)
    await town.play(10, 60)
    before = await town.decisions()
    town.autoscaler = Autoscaler(world.database, system_clock)
    await town.play(10, 20)
    assert len(await town.decisions()) == len(before), "it knows what was said, and sees the same demand"


async def test_nothing_is_remembered_of_a_container_that_is_not_scaled(world: World) -> None:
    town = await new_town(world)
    await town.play(10, 60)
    assert town.autoscaler._said
    async with world.database.transaction() as session:
        await session.execute(update(ContainerRow).values(state="STOPPED"))
    town.second += 2
    await town.autoscaler.tick(town.second, town.lease)
    assert not town.autoscaler._said
    assert not town.autoscaler._rises
    assert not town.autoscaler._startups_s


@pytest.mark.parametrize("begins_anew", ["the clock is set back", "a tick fails", "it leads again"])
async def test_nothing_is_remembered_of_what_is_stopped_as_it_begins_anew(
    world: World, begins_anew: str
) -> None:
    town = await new_town(world)
    await town.play(10, 4)
    assert town.autoscaler._said
    async with world.database.transaction() as session:
        await session.execute(update(ContainerRow).values(state="STOPPED"))
    town.second += 2
    if begins_anew == "the clock is set back":
        town.second -= 500
    elif begins_anew == "a tick fails":
        await town.autoscaler.postpone("all", RuntimeError("no database"), town.lease)
    else:
        await town.autoscaler.lead(town.lease)
    await town.autoscaler.tick(town.second, town.lease)
    assert not town.autoscaler._said
    assert not town.autoscaler._rises
    assert not town.autoscaler._startups_s


async def test_the_evidence_is_what_was_decided_on(world: World) -> None:
    town = await new_town(world, max_replicas=30)
    await town.play(2, 60)
    await town.play(40, 8)
    checked = 0
    for row in await town.decisions():
        said = re.match(r"([\d.]+) in flight over (the last )?(\d+) s", row.reason)
        if said is not None:
            name = "panic_mean" if said[2] else "stable_mean"
            assert f"{row.inputs[name]:.1f}" == said[1]
            assert said[2] or int(said[3]) == row.inputs["stable_window_s"]
            checked += 1
    assert checked >= 2


async def test_a_clock_set_back_stops_nothing(world: World) -> None:
    """By an hour, while many requests are in flight: what is known of the hour that comes again is not what is to come."""
    town = await new_town(world, scale_down_delay_s=20)
    await town.play(10, 60)
    assert await town.replicas() == 4
    town.second -= 3600
    await town.play(0, 60)
    assert await town.replicas() == 1
    await town.play(10, 60)
    assert await town.replicas() == 4


async def test_an_idle_container_leaves_one_decision(world: World) -> None:
    town = await new_town(world)
    await town.play(0, 100)
    (only,) = await town.decisions()
    assert (only.replicas, only.limited_by) == (1, "min_replicas")


async def test_a_former_leader_changes_nothing(world: World) -> None:
    town = await new_town(world)
    await world.end_lease()
    await LeaseKeeper(world.database, "autoscaling", "another", system_clock).acquire()
    with pytest.raises(LeaseLostError):
        await town.play(10, 10)
    assert await town.replicas() == 1


async def test_a_decision_about_a_container_that_changed_is_not_written(world: World) -> None:
    town = await new_town(world)
    async with world.database.transaction() as session:
        (scaled,) = await repository.list_scaled(session)
    decision = Decision(2, State(2), 2, None, "Two are needed.")
    async with world.database.transaction() as session:
        await service.change_scaling(session, world.actor, town.container_id, ScaleRequest(min_replicas=3))
        assert not await repository.scale(session, scaled, decision)
    assert await town.replicas() == 3, "the new least, at once"


async def test_a_start_begins_with_the_least(world: World) -> None:
    town = await new_town(world)
    await town.play(10, 60)
    assert await town.replicas() == 4
    await world.ask(stop_container, town.container_id)
    await world.ask(start_container, town.container_id)
    assert await town.replicas() == 1


@pytest.mark.parametrize(
    ("sent", "field"), [({"min_replicas": 5}, "min_replicas"), ({"max_replicas": 1}, "max_replicas")]
)
async def test_a_policy_must_make_sense(world: World, sent: dict[str, int], field: str) -> None:
    town = await new_town(world, min_replicas=2)
    with pytest.raises(InvalidInputError) as refused:
        async with world.database.transaction() as session:
            await service.change_scaling(session, world.actor, town.container_id, ScaleRequest(**sent))
    assert refused.value.fields[0].field == field


@pytest.mark.long
async def test_the_containers_reconciler_makes_it_true(world: World) -> None:
    """Up to four replicas and back to one, each drained, with the real plan on the simulated engine."""
    engine = Engine(world.machine)
    async with driven(world, engine):
        container_id = await world.create()

        async def has(count: int) -> bool:
            return len(await world.replicas(container_id, "routed")) == count

        await eventually(lambda: has(1), "one replica", timeout_s=60)
        async with world.database.transaction() as session:
            wanted = ScaleRequest(min_replicas=1, max_replicas=4, scale_down_delay_s=0)
            await service.change_scaling(session, world.actor, container_id, wanted)
        town = Town(world, container_id, await leader(world))
        await town.play(12, 20)
        await eventually(lambda: has(4), "four replicas", timeout_s=60)
        await town.play(0, 60)
        await eventually(lambda: has(1), "one again", timeout_s=60)
        survivors = await world.replicas(container_id, "routed")
        assert survivors[0].slot == 0
        async with world.database.transaction() as session:
            await session.execute(
                text("UPDATE hours SET expires_at = now() WHERE slot > 0 AND state = 'paid'")
            )
            await session.execute(text("UPDATE credit_accounts SET available_microusd = 0"))
        await town.play(9, 40)
        limited = (await town.decisions())[-1]
        assert limited.limited_by == "credit"
        assert "capped by credit" in limited.reason
    async with world.database.transaction() as session:
        await session.execute(text("UPDATE replica_routes SET failure = 'timeout'"))
        facts = (await repository.replica_facts(session, [container_id]))[container_id]
    assert (facts.ready, facts.failing) == (1, 1)


async def test_a_replay_with_the_same_settings_gives_the_same_decisions(world: World) -> None:
    town = await new_town(world, scale_down_delay_s=30)
    for in_flight, seconds in ((1, 20), (9, 30), (3, 40), (14, 20), (0, 60)):
        await town.play(in_flight, seconds)
    made = [
        (int(row.at.timestamp()), row.replicas, row.wanted, row.reason)
        for row in await town.decisions()
        if row.replicas != row.replicas_before
    ]
    since, now = datetime.fromtimestamp(START + 1, UTC), datetime.fromtimestamp(town.second + 2, UTC)
    container = await world.container(town.container_id)
    policy = repository.policy_of(container.settings)
    async with world.database.transaction() as session:
        same = compare(await read_question(session, container, policy, since, now))
        other = replace(policy, max_replicas=2)
        cheaper = compare(await read_question(session, container, other, since, now))
    again = [
        (change.second, change.decision.replicas, change.decision.wanted, change.decision.reason)
        for change in same.replayed.changes
    ]
    assert again == made
    assert len(made) >= 4
    assert same.replayed.replica_s == same.as_it_was.replica_s
    assert same.replayed.changed == same.as_it_was.changed
    assert same.replayed.hours_bought == same.as_it_was.hours_bought == 4
    assert cheaper.replayed.replica_s < same.replayed.replica_s
    assert cheaper.replayed.hours_bought == 2
    assert cheaper.replayed.over_target_s > same.replayed.over_target_s
