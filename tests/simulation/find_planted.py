"""Which seed finds each planted bug, and when: `python -m tests.simulation.find_planted`.

Seeds that found a bug before are tried first (`found_before.json`), then those of 1 to 200 that promise most. `--fresh` does
without them, `--write` keeps what was found, `--jobs 2` tries several seeds at once, `--seeds 200` says when to give up;
what else is given is part of a bug's name."""

import argparse
import json
import multiprocessing
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from multiprocessing.pool import Pool
from pathlib import Path
from queue import SimpleQueue

from moorage.kit.logging import configure_logging
from tests.simulation import (
    invariants,
    invariants_fleet,
    invariants_gpus,
    invariants_rights,
    invariants_sleep,
)
from tests.simulation.afternoon import afternoon_acts_of
from tests.simulation.evening import evening_acts_of
from tests.simulation.night import night_acts_of
from tests.simulation.parts import draw_parts
from tests.simulation.planted import BUGS, Bug, bug_named, part_of, planted
from tests.simulation.run import PARTS_OF_A_DAY, Plan, acts_of, outline_of, run_seed
from tests.simulation.server import Server, postgres
from tests.simulation.story import clock_text

_KEPT_IN = Path(__file__).with_name("found_before.json")
MOST_SEEDS = 200
_ACTS_OF = {"afternoon": afternoon_acts_of, "evening": evening_acts_of, "night": night_acts_of}
NAMES = (
    *(*invariants.NAMES, *invariants_rights.NAMES, *invariants_gpus.NAMES, *invariants_fleet.NAMES),
    *invariants_sleep.NAMES,
)


@dataclass(frozen=True)
class Found:
    bug: str
    invariant: str | None
    seed: int | None
    at: str
    seeds_tried: int


def find(server: Server, bug: Bug, seeds: list[int]) -> Found:
    for number, seed in enumerate(seeds, 1):
        with planted(server, bug):
            outcome = run_seed(server, Plan(seed, watched=frozenset(bug.breaks), only=part_of(bug)))
        if outcome.broken in bug.breaks:
            return Found(bug.name, outcome.broken, seed, clock_text(outcome.virtual_s).strip(), number)
        if outcome.broken:
            print(f"({bug.name}, seed {seed}: {outcome.sentence[-300:]})", file=sys.stderr, flush=True)
    return Found(bug.name, None, None, "–", len(seeds))


def seeds_for(bug: Bug, most: int, *, fresh: bool = False) -> list[int]:
    """Those that found it before; then those in which most happens that it needs to show. For a bug of afternoons, evenings or nights
    without the rest of the days."""
    known = [] if fresh or bug.name not in found_before() else [found_before()[bug.name]]
    part = part_of(bug)
    some = [seed for seed in range(1, most + 1) if part is None or PARTS_OF_A_DAY[part](seed) is not None]
    others = sorted(some, key=lambda seed: -_promise(bug, seed))
    return [*known, *(seed for seed in others if seed not in known)][:most]


def _promise(bug: Bug, seed: int) -> float:
    """How much of what it needs happens in it, for what the seed costs."""
    if (part := part_of(bug)) is not None:
        acts = _ACTS_OF[part](seed)
        return sum(acts[name] for name in bug.needs) / (10 + acts.total())
    acts, outline = acts_of(seed), outline_of(seed)
    needed = (
        10 * getattr(outline.rates, name) if hasattr(outline.rates, name) else acts[name]
        for name in bug.needs
    )
    return sum(needed) / (10 + outline.events + outline.night_s / 3600 + 5 * len(draw_parts(seed)))


def found_before() -> dict[str, int]:
    """By the bug's name. A change to what people do or to what goes wrong makes these seeds tell other stories: then
    others find it, and are kept instead."""
    kept: dict[str, int] = json.loads(_KEPT_IN.read_text()) if _KEPT_IN.exists() else {}
    return kept


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=MOST_SEEDS)
    parser.add_argument("--tries", type=int, help="of these seeds, for each bug; all unless it says so")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("part", nargs="*")
    arguments = parser.parse_args()
    bugs = [bug for bug in BUGS if not arguments.part or any(part in bug.name for part in arguments.part)]
    work = [
        (bug.name, seeds_for(bug, arguments.seeds, fresh=arguments.fresh)[: arguments.tries]) for bug in bugs
    ]
    print("| bug | invariant | seed | virtual time |\n|---|---|---|---|")
    found = []
    for one in _find_all(work, arguments.jobs):
        found.append(one)
        invariant = one.invariant or f"**not found in {one.seeds_tried} seeds**"
        print(f"| {one.bug} | {invariant} | {one.seed or '–'} | {one.at} |", flush=True)
        if arguments.write and one.seed is not None:
            kept = json.dumps({**found_before(), one.bug: one.seed}, indent=2, sort_keys=True)
            _KEPT_IN.write_text(f"{kept}\n")
    unseen = sorted(set(NAMES) - {one.invariant for one in found})
    if not arguments.part and unseen:
        print(f"broken by no bug: {', '.join(unseen)}")
    return 0 if all(one.seed is not None for one in found) and (arguments.part or not unseen) else 1


def _find_all(work: list[tuple[str, list[int]]], jobs: int) -> Iterator[Found]:
    if jobs == 1:
        configure_logging("critical", as_json=True)
        with postgres() as server:
            yield from (find(server, bug_named(name), seeds) for name, seeds in work)
        return
    pool = multiprocessing.get_context("spawn").Pool(jobs, _begin_job)
    yield from _all_at_once(pool, work, jobs)
    # Not ended from here: each stops its server first.
    pool.close()
    pool.join()


def _all_at_once(pool: Pool, work: list[tuple[str, list[int]]], jobs: int) -> Iterator[Found]:
    """Whatever was tried the fewest times is tried next, so that one that hides holds up no other."""
    left = {name: list(seeds) for name, seeds in work}
    begun: Counter[str] = Counter()
    ended: Counter[str] = Counter()
    answers: SimpleQueue[Found | BaseException] = SimpleQueue()

    def begin_next() -> None:
        name = min(
            (name for name, seeds in left.items() if seeds), key=lambda name: begun[name], default=None
        )
        if name is not None:
            begun[name] += 1
            one = (name, [left[name].pop(0)])
            pool.apply_async(_find_in_job, (one,), callback=answers.put, error_callback=answers.put)

    for _ in range(jobs):
        begin_next()
    while ended.total() < begun.total():
        answer = answers.get()
        if isinstance(answer, BaseException):
            raise answer
        name = answer.bug
        ended[name] += 1
        if name in left and (answer.seed is not None or (not left[name] and ended[name] == begun[name])):
            del left[name]
            yield replace(answer, seeds_tried=ended[name])
        begin_next()


_job = ExitStack()
_servers: list[Server] = []


def _begin_job() -> None:
    """A Postgres for each process; it ends with it."""
    configure_logging("critical", as_json=True)
    _servers.append(_job.enter_context(postgres()))
    multiprocessing.util.Finalize(None, _job.close, exitpriority=1)  # type: ignore[attr-defined]


def _find_in_job(work: tuple[str, list[int]]) -> Found:
    name, seeds = work
    return find(_servers[0], bug_named(name), seeds)


if __name__ == "__main__":
    # Also when somebody ends it, the servers are stopped and their folders removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    sys.exit(main())
