"""Samples are stored once, become steps, and go when they are too old."""

from datetime import datetime, timedelta

import pytest
from sqlalchemy import func, select

from moorage.engines.base import LOCAL_ENGINE
from moorage.engines.engines import Engines
from moorage.engines.simulated import SimulatedEngine, SimulatedMachine
from moorage.kit.clock import system_clock
from moorage.kit.database import Database, database_now
from moorage.kit.errors import LeaseLostError
from moorage.kit.ids import new_installation_id
from moorage.reconcile.lease import Lease, LeaseKeeper
from moorage.telemetry.metrics import repository
from moorage.telemetry.metrics.keeper import MetricsKeeper
from moorage.telemetry.metrics.models import ContainerSampleRow
from moorage.telemetry.metrics.samples import Sample


async def leader(database: Database, holder: str = "a") -> Lease:
    lease = await LeaseKeeper(database, "metrics", holder, system_clock).acquire()
    assert lease is not None
    return lease


def keeper_of(database: Database) -> MetricsKeeper:
    engine = SimulatedEngine(SimulatedMachine(system_clock, {}), new_installation_id())
    return MetricsKeeper(database, Engines({LOCAL_ENGINE: engine}), system_clock)


async def whole_second(database: Database) -> datetime:
    async with database.transaction() as session:
        return (await database_now(session)).replace(microsecond=0)


async def store(database: Database, gateway: str, seconds: dict[datetime, int]) -> None:
    samples = [Sample("ctr_a", gateway, at, in_flight, 0, 2, 0, 10) for at, in_flight in seconds.items()]
    async with database.transaction() as session:
        await repository.store_samples(session, gateway, samples, min(seconds), max(seconds))


async def test_stored_twice_is_stored_once_and_silence_shows(database: Database) -> None:
    now = await whole_second(database)
    first = {now - timedelta(seconds=60 - second): 1 for second in range(10)}
    for _ in range(2):
        await store(database, "gtw_a", first)
    await store(database, "gtw_a", {now - timedelta(seconds=20): 1})
    async with database.transaction() as session:
        assert (
            await session.execute(select(func.count()).select_from(ContainerSampleRow))
        ).scalar_one() == 11
        reports = await repository.list_reports(session, now - timedelta(minutes=5))
        newest = await repository.list_reports(session, now + timedelta(minutes=5))
    assert [(now - one.since, now - one.until) for one in reports] == [
        (timedelta(seconds=60), timedelta(seconds=51)),
        (timedelta(seconds=20), timedelta(seconds=20)),
    ]
    assert newest == reports[-1:], "a gateway that fell silent is still known"


async def test_steps_are_made_and_old_rows_go(database: Database) -> None:
    now = await whole_second(database)
    await store(database, "gtw_a", {now - timedelta(minutes=14 - minute): 4 for minute in range(13)})
    await store(database, "gtw_b", {now - timedelta(minutes=5): 2, now - timedelta(minutes=20): 2})
    lease = await leader(database)
    keeper = keeper_of(database)
    await keeper.reconcile("all", lease)
    await keeper.reconcile("all", lease)
    restarted = keeper_of(database)
    await restarted.reconcile("all", lease)
    since, until = now - timedelta(hours=1), now + timedelta(hours=1)
    async with database.transaction() as session:
        samples = await repository.list_samples(session, since, until)
        tens = await repository.list_steps(session, 10, since, until, "ctr_a")
        minutes = await repository.list_steps(session, 60, since, until, "ctr_a")
    assert len(samples) == 14, "the one of 20 minutes ago is gone"
    assert sum(step.requests for step in tens) == sum(step.requests for step in minutes) >= 26
    assert max(step.in_flight_max for step in minutes) == 6
    assert tens[0].in_flight_mean == pytest.approx(0.4)


async def test_a_former_leader_writes_nothing(database: Database) -> None:
    lease = await leader(database)
    await LeaseKeeper(database, "metrics", "a", system_clock).release(lease)
    await leader(database, "b")
    with pytest.raises(LeaseLostError):
        await keeper_of(database).reconcile("all", lease)
