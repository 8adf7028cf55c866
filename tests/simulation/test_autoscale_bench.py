"""The claims of `bench/autoscale.py`, on a seed that the rule was not tuned on."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

from autoscale import NOTHING, total
from autoscale_patterns import lived
from autoscale_rules import Dstack, Forecasting, HuggingFace, Knative, Moorage, SkyServe
from autoscale_traces import Trace, traces


@pytest.fixture(scope="module")
def some() -> list[Trace]:
    return traces(seed=9)


@pytest.mark.long
def test_not_behind_knative_and_far_calmer(some: list[Trace]) -> None:
    ours = sum((total(Moorage, some, startup_s) for startup_s in (5, 300)), NOTHING)
    knative = sum((total(Knative, some, startup_s) for startup_s in (5, 300)), NOTHING)
    # Chance moves both by some tenths of a percent from seed to seed.
    assert ours.share_over_target <= knative.share_over_target + 0.005
    assert ours.replica_s <= knative.replica_s * 1.01
    assert ours.changes <= knative.changes / 1.5


@pytest.mark.parametrize("peer", [Dstack, SkyServe, HuggingFace])
@pytest.mark.long
def test_ahead_of_the_others_on_both_together(some: list[Trace], peer: type) -> None:
    ours, theirs = total(Moorage, some, 60), total(peer, some, 60)
    assert ours.share_over_target < theirs.share_over_target
    assert ours.replica_s_per_good_request < theirs.replica_s_per_good_request


def test_jobs_on_the_hour_find_their_replicas_ready() -> None:
    trace = lived("cron", seed=9, lasts_s=2 * 3600)
    ours, knative = total(Forecasting, [trace], 300), total(Knative, [trace], 300)
    assert ours.share_over_target <= 0.7 * knative.share_over_target


def test_bursts_by_chance_are_not_foreseen() -> None:
    trace = lived("chance bursts", seed=9, lasts_s=1800)
    assert total(Forecasting, [trace], 300) == total(Moorage, [trace], 300)


def test_the_same_seed_gives_the_same_trace() -> None:
    assert traces(seed=3)[0] == traces(seed=3)[0] != traces(seed=4)[0]
