"""Which seed finds each planted bug, and when: `python -m tests.simulation.find_planted [most seeds] [part of a name]`."""

import sys

from moorage.kit.logging import configure_logging
from tests.simulation.planted import BUGS, Bug, planted
from tests.simulation.run import Plan, run_seed
from tests.simulation.server import Server, postgres
from tests.simulation.story import clock_text


def main(most_seeds: int, part: str) -> int:
    configure_logging("critical", as_json=True)
    print("| bug | invariant | seed | virtual time |\n|---|---|---|---|")
    with postgres() as server:
        found = [_find(server, bug, most_seeds) for bug in BUGS if part in bug.name]
    return 0 if all(found) else 1


def _find(server: Server, bug: Bug, most_seeds: int) -> bool:
    for seed in range(1, most_seeds + 1):
        with planted(bug):
            outcome = run_seed(server, Plan(seed))
        if outcome.broken in bug.breaks:
            at = clock_text(outcome.virtual_s).strip()
            print(f"| {bug.name} | {outcome.broken} | {seed} | {at} |", flush=True)
            return True
        if outcome.broken:
            # Another invariant than the one that is there for it: seen, but by luck.
            print(f"(seed {seed}: {outcome.broken}: {outcome.sentence[-200:]})", file=sys.stderr, flush=True)
    print(f"| {bug.name} | **not found in {most_seeds} seeds** | – | – |", flush=True)
    return False


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 200, sys.argv[2] if len(sys.argv) > 2 else ""))
