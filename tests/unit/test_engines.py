"""Engines by name: what is watched follows who joins and leaves."""

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest

from moorage.engines.base import Engine
from moorage.engines.each import run_for_each
from moorage.engines.engines import ENGINE_UNKNOWN, Engines
from moorage.engines.simulated import SimulatedEngine, SimulatedMachine
from moorage.kit.clock import VirtualClock, system_clock
from moorage.kit.database import Database
from moorage.kit.errors import EngineError, LeaseLostError
from moorage.kit.ids import new_installation_id
from moorage.reconcile.watches import Watches
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
    """They go on at one pace: begun together, they would be done together, every second."""
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
            await clock.advance(0.0025)
        await until(lambda: len(began_s) == 40)
    finally:
        running.cancel()
        await asyncio.wait([running])
    assert max(Counter(began_s).values()) <= 2


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
