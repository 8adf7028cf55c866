"""Timelines of one container's demand: how many replicas it is given, when, and what it is told."""

import math
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.autoscaling.decide import (
    HISTORY_S,
    REST_AFTER_UP_S,
    TICK_S,
    Decision,
    Fleet,
    Limit,
    Policy,
    Samples,
    State,
    decide,
)

POLICY = Policy(min_replicas=1, max_replicas=10)


def play(
    demand: Sequence[float],
    policy: Policy = POLICY,
    *,
    start: int = 1,
    startup_s: float | None = 5.0,
    fleet: Callable[[int], Fleet] | None = None,
) -> list[Decision]:
    """A decision every tick; the replicas asked for are ready at once unless `fleet` says otherwise."""
    state, decisions = State(start), []
    for t in range(TICK_S, len(demand) + 1, TICK_S):
        window = max(policy.scale_down_delay_s, 1)
        known = demand[max(t - window, 0) : t]
        samples = Samples(demand[max(t - HISTORY_S, 0) : t], sum(known) / len(known))
        there = fleet(state.replicas) if fleet else Fleet(ready=state.replicas, startup_s=startup_s)
        decision = decide(policy, samples, there, state, t)
        state = decision.state
        decisions.append(decision)
    return decisions


def first_at(decisions: list[Decision], replicas: int) -> int:
    """After how many seconds that many were asked for."""
    return next(i + 1 for i, decision in enumerate(decisions) if decision.replicas >= replicas) * TICK_S


def counts(decisions: list[Decision]) -> list[int]:
    return [decision.replicas for decision in decisions]


def changes(decisions: list[Decision], start: int = 1) -> int:
    return sum(1 for one, other in pairwise([start, *counts(decisions)]) if one != other)


@pytest.mark.parametrize(("in_flight", "replicas"), [(0, 1), (2, 1), (4, 2), (10, 4), (19, 7), (100, 10)])
def test_steady_demand_is_served_at_the_target_with_headroom(in_flight: float, replicas: int) -> None:
    assert play([in_flight] * 600)[-1].replicas == replicas


@pytest.mark.parametrize("overload", [7, 8, 12, 40])
def test_sustained_overload_is_answered_within_four_seconds(overload: float) -> None:
    calm = [1.0] * 120
    assert first_at(play(calm + [overload] * 10), 2) - len(calm) <= 4


def test_slight_overload_is_answered_within_the_panic_window() -> None:
    calm = [3.0] * 120
    assert first_at(play([*calm, *[5.0] * 20]), 2) - len(calm) <= 8


def test_one_busy_second_is_no_overload() -> None:
    assert counts(play([1.0] * 60 + [9.0] + [1.0] * 60)) == [1] * 60


def test_what_a_load_needed_is_given_back_evenly_and_all_of_it_after_the_delay() -> None:
    busy = [20.0] * 600
    after = play(busy + [0.0] * 320)[300:]
    assert after[0].replicas == 7
    assert after[29].replicas >= 6, "a minute later most of it is still there"
    assert after[74].replicas in range(3, 6), "half of the delay, about half of the replicas"
    assert after[-1].replicas == 1
    assert counts(after) == sorted(counts(after), reverse=True), "and none comes back on the way"
    held = after[30]
    assert held.limit is Limit.DELAY
    assert held.wanted < held.replicas
    assert "until the mean over 300 s falls" in held.reason


@pytest.mark.parametrize("delay_s", [0, 10, 60, 900])
def test_the_delay_is_the_users(delay_s: int) -> None:
    policy = Policy(1, 10, scale_down_delay_s=delay_s)
    after = play([20.0] * 1000 + [0.0] * 1000, policy)[500:]
    back_s = next(i + 1 for i, decision in enumerate(after) if decision.replicas == 1) * TICK_S
    assert 0.8 * delay_s <= back_s <= max(delay_s, 6) + TICK_S


def test_a_burst_that_comes_back_within_the_rest_finds_its_replicas() -> None:
    policy = Policy(1, 10, scale_down_delay_s=0)
    decisions = play([0.0] * 60 + [20.0] * 4 + [0.0] * 20, policy)
    peak = max(counts(decisions))
    assert peak > 1
    assert decisions[-1].replicas == peak
    assert (20 - TICK_S) < REST_AFTER_UP_S


def test_noise_does_not_make_replicas_come_and_go() -> None:
    wobble = [10.0, 12.0, 9.0, 11.0, 13.0, 8.0, 10.0, 11.0] * 150
    assert changes(play(wobble)[150:], start=play(wobble)[149].replicas) <= 2


def test_a_ramp_is_met_ahead_by_what_starts_slowly() -> None:
    ramp = [4 + 36 * t / 1200 for t in range(1200)]
    quick, slow = play(ramp, startup_s=5), play(ramp, startup_s=120)
    assert first_at(slow, 8) < first_at(quick, 8)


def test_a_step_is_not_taken_for_a_trend() -> None:
    step = [4.0] * 600 + [20.0] * 600
    assert max(counts(play(step, startup_s=120))) == max(counts(play(step, startup_s=5)))


def test_max_is_said() -> None:
    decision = play([14.0] * 300, Policy(1, 3))[-1]
    assert (decision.replicas, decision.wanted, decision.limit) == (3, 5, Limit.MAX)
    assert "Wants 5, capped by max 3." in decision.reason


def test_min_is_said() -> None:
    decision = play([0.0] * 300, Policy(2, 3), start=2)[-1]
    assert (decision.replicas, decision.wanted, decision.limit) == (2, 0, Limit.MIN)
    assert "Stays at min 2." in decision.reason


