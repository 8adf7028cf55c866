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
from moorage.kit.errors import EngineError, LeaseLostError
from moorage.kit.ids import new_installation_id
from moorage.reconcile.watches import Watches


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
