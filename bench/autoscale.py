"""`decide()` against the documented rules of its peers, on the same traces. Pure arithmetic: no clock, no network.

.venv/bin/python bench/autoscale.py [--seeds 1,2] [--by-trace] [--only rules|patterns|real] [--tuning]

`patterns` and `real` compare what a container's history is worth (`autoscale_forecast.py`); `--tuning` takes the seeds that
the forecast was tuned on and leaves out the real demand that was kept apart.
"""

import argparse
from collections.abc import Callable

from autoscale_forecast import measure_patterns, measure_real
from autoscale_patterns import TUNING_SEEDS, VERDICT_SEEDS
from autoscale_rules import (
    MAX_REPLICAS,
    TARGET,
    Dstack,
    HuggingFace,
    Knative,
    Moorage,
    Outcome,
    Rule,
    SkyServe,
    outcome,
)
from autoscale_traces import Trace, traces

from moorage.autoscaling.decide import Policy

STARTUPS_S = (5, 60, 300)
RULES: dict[str, Callable[[], Rule]] = {
    "Moorage": Moorage,
    "Knative": Knative,
    "dstack": Dstack,
    "SkyServe": SkyServe,
    "Hugging Face": HuggingFace,
}
VARIANTS: dict[str, Callable[[], Rule]] = {
    "Moorage, down after 60 s": lambda: Moorage(Policy(1, MAX_REPLICAS, TARGET, 60)),
    "Knative at 100 %": lambda: Knative(1.0),
}
NOTHING = Outcome(0, 0, 0, 0)


def total(rule: Callable[[], Rule], some: list[Trace], startup_s: int) -> Outcome:
    return sum((outcome(rule(), trace, startup_s) for trace in some), NOTHING)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="1,2", help="comma-separated; the rule was tuned on 1 and 2")
    parser.add_argument("--by-trace", action="store_true", help="one line per trace, too")
    parser.add_argument("--only", choices=("rules", "patterns", "real"))
    parser.add_argument("--tuning", action="store_true", help="nothing that the verdict comes from")
    arguments = parser.parse_args()
    if arguments.only in (None, "rules"):
        measure_rules(arguments)
    if arguments.only in (None, "patterns"):
        measure_patterns(TUNING_SEEDS if arguments.tuning else VERDICT_SEEDS)
    if arguments.only in (None, "real"):
        measure_real(with_held_out=not arguments.tuning)


def measure_rules(arguments: argparse.Namespace) -> None:
    some = [trace for seed in arguments.seeds.split(",") for trace in traces(int(seed))]
    print(
        f"{'start-up':>8}  {'rule':26} {'trace':10} {'over target':>11} {'replica-h':>9} {'changes':>7} {'s/request':>9}"
    )
    sums = dict.fromkeys(RULES, NOTHING)
    for startup_s in STARTUPS_S:
        for name, rule in (RULES | VARIANTS).items():
            for trace_name in dict.fromkeys(trace.name for trace in some) if arguments.by_trace else ():
                of_name = [trace for trace in some if trace.name == trace_name]
                _print(startup_s, name, trace_name, total(rule, of_name, startup_s))
            everything = total(rule, some, startup_s)
            _print(startup_s, name, "all", everything)
            if name in sums:
                sums[name] += everything
    for name, result in sums.items():
        _print("all", name, "all", result)
    print("\nover target: requests that arrived while ready replicas had more than the target each")
    print("s/request: replica-seconds for each request within the target, so both at once\n")
    _verdict(sums)


def _print(startup: int | str, name: str, trace: str, result: Outcome) -> None:
    shown = f"{startup} s" if isinstance(startup, int) else startup
    print(
        f"{shown:>8}  {name:26} {trace:10} {result.share_over_target:>10.2%} {result.replica_hours:>10.1f} "
        f"{result.changes:>7} {result.replica_s_per_good_request:>9.2f}",
        flush=True,
    )


def _verdict(sums: dict[str, Outcome]) -> None:
    ours, knative = sums["Moorage"], sums["Knative"]
    met = ours.share_over_target <= knative.share_over_target and ours.replica_s <= knative.replica_s
    print(
        f"At most Knative's share over target at no more replica-hours, in all: {'met' if met else 'missed'}"
    )
    for name in ("dstack", "SkyServe", "Hugging Face"):
        ahead = ours.replica_s_per_good_request < sums[name].replica_s_per_good_request
        print(f"Ahead of {name} on both together: {'met' if ahead else 'missed'}")


if __name__ == "__main__":
    main()