@pytest.mark.parametrize(("demand", "replicas", "after"), [(0.0, 1, 2), (30.0, 9, 4)])
def test_a_policy_that_changed_is_kept_at_once(demand: float, replicas: int, after: int) -> None:
    assert play([demand] * 2, Policy(2, 4), start=replicas)[-1].replicas == after


def test_credit_capacity_and_health_are_said() -> None:
    def with_fleet(**changes: object) -> Decision:
        return play([10.0] * 120, start=4, fleet=lambda n: Fleet(ready=2, **changes))[-1]  # type: ignore[arg-type]

    assert with_fleet(waits_for=Limit.CREDIT).reason.endswith("Wants 4, capped by credit: 2 are paid for.")
    assert with_fleet(waits_for=Limit.CAPACITY).reason.endswith("Waits for capacity for 2 of 4.")
    failing = with_fleet(failing=2)
    assert failing.reason.endswith("2 replicas fail their health check.")
    assert failing.limit is Limit.HEALTH


def test_replicas_that_fail_are_not_counted_on_when_others_go() -> None:
    policy = Policy(1, 10, scale_down_delay_s=10)
    demand = [1.0] * 120
    healthy = play(demand, policy, start=5)[-1]
    failing = play(demand, policy, start=5, fleet=lambda n: Fleet(ready=n - 2, failing=2))[-1]
    assert (healthy.replicas, failing.replicas) == (1, 3)


def test_a_silent_gateway_blocks_scale_down_and_not_scale_up() -> None:
    idle = decide(POLICY, Samples([0.0] * 60, 0.0, ("gtw_b",)), Fleet(4), State(4), 1000)
    assert (idle.replicas, idle.limit) == (4, Limit.SILENT_GATEWAY)
    assert "gateway gtw_b is silent" in idle.reason
    busy = decide(POLICY, Samples([40.0] * 60, 40.0, ("gtw_b",)), Fleet(4), State(4), 1000)
    assert busy.replicas == 10


def test_no_samples_no_change() -> None:
    decision = decide(POLICY, Samples([], 0.0), Fleet(3), State(3), 1000)
    assert (decision.replicas, decision.limit) == (3, Limit.NO_SAMPLES)


levels = st.lists(st.floats(0, 500), min_size=1, max_size=200)
policies = st.builds(
    lambda low, more, target, delay: Policy(low, low + more, target, delay),
    st.integers(1, 30),
    st.integers(0, 30),
    st.integers(1, 100),
    st.integers(0, 600),
)
fleets = st.builds(
    Fleet,
    st.integers(0, 60),
    st.integers(0, 60),
    st.integers(0, 5),
    st.sampled_from([None, Limit.CREDIT, Limit.CAPACITY]),
    st.none() | st.floats(0, 3600),
)


@given(levels, policies, fleets, st.integers(1, 60), st.floats(0, 500), st.booleans())
def test_always_within_the_policy_and_with_a_reason(
    seconds: list[float], policy: Policy, fleet: Fleet, replicas: int, delay_mean: float, silent: bool
) -> None:
    samples = Samples(seconds, delay_mean, ("gtw_a",) if silent else ())
    decision = decide(policy, samples, fleet, State(replicas, 990.0), 1000.0)
    assert policy.min_replicas <= decision.replicas <= policy.max_replicas
    assert decision.state.replicas == decision.replicas
    assert decision.reason.endswith(".")
    assert decision.reason[0].isupper() or decision.reason[0].isdigit()
    if decision.wanted > policy.max_replicas:
        assert decision.limit is Limit.MAX
    if silent:
        assert decision.replicas >= min(replicas, policy.max_replicas)
    if policy.min_replicas <= decision.wanted <= policy.max_replicas:
        assert decision.replicas >= decision.wanted


@given(levels, policies, fleets, st.integers(1, 60), st.floats(0, 500))
def test_more_demand_never_gets_less(
    seconds: list[float], policy: Policy, fleet: Fleet, replicas: int, delay_mean: float
) -> None:
    # A forecast depends on the shape of demand, not only on its size.
    fleet = Fleet(fleet.ready, fleet.coming, fleet.failing, fleet.waits_for)
    less = decide(policy, Samples(seconds, delay_mean), fleet, State(replicas), 1000.0)
    doubled = [2 * second for second in seconds]
    more = decide(policy, Samples(doubled, 2 * delay_mean), fleet, State(replicas), 1000.0)
    assert more.replicas >= less.replicas


@given(st.lists(st.floats(0, 100), min_size=2, max_size=120), st.integers(2, 10))
@pytest.mark.long
def test_constant_demand_settles(noise: list[float], replicas: int) -> None:
    """Whatever came before, a constant level ends in one number, and that number stays."""
    decisions = play([*noise, *[12.0] * 800], start=replicas)
    assert len(set(counts(decisions)[-60:])) == 1
    assert decisions[-1].replicas >= 3


@given(st.floats(0, 500), st.integers(1, 20))
def test_whoever_adds_the_reason_up_comes_to_the_same(demand: float, target: int) -> None:
    policy = Policy(min_replicas=1, max_replicas=10, target_concurrency=target)
    decision = decide(policy, Samples([demand] * 60, demand), Fleet(1), State(1), 0)
    said = re.match(
        r"\D*([\d.]+) in flight.* \+ headroom ([\d.]+) = ([\d.]+), ÷ (\d+) → (\d+) ", decision.reason
    )
    assert said, decision.reason
    in_flight, headroom, level = (round(10 * float(said[group])) for group in (1, 2, 3))
    assert in_flight + headroom == level
    assert math.ceil(Fraction(level, 10 * int(said[4]))) == int(said[5]) == decision.wanted
