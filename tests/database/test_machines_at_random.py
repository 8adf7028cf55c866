"""Many machines, and whatever may happen to them in whatever order: `random_fleet.py` has the happenings and the rules."""

import os

import pytest
from random_fleet import run_story

from moorage.kit.database import Database

STEPS = 12
SEEDS = (1, 2)
FIRST, LAST = os.environ.get("MOORAGE_TEST_SEEDS", "100-119").split("-")
"""More of them: `MOORAGE_TEST_SEEDS=1-500 pytest -m long` and this file."""


@pytest.mark.parametrize("seed", SEEDS)
async def test_machines_at_random(database: Database, seed: int) -> None:
    await run_story(database, seed, STEPS)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(int(FIRST), int(LAST) + 1))
async def test_more_machines_at_random(database: Database, seed: int) -> None:
    await run_story(database, seed, 5 * STEPS)
