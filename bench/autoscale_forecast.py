"""What the forecast is worth: on demand that repeats, on demand that does not, and on real demand."""

import os
from collections.abc import Iterable
from pathlib import Path

from autoscale_patterns import no_patterns, patterns
from autoscale_real import held_out, working
from autoscale_rules import Forecasting, Knative, Moorage, Outcome, outcome
from autoscale_traces import Trace

SLOW_STARTUPS_S = (60, 300)
STARTUPS_S = (5, 60, 300)
MOST_SHARE = 0.7
MOST_WORSE = 1.02
MOST_REAL = 0.9
NOTHING = Outcome(0, 0, 0, 0)
WITHOUT_PEERS = ("Moorage", "without forecast")
ALL = (*WITHOUT_PEERS, "Knative")


def measure_patterns(seeds: Iterable[int]) -> None:
    seeds = tuple(seeds)
    print(f"\nWith a week of history, seeds {', '.join(map(str, seeds))}")
    repeating = [trace for seed in seeds for trace in patterns(seed)]
    others = [trace for seed in seeds for trace in no_patterns(seed)]
    for startup_s in SLOW_STARTUPS_S:
        ours, theirs = _compared(repeating, startup_s)
        share, hours = _ratios(ours, theirs)
        met = share <= MOST_SHARE and hours <= 1
        print(
            f"{startup_s} s, demand that repeats: {share:.2f} × Knative's share over target (at most {MOST_SHARE}) at "
            f"{hours:.3f} × its replica-hours (at most 1): {_said(met)}"
        )
    for startup_s in SLOW_STARTUPS_S:
        worst = 0.0
        for name in dict.fromkeys(trace.name for trace in others):
            found = _all_rules([trace for trace in others if trace.name == name], startup_s, WITHOUT_PEERS)
            worst = max(worst, *_ratios(found["Moorage"], found["without forecast"]))
        print(
            f"{startup_s} s, demand that does not: at worst {worst:.3f} × the share over target or the replica-hours without a "
            f"forecast (at most {MOST_WORSE}): {_said(worst <= MOST_WORSE)}"
        )


def measure_real(*, with_held_out: bool) -> None:
    folder = os.environ.get("MOORAGE_TRACES")
    if not folder:
        print(
            "\nNOT MEASURED: real demand. MOORAGE_TRACES names no folder with public traces (bench/autoscale_real.py)."
        )
        return
    print("\nReal demand that the rule was worked on with")
    _measure_real(working(Path(folder)))
    if with_held_out:
        print("\nReal demand that the rule has never seen")
        _measure_real(held_out(Path(folder)))


def _measure_real(some: list[Trace]) -> None:
    names = dict.fromkeys(_source(trace) for trace in some)
    for startup_s in STARTUPS_S:
        for name in names:
            ours, theirs = _compared(
                [trace for trace in some if _source(trace) == name], startup_s, by_trace=False
            )
            share, hours = _ratios(ours, theirs)
            print(
                f"{startup_s} s, {name}: {share * hours:.2f} × Knative's share over target × replica-hours "
                f"(at most {MOST_REAL}): {_said(share * hours <= MOST_REAL)}"
            )


def _source(trace: Trace) -> str:
    """Clients of one model are one source."""
    return trace.name.rstrip("0123456789 ")


def _compared(some: list[Trace], startup_s: int, *, by_trace: bool = True) -> tuple[Outcome, Outcome]:
    """Ours and Knative's, both printed."""
    sums = dict.fromkeys(ALL, NOTHING)
    for name in dict.fromkeys(trace.name for trace in some):
        found = _all_rules([trace for trace in some if trace.name == name], startup_s, ALL)
        sums = {rule: total + found[rule] for rule, total in sums.items()}
        if by_trace:
            share, hours = _ratios(found["Moorage"], found["Knative"])
            met = _said(share <= MOST_SHARE and hours <= 1)
            print(
                f"{'':10}{name} alone: {share:.2f} × the share, {hours:.3f} × the replica-hours of Knative: {met}"
            )
    if by_trace:
        for rule, total in sums.items():
            _print(startup_s, rule, "all", total)
    return sums["Moorage"], sums["Knative"]


def _all_rules(some: list[Trace], startup_s: int, rules: tuple[str, ...]) -> dict[str, Outcome]:
    sums = dict.fromkeys(rules, NOTHING)
    for trace in some:
        ours = Forecasting()
        found = {"Moorage": outcome(ours, trace, startup_s)}
        # Where nothing was foreseen both are the same, and need not be worked out twice.
        found["without forecast"] = outcome(Moorage(), trace, startup_s) if ours.foresaw else found["Moorage"]
        if "Knative" in rules:
            found["Knative"] = outcome(Knative(), trace, startup_s)
        sums = {rule: total + found[rule] for rule, total in sums.items()}
    for rule, total in sums.items():
        _print(startup_s, rule, some[0].name, total)
    return sums


def _ratios(ours: Outcome, theirs: Outcome) -> tuple[float, float]:
    return ours.share_over_target / theirs.share_over_target, ours.replica_s / theirs.replica_s


def _print(startup_s: int, rule: str, trace: str, result: Outcome) -> None:
    print(
        f"{f'{startup_s} s':>8}  {rule:18} {trace:20} {result.share_over_target:>10.2%} {result.replica_hours:>10.1f} "
        f"{result.changes:>7}",
        flush=True,
    )


def _said(met: bool) -> str:
    return "met" if met else "missed"
