"""Which seed finds each planted bug, and when: `python -m tests.simulation.find_planted [most seeds]`."""

import sys

from moorage.kit.logging import configure_logging
from tests.simulation.planted import BUGS, planted
from tests.simulation.run import Plan, run_seed
from tests.simulation.server import postgres
from tests.simulation.story import clock_text


def main(most_seeds: int) -> int:
    configure_logging("critical", as_json=True)
    lost = []
    print("| bug | invariant | seed | virtual time |\n|---|---|---|---|")
    with postgres() as server:
        for bug in BUGS:
            for seed in range(1, most_seeds + 1):
                with planted(bug):
                    outcome = run_seed(server, Plan(seed))
                if outcome.broken in bug.breaks:
                    at = clock_text(outcome.virtual_s).strip()
                    print(f"| {bug.name} | {outcome.broken} | {seed} | {at} |", flush=True)
                    break
            else:
                lost.append(bug.name)
                print(f"| {bug.name} | **not found** | – | – |", flush=True)
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 200))
