"""Engines by name: what is watched follows who joins and leaves."""

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.engines.base import Engine
from moorage.engines.each import run_for_each
from moorage.engines.engines import ENGINE_UNKNOWN, Engines
from moorage.engines.simulated import SimulatedEngine, SimulatedMachine
from moorage.kit.clock import VirtualClock, system_clock
from moorage.kit.database import Database
from moorage.kit.errors import EngineError, LeaseLostError
from moorage.kit.ids import new_installation_id
from moorage.reconcile.watches import Pauses, Watches
from moorage.telemetry.usage.book import UsageBook
from moorage.telemetry.usage.sampler import UsageSampler


def engine() -> SimulatedEngine:
    return SimulatedEngine(SimulatedMachine(VirtualClock(), {}), new_installation_id())


def test_an_engine_is_found_by_its_name_alone() -> None:
    first, second = engine(), engine()
    engines = Engines({"a": first})
    assert engines.only("a")
    assert not engines.only("b")
    engines.add("b", second)
    assert not engines.only("a")
    assert (engines.of("a"), engines.of("b")) == (first, second)
    assert engines.remove("a") is first
    with pytest.raises(EngineError) as error:
        engines.of("a")
    assert error.value.code == ENGINE_UNKNOWN
    assert engines.remove("a") is None


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0)
    pytest.fail("it did not come true")


async def test_each_engine_is_watched_by_itself() -> None:
    engines, clock, began, live = Engines({"a": engine()}), VirtualClock(), Counter[str](), Counter[str]()

    def watches(name: str, _: Engine) -> Watches:
        async def watch() -> None:
            began[name] += 1
            live[name] += 1
            try:
                if name == "broken":
                    raise EngineError("it does not answer")
                await asyncio.Event().wait()
            finally:
                live[name] -= 1

        return {"events": watch}

    running = asyncio.create_task(run_for_each(engines, watches, clock))
    try:
        await until(lambda: live["a"] == 1)
        engines.add("b", engine())
        engines.add("broken", engine())
        await until(lambda: live["b"] == 1 and began["broken"] == 1)
        await clock.advance(1.0)
        await until(lambda: began["broken"] >= 2)
        assert (began["a"], began["b"]) == (1, 1), "the others go on"
        engines.remove("b")
        await until(lambda: live["b"] == 0)
        engines.add("b", engine())
        await until(lambda: began["b"] == 2)
        engines.add("a", engine())
        await until(lambda: began["a"] == 2 and live["a"] == 1)
    finally:
        running.cancel()
        await asyncio.wait([running])
    assert not live.total()


async def test_a_lost_lease_ends_all_of_them() -> None:
    engines = Engines({"a": engine(), "b": engine()})

    def watches(name: str, _: Engine) -> Watches:
        async def watch() -> None:
            if name == "b":
                raise LeaseLostError("gone")
            await asyncio.Event().wait()

        return {"events": watch}

    with pytest.raises(ExceptionGroup) as errors:
        async with asyncio.timeout(5):
            await run_for_each(engines, watches, system_clock)
    assert errors.value.subgroup(LeaseLostError) is not None


async def test_watches_of_many_engines_begin_one_after_the_other() -> None:
    """Each begins with a look at everything."""
    clock = VirtualClock()
    engines = Engines({f"machine-{number}": engine() for number in range(40)})
    began_s: list[float] = []

    def watches(name: str, _: Engine) -> Watches:
        async def watch() -> None:
            began_s.append(clock.monotonic())
            await asyncio.Event().wait()

        return {"events": watch}

    running = asyncio.create_task(run_for_each(engines, watches, clock))
    try:
        for _ in range(100):
            await clock.advance(0.005)
        await until(lambda: len(began_s) == 40)
    finally:
        running.cancel()
        await asyncio.wait([running])
    assert max(Counter(began_s).values()) <= 2


def test_a_few_engines_are_all_looked_at_after_the_whole_time() -> None:
    few = Engines({f"machine-{number}": engine() for number in range(8)})
    assert {few.turn_in_s(name, 15.0, 7.3) for name in few.by_name()} == {15.0}


@pytest.mark.parametrize("every_s", [1.0, 3.0, 15.0, 60.0])
@given(began_s=st.floats(0.0, 1e6))
def test_each_of_many_engines_has_moments_of_its_own(every_s: float, began_s: float) -> None:
    one = engine()
    engines = Engines({f"machine-{number}": one for number in range(1000)})
    waits_s = {name: engines.turn_in_s(name, every_s, began_s) for name in engines.by_name()}
    early_s = every_s / 100
    assert all(early_s < wait_s <= every_s + early_s for wait_s in waits_s.values())
    tenths = Counter(int((began_s + wait_s) % every_s / every_s * 10) for wait_s in waits_s.values())
    assert max(tenths.values()) <= 1.5 * 1000 / 10, "all over the time between two"
    for name in list(waits_s)[:20]:
        woken_s = began_s + waits_s[name]
        for late_s in (-every_s / 200, 0.0, every_s / 2):
            next_s = woken_s + late_s + engines.turn_in_s(name, every_s, woken_s + late_s)
            # Whoever was held up is back at the same moments, and whoever was woken early does nothing twice.
            assert next_s - woken_s == pytest.approx(every_s, abs=1e-6 * every_s + 1e-9 * began_s + 1e-6)


async def test_a_pause_ends_in_time_or_when_it_is_cut_short() -> None:
    clock = VirtualClock()
    pauses = Pauses(clock)

    async def paused() -> asyncio.Task[None]:
        resting = asyncio.create_task(pauses.rest("a", 60.0))
        await clock.advance(0.0)
        return resting

    resting = await paused()
    pauses.cut_short("b")
    await clock.advance(59.0)
    assert not resting.done()
    await clock.advance(1.0)
    await until(resting.done)
    resting = await paused()
    pauses.cut_short("a")
    await until(resting.done)
    resting = await paused()
    await until(resting.done)  # nobody has begun another round since
    pauses.begin_round("a")
    resting = await paused()
    assert not resting.done()
    pauses.cut_short("a")
    await until(resting.done)


@pytest.mark.parametrize(("count", "every_s"), [(1, 1), (100, 1), (101, 2), (1000, 10), (5000, 10)])
def test_many_engines_take_turns_in_what_can_wait(count: int, every_s: int) -> None:
    one = engine()
    engines = Engines({f"machine-{number}": one for number in range(count)})
    assert engines.look_every_s() == every_s
    clock = VirtualClock()
    book = UsageBook(Database("postgresql://nobody@localhost/nothing", pool_size=1), clock)
    until_turn_s = [
        UsageSampler(book, one, clock, name, engines.look_every_s)._until_its_turn_s()
        for name in engines.by_name()
    ]
    assert all(0 < wait_s <= every_s for wait_s in until_turn_s)
    if every_s > 1:
        fullest = Counter(int(wait_s) for wait_s in until_turn_s).most_common(1)[0][1]
        assert fullest <= 1.5 * count / every_s
