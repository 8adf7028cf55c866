"""A fixed part of the simulation; `make simulate SEEDS=1-1000` runs as much as one likes."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.simulation.planted import BUGS, Bug, planted
from tests.simulation.run import Outcome, Plan, run_seed
from tests.simulation.server import Server, postgres

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with postgres() as started:
        yield started


def told(outcome: Outcome) -> str:
    return "\n".join([*outcome.story.lines, outcome.sentence])


@pytest.mark.parametrize("seed", [2, 4])
def test_a_bad_day(server: Server, seed: int) -> None:
    outcome = run_seed(server, Plan(seed))
    assert outcome.broken is None, told(outcome)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_more_bad_days(server: Server) -> None:
    for seed in range(5, 25):
        outcome = run_seed(server, Plan(seed))
        assert outcome.broken is None, f"seed {seed}\n{told(outcome)}"


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(server: Server, bug: Bug) -> None:
    with planted(bug):
        assert any(run_seed(server, Plan(seed)).broken in bug.breaks for seed in range(1, 201))


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_same_story_in_another_process(server: Server) -> None:
    """With another order of sets, and other seeds before it."""
    for seed in (2, 4):
        run_seed(server, Plan(seed + 1))
        here = run_seed(server, Plan(seed)).story.fingerprint()
        command = [sys.executable, "-m", "tests.simulation.run", f"{seed}-{seed}"]
        environment = {**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": str(ROOT)}
        there = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600
        )
        assert here in there.stdout, there.stdout + there.stderr
