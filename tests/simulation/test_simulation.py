"""A fixed part of the simulation; `make simulate SEEDS=1-1000` runs as much as one likes, `make prove-simulation` every
planted bug."""

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from tests import lease_guard
from tests.simulation.find_planted import MOST_SEEDS, find, seeds_for
from tests.simulation.loop import NumberedTask
from tests.simulation.planted import BUGS, bug_named
from tests.simulation.planted.bug import Bug
from tests.simulation.repeats import differences, told_elsewhere
from tests.simulation.results import Result, keep, kept_in
from tests.simulation.run import Outcome, Plan, main, run_seed
from tests.simulation.server import Server, postgres

ROOT = Path(__file__).parents[2]
NIGHTS = (3, 9)


@pytest.fixture(autouse=True)
def log_as_before() -> Iterator[None]:
    """The commands of the simulation silence the log, which others of this process read."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with postgres() as started:
        yield started


def told(outcome: Outcome) -> str:
    return "\n".join([*outcome.story.lines, outcome.sentence])


@pytest.mark.timeout(600)
def test_a_bad_day(server: Server) -> None:
    outcome = run_seed(server, Plan(28))
    assert outcome.broken is None, told(outcome)
    left = [one for one in gc.get_objects() if isinstance(one, NumberedTask)]
    assert not left, "what the dead leave behind is gone, and complains to nobody later"


@pytest.mark.long
@pytest.mark.timeout(600)
def test_another_bad_day(server: Server) -> None:
    outcome = run_seed(server, Plan(15))
    assert outcome.broken is None, told(outcome)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("seed", "part"), [(9, "evening"), (NIGHTS[0], "night")])
def test_a_part_of_a_day(server: Server, seed: int, part: str) -> None:
    """Evenings are those of machines, nights those of containers that sleep."""
    outcome = run_seed(server, Plan(seed, only=part))
    assert outcome.broken is None, told(outcome)


@pytest.mark.proof
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "seed",
    [
        *(6, 8, 2128, 2522, 2772, 2898, 3230, 3242, 6231),  # What Moorage did was wrong once.
        *(20300, 21256, 70072, 70137, 70390),  # And again.
        2491,  # What is left of an hour goes over to a slot whose own hour has ended.
        2850,  # One of two replicas finds no room, and its hour stays held.
        3027,  # A process ends at once while an act that takes minutes goes on.
        5088,  # Two ask at once, and somebody looks before both are answered.
        7017,  # The API dies after a COMMIT, and its client still waits for the answer.
        21157,  # What failed takes its time to end, and its successor runs beside it.
        71161,  # A start that came late left something on the machine, which nobody was given the time to see.
    ],
)
def test_a_day_that_once_failed(server: Server, seed: int) -> None:
    """Because of a fault, or, where it says what happens, because an invariant judged it wrongly."""
    outcome = run_seed(server, Plan(seed))
    assert outcome.broken is None, told(outcome)


@pytest.mark.proof
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("seed", "part"), [(10, "evening"), (20, "evening"), (36, "evening"), (NIGHTS[1], "night")]
)
def test_a_part_that_once_failed(server: Server, seed: int, part: str) -> None:
    outcome = run_seed(server, Plan(seed, only=part))
    assert outcome.broken is None, told(outcome)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_has_its_place(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it replaces is there: code that changes must not leave a bug behind that plants nothing."""
    bug.plant(monkeypatch.setattr)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "name",
    [
        "what is bought stays held",
        "whoever is overtaken does not see it",
        "a GPU in use is free",
        "who waits hears nothing",
    ],
)
def test_a_planted_bug_is_found(server: Server, name: str) -> None:
    """Some of those that are found early; `make prove-simulation` looks for all."""
    bug = bug_named(name)
    found = find(server, bug, seeds_for(bug, MOST_SEEDS)[:10])
    lease_guard.recorder.unguarded.clear()  # The bug may be that nobody looks at leases.
    assert found.invariant in bug.breaks, found


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_the_same_story_in_another_process(server: Server, tmp_path: Path) -> None:
    """With another order of sets, and nothing before them: deliveries, and an afternoon."""
    kept = tmp_path / "results.jsonl"
    seeds = (15, 2)
    here = [run_seed(server, Plan(seed)).story.fingerprint() for seed in seeds]
    for seed, told_here in zip(seeds, here, strict=True):
        command = [sys.executable, "-m", "tests.simulation.run", f"{seed}-{seed}"]
        command += ["--keep", str(kept), "--commit", "0123abc"]
        environment = {**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": str(ROOT)}
        there = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600
        )
        assert told_here in there.stdout, there.stdout + there.stderr
    assert [(one.commit, one.seed) for one in kept_in(kept)] == [("0123abc", seed) for seed in seeds]


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_the_same_story_after_another() -> None:
    """Afternoons, in which most waits for locks: whom a deadlock ended was once a matter of the real clock."""
    alone = told_elsewhere([50], 1, only="afternoon")
    assert list(differences(alone, told_elsewhere([65, 6, 50], 2, only="afternoon"))) == []


@pytest.mark.proof
@pytest.mark.timeout(600)
def test_the_same_night_in_another_process(server: Server) -> None:
    """Requests, the holder and its sockets have an order of their own."""
    seed = NIGHTS[0]
    here = run_seed(server, Plan(seed, only="night")).story.fingerprint()
    command = [sys.executable, "-m", "tests.simulation.run", f"{seed}-{seed}", "--only", "night"]
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    there = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600)
    assert here in there.stdout, there.stdout + there.stderr


def test_a_copy_of_the_code_is_told_its_commit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is kept of it belongs to that commit: a seed that is there already is not run again."""
    kept = tmp_path / "results.jsonl"
    keep(kept, Result("0123abc", 7, "fingerprint", 3600.0, 1.0, None, "", {}))
    assert main(["7", "--keep", str(kept), "--commit", "0123abc"]) == 0
    assert "0123abc: seeds 7\n1 seeds, 1 virtual hours" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["7", "--commit", ""])
    assert "name the commit in one word" in capsys.readouterr().err
