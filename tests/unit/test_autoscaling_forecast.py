"""What a container's history leads to: patterns that are there are found, others are not, and a decision says which."""

import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.autoscaling.decide import Fleet, Limit, Policy, Samples, State, decide
from moorage.autoscaling.outlook import Outlook, look_ahead
from moorage.autoscaling.pattern import DAY, HOUR, RECENT, Demand, Kind, Pattern, learn

MONDAY = 4 * DAY + 2800 * 7 * DAY
"""Minutes since the epoch: a midnight."""
POLICY = Policy(min_replicas=1, max_replicas=10)
STARTUP_S = 300.0


def week(level: Callable[[int], float], days: int = 7, seed: int = 3) -> Demand:
    chance = random.Random(seed)
    minutes = range(MONDAY, MONDAY + days * DAY)
    return Demand(MONDAY, [max(chance.gauss(level(at), 0.26 * math.sqrt(level(at))), 0.0) for at in minutes])


def office(minute: int) -> float:
    is_workday = (minute - MONDAY) // DAY % 7 < 5
    return 40.0 if is_workday and 9 * HOUR <= minute % DAY < 17 * HOUR else 3.0


def job_on_the_hour(minute: int) -> float:
    return 36.0 if minute % HOUR < 6 else 3.0


def test_office_hours_are_those_of_workdays() -> None:
    pattern = learn(week(office), STARTUP_S, target=4)
    assert pattern is not None
    assert pattern.kind is Kind.WORKDAY
    next_monday, next_saturday = MONDAY + 7 * DAY, MONDAY + 12 * DAY
    assert pattern.at(next_monday + 9 * HOUR) == pytest.approx(40, rel=0.15)
    assert pattern.at(next_monday + 7 * HOUR) < 6
    assert pattern.at(next_saturday + 9 * HOUR) < 6


def test_a_job_on_the_hour_is_foreseen_by_the_time_that_a_start_takes() -> None:
    demand = week(job_on_the_hour)
    pattern = learn(demand, STARTUP_S, target=4)
    assert pattern is not None
    next_hour = (MONDAY + 7 * DAY + 5 * HOUR) * 60
    recent = [job_on_the_hour(minute) for minute in range(next_hour // 60 - RECENT, next_hour // 60)]
    long_before = look_ahead(pattern, recent[:-10], next_hour - 600, STARTUP_S)
    in_time = look_ahead(pattern, recent[:-5], next_hour - 300, STARTUP_S)
    assert long_before is not None
    assert in_time is not None
    assert long_before.level < 6
    assert in_time.level == pytest.approx(36, rel=0.15)


def test_chance_is_no_pattern() -> None:
    chance = random.Random(5)
    begun = {chance.randrange(7 * DAY): chance.uniform(10, 50) for _ in range(150)}
    levels = [3.0] * (7 * DAY)
    for begins, height in begun.items():
        for minute in range(begins, min(begins + chance.randint(2, 12), 7 * DAY)):
            levels[minute] += height
    assert learn(Demand(MONDAY, levels), STARTUP_S, target=4) is None


def test_a_level_that_never_changes_needs_no_forecast() -> None:
    assert learn(week(lambda _: 20.0), STARTUP_S, target=4) is None


def test_one_day_is_no_history() -> None:
    assert learn(week(job_on_the_hour, days=1), STARTUP_S, target=4) is None


def test_a_pattern_that_ended_is_none() -> None:
    demand = week(job_on_the_hour)
    ended = Demand(MONDAY, [*demand.levels[: 3 * DAY], *[3.0] * (4 * DAY)])
    assert learn(ended, STARTUP_S, target=4) is None


PATTERN = Pattern(Kind.DAY, tuple(10.0 for _ in range(DAY)), (0.0,) * DAY, mean=10.0)


@pytest.mark.parametrize(
    ("startup_s", "foresees"), [(None, False), (5.0, False), (60.0, True), (7200.0, False)]
)
def test_only_starts_that_take_their_time_need_a_forecast(startup_s: float | None, foresees: bool) -> None:
    found = look_ahead(PATTERN, [10.0] * RECENT, MONDAY * 60, startup_s)
    assert (found is not None) == foresees


def test_a_busier_day_is_expected_to_stay_busier_and_within_bounds() -> None:
    for recent, low, high in ((10.0, 9.9, 10.1), (13.0, 11.5, 13.0), (100.0, 15.9, 16.1), (0.0, 5.9, 6.1)):
        found = look_ahead(PATTERN, [recent] * RECENT, MONDAY * 60, 60.0)
        assert found is not None
        assert low <= found.level <= high


def steady(level: float, before: float | None = None) -> Samples:
    return Samples([level] * 600, before if before is not None else level)


def expects(level: float) -> Outlook:
    return Outlook(level, 9 * 3600, 9 * 3600 + 360, Kind.WORKDAY)


def test_replicas_are_asked_for_before_they_are_needed_and_the_decision_says_so() -> None:
    decision = decide(POLICY, steady(3), Fleet(2, startup_s=300), State(2), 0, expects(20))
    assert decision.replicas == 7
    assert (
        decision.reason
        == "20.0 in flight expected at 09:00 UTC, as on such days before, + headroom 7.4 = 27.4, ÷ 4 → 7 replicas."
    )
    assert (decision.evidence.foreseen, decision.evidence.pattern) == (20, "workday")


def test_no_forecast_goes_above_the_maximum() -> None:
    decision = decide(POLICY, steady(3), Fleet(2, startup_s=300), State(2), 0, expects(200))
    assert (decision.replicas, decision.limit) == (10, Limit.MAX)
    assert "capped by max 10" in decision.reason


def test_what_is_expected_again_is_kept() -> None:
    decision = decide(POLICY, steady(3), Fleet(7, startup_s=300), State(7), 100, expects(20))
    assert decision.replicas == 7


def test_a_load_that_was_to_end_and_ended_is_given_back_at_once() -> None:
    ended = steady(3, before=25)
    kept = decide(POLICY, ended, Fleet(9, startup_s=300), State(9), 100)
    given_back = decide(POLICY, ended, Fleet(9, startup_s=300), State(9), 100, expects(3))
    assert kept.replicas == 9
    assert given_back.replicas == 2
    assert "No more is expected until 09:06 UTC, as on such days before." in given_back.reason


def test_a_load_that_did_not_end_as_expected_is_served() -> None:
    there = decide(POLICY, steady(25), Fleet(9, startup_s=300), State(9), 100, expects(3))
    assert there.replicas == 9


@settings(max_examples=25)
@given(st.lists(st.floats(0, 200), min_size=1, max_size=60), st.floats(0, 200), st.integers(1, 10))
def test_a_forecast_leaves_at_least_what_the_last_seconds_need(
    seconds: list[float], expected: float, replicas: int
) -> None:
    samples, fleet = Samples(seconds, sum(seconds) / len(seconds)), Fleet(replicas, startup_s=300)
    plain = decide(POLICY, samples, fleet, State(replicas), 100)
    foreseeing = decide(POLICY, samples, fleet, State(replicas), 100, expects(expected))
    last = sum(seconds[-6:]) / len(seconds[-6:])
    assert foreseeing.wanted >= min(plain.wanted, math.ceil(last / POLICY.target_concurrency - 1e-9))
    assert 1 <= foreseeing.replicas <= POLICY.max_replicas
