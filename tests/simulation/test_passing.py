"""Time passes, and what must be true is looked at meanwhile."""

import asyncio
from itertools import pairwise

import pytest

from tests.simulation.loop import SimulationLoop
from tests.simulation.passing import watched


def test_what_must_be_true_is_looked_at_while_an_act_goes_on() -> None:
    loop = SimulationLoop()
    looks_s: list[float] = []

    async def act() -> None:
        await asyncio.sleep(220)

    loop.run_until_complete(watched(act(), lambda: looks_s.append(loop.time())))
    pauses_s = [later - sooner for sooner, later in pairwise([0.0, *looks_s])]
    assert max(pauses_s) <= 6.0
    assert looks_s[-1] == pytest.approx(220)
    loop.close()


def test_an_act_that_fails_fails_its_seed() -> None:
    loop = SimulationLoop()

    async def act() -> None:
        raise ValueError("no answer")

    with pytest.raises(ValueError, match="no answer"):
        loop.run_until_complete(watched(act(), lambda: None))
    loop.close()
