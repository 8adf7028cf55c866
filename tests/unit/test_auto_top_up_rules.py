"""When a saved card is charged, as a table and as months of bad luck."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.billing.auto_top_ups.rules import (
    MOST_FAILURES,
    Policy,
    Situation,
    Step,
    next_step,
    tries_again_at,
)
from moorage.billing.auto_top_ups.words import capped_mail, failed_mail, step_sentence

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
POLICY = Policy(threshold_microusd=10, amount_microusd=50, monthly_cap_microusd=120)


def hours_ago(*hours: float) -> list[datetime]:
    return [NOW - timedelta(hours=one) for one in hours]


@pytest.mark.parametrize(
    ("changes", "step"),
    [
        ({}, Step.CHARGE),
        ({"available_microusd": 10}, Step.ENOUGH),
        ({"charged_microusd": 70}, Step.CHARGE),
        ({"charged_microusd": 71}, Step.CAPPED),
        ({"failures_at": hours_ago(0.9)}, Step.WAITING),
        ({"failures_at": hours_ago(1)}, Step.CHARGE),
        ({"failures_at": hours_ago(7, 5.9)}, Step.WAITING),
        ({"failures_at": hours_ago(8, 6)}, Step.CHARGE),
        ({"failures_at": hours_ago(900, 800, 700)}, Step.PAUSED),
        ({"failures_at": hours_ago(3, 2, 1), "available_microusd": 99}, Step.PAUSED),
        ({"has_card": False}, Step.NO_CARD),
        ({"suspended": True}, Step.SUSPENDED),
    ],
)
def test_steps(changes: dict[str, object], step: Step) -> None:
    usual = {
        "available_microusd": 9,
        "charged_microusd": 0,
        "failures_at": [],
        "has_card": True,
        "suspended": False,
    }
    situation = Situation(**{**usual, **changes})  # type: ignore[arg-type]
    assert next_step(POLICY, situation, NOW) is step
    assert step_sentence(step, POLICY, tries_again_at(situation.failures_at)).endswith(".")


@given(st.lists(st.tuples(st.integers(0, 40), st.booleans(), st.integers(0, 90)), max_size=200))
def test_a_month(ticks: list[tuple[int, bool, int]]) -> None:
    """Money is spent, cards work or do not, and somebody looks every few minutes."""
    now, available, charged = NOW, 100, 0
    failures: list[datetime] = []
    tries: list[tuple[datetime, bool]] = []
    for spent, works, minutes in ticks:
        now += timedelta(minutes=minutes)
        available = max(available - spent, 0)
        situation = Situation(available, charged, failures, has_card=True, suspended=False)
        if next_step(POLICY, situation, now) is not Step.CHARGE:
            continue
        assert available < POLICY.threshold_microusd
        tries.append((now, works))
        if works:
            available, charged, failures = (
                available + POLICY.amount_microusd,
                charged + POLICY.amount_microusd,
                [],
            )
        else:
            failures = [*failures, now]
    assert charged <= POLICY.monthly_cap_microusd
    assert len(failures) <= MOST_FAILURES
    for (before, worked), (after, _) in pairwise(tries):
        assert worked or after - before >= timedelta(hours=1), "never a loop"


def test_words() -> None:
    subject, text = failed_mail(50_000_000, "Declined.", NOW, None, "https://moor.example/billing")
    assert subject == "Your card could not be charged $50.00"
    assert "tries again at 2026-11-15 12:00 UTC" in text
    subject, text = failed_mail(
        50_000_000, "Declined.", None, "https://pay.example/1", "https://moor.example/billing"
    )
    assert subject == "Your bank wants you to confirm $50.00"
    assert "https://pay.example/1" in text
    assert "paused" in text
    assert "$0.00012" in capped_mail(POLICY, "https://moor.example/billing")[1]
