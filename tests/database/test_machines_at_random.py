"""Many machines, and whatever may happen to them in whatever order: `random_fleet.py` has the happenings and the rules, and
`random_owners.py` those of machines that are lent."""

import os

import pytest
from random_fleet import run_story
from random_owners import RandomOwners

from moorage.kit.database import Database

STEPS = 12
SEEDS = (1, 2)
FIRST, LAST = os.environ.get("MOORAGE_TEST_SEEDS", "100-119").split("-")
"""More of them: `MOORAGE_TEST_SEEDS=1-500 make prove-stories`."""
SOME = 4
"""Stories that `make test-long` tells."""


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.long
async def test_machines_at_random(database: Database, seed: int) -> None:
    await run_story(database, seed, STEPS)


MORE = [
    pytest.param(seed, marks=pytest.mark.long if index < SOME else pytest.mark.proof)
    for index, seed in enumerate(range(int(FIRST), int(LAST) + 1))
]


@pytest.mark.parametrize("seed", MORE)
async def test_more_machines_at_random(database: Database, seed: int) -> None:
    await run_story(database, seed, 5 * STEPS)


@pytest.mark.parametrize("seed", MORE)
async def test_what_owners_earn_at_random(database: Database, seed: int) -> None:
    await run_story(database, seed, 3 * STEPS, RandomOwners)
