"""Whether a seed tells the same story alone and after another: `python -m tests.simulation.repeats 50 --after 65`.

Each is told in a process of its own, with another order of sets. Where the stories differ, the first statement and the first
line that do are printed: what was asked otherwise shows where an order was left to chance, or what the seed before left behind.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from moorage.kit.logging import configure_logging
from tests.simulation import run
from tests.simulation.server import Server, postgres
from tests.simulation.story import clock_text
from tests.simulation.world import World

ROOT = Path(__file__).parents[2]
_BEFORE = 5
"""Lines that are printed before the one that differs."""


@dataclass(frozen=True)
class Telling:
    statements: list[str]
    """What was heard of Postgres, when and by whom."""
    lines: list[str]


def tell(server: Server, plan: run.Plan) -> Telling:
    """A seed's story, with all that Postgres was asked."""
    statements: list[str] = []

    def listen(world: World) -> None:
        def heard(process: Any, sql: str, how: str) -> None:
            who = process.name if process is not None else "nobody"
            # In which order SQLAlchemy names the columns of a primary key is of no effect, and that of a set.
            asked = " ".join(sql.partition(" RETURNING ")[0].split())[:200]
            statements.append(f"{clock_text(world.now_s())}  {who:<12} {how}: {asked}")

        world.wire.heard = heard

    outcome = run.run_seed(server, plan, listen)
    return Telling(statements, outcome.story.lines)


def told_elsewhere(seeds: list[int], hash_seed: int, *, only: str | None = None) -> Telling:
    """The last of these seeds, told in a process of its own."""
    command = [sys.executable, "-m", "tests.simulation.repeats", "--tell", *map(str, seeds)]
    command += [] if only is None else ["--only", only]
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return Telling(**json.loads(done.stdout.splitlines()[-1]))


def differences(one: Telling, other: Telling) -> Iterator[str]:
    """Of the statements and of the story, where they part."""
    for kind in ("statements", "lines"):
        here, there = getattr(one, kind), getattr(other, kind)
        for number, (mine, theirs) in enumerate(zip_longest(here, there)):
            if mine != theirs:
                before = "\n    ".join(here[max(0, number - _BEFORE) : number])
                yield f"{kind} differ at {number}:\n    {before}\n  < {mine}\n  > {theirs}"
                break


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seeds", type=int, nargs="+")
    parser.add_argument(
        "--after", type=int, nargs="*", default=[], help="each of these before each of the seeds"
    )
    parser.add_argument(
        "--tell", action="store_true", help="only tell the last of the seeds, after the others"
    )
    parser.add_argument("--only", choices=sorted(run.PARTS_OF_A_DAY), help="without the rest of the days")
    how = parser.parse_args()
    if how.tell:
        configure_logging("critical", as_json=True)
        plans = [run.Plan(seed, only=how.only) for seed in how.seeds]
        with postgres() as server:
            for plan in plans[:-1]:
                run.run_seed(server, plan)
            print(json.dumps(vars(tell(server, plans[-1]))))
        return 0
    failed = False
    for seed in how.seeds:
        alone = told_elsewhere([seed], 1, only=how.only)
        for number, before in enumerate([[one] for one in how.after] or [[]]):
            again = told_elsewhere([*before, seed], 2 + number, only=how.only)
            found = list(differences(alone, again))
            failed = failed or bool(found)
            words = "another story" if found else "the same"
            print(f"{seed} after {before or 'nothing'}: {words}", *found, sep="\n", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
