"""Spending limits and warnings, as tables and properties."""

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.billing.alerts.rules import ALERT_PERCENTS, due_alert, due_warning
from moorage.billing.alerts.words import limit_mail, low_credit_mail, stop_mail
from moorage.ledger.spending import Limit, Spent, next_month, over_limit_sentence, tightest

MONTH = date(2026, 11, 1)
NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)


def limit(limit_microusd: int, bought: int = 0, held: int = 0, scope_id: str = "org_1") -> Limit:
    return Limit(scope_id, limit_microusd, Spent(bought, held), MONTH)


@pytest.mark.parametrize(
    ("spent", "told", "due"),
    [
        (0, 0, None),
        (49, 0, None),
        (50, 0, 50),
        (50, 50, None),
        (79, 50, None),
        (80, 50, 80),
        (99, 80, None),
        (100, 80, 100),
        (100, 100, None),
        (150, 0, 100),  # the limit was lowered: one mail, not three
        (85, 0, 80),
    ],
)
def test_alerts(spent: int, told: int, due: int | None) -> None:
    assert due_alert(limit(100, spent), told) == due


@given(st.lists(st.integers(0, 40)), st.integers(1, 500))
def test_each_alert_comes_once_and_in_order(purchases: list[int], limit_microusd: int) -> None:
    told, spent, alerts = 0, 0, []
    for price in purchases:
        spent += price
        for _ in range(3):
            due = due_alert(limit(limit_microusd, spent), told)
            if due is not None:
                alerts.append(due)
                told = due
    assert alerts == sorted(set(alerts))
    reached = [percent for percent in ALERT_PERCENTS if spent * 100 >= percent * limit_microusd]
    assert alerts[-1:] == reached[-1:], "the highest share that is spent was told"


def test_what_is_held_counts_for_what_is_left_and_not_as_spent() -> None:
    assert limit(100, 40, 20).left_microusd == 40
    assert limit(100, 40, 80).left_microusd == 0
    assert due_alert(limit(100, 40, 20), 0) is None


def test_the_tightest_limit_binds() -> None:
    organization, project = limit(100, 90), limit(50, 45, scope_id="prj_1")
    assert tightest([organization, project]) == project
    assert tightest([]) is None


@pytest.mark.parametrize(
    ("left_h", "told_h", "due"),
    [
        (None, None, None),
        (25, None, None),
        (24, None, 24),
        (2, 24, None),
        (1, 24, 1),
        (1, None, 1),
        (0, 1, None),
        (-1, None, 1),
        (20, 1, None),  # what stopped for a while is no reason to warn again
    ],
)
def test_warnings(left_h: int | None, told_h: int | None, due: int | None) -> None:
    runs_out_at = None if left_h is None else NOW + timedelta(hours=left_h)
    assert due_warning(runs_out_at, NOW, told_h) == due


@given(st.dates(date(2000, 1, 1), date(2100, 12, 1)).map(lambda day: day.replace(day=1)))
def test_a_month_follows_another(month: date) -> None:
    following = next_month(month)
    assert following.day == 1
    assert 28 <= (following - month).days <= 31


def test_words() -> None:
    over = limit(5_000_000, 4_990_000, scope_id="prj_1")
    assert over_limit_sentence(over, 20_000) == (
        "This needs $0.02. The monthly spending limit of this project is $5.00, of which $0.01 is left until "
        "2026-12-01. An admin can raise it: under Billing, or with `moor billing limits`."
    )
    subject, text = limit_mail("the project chat", over, 80, "https://moor.example/billing")
    assert subject == "80 % of the monthly spending limit of the project chat is spent"
    assert "$4.99 of $5.00 has been spent in November 2026." in text
    assert "reached" in limit_mail("Acme", over, 100, "https://moor.example/billing")[0]
    subject, text = low_credit_mail("Acme", 1, 320_000, NOW, "https://moor.example/billing")
    assert subject == "The credit of Acme runs out within an hour"
    assert "$0.32 of credit is left" in text
    assert "Sunday 2026-11-15 at 12:00 UTC" in text
    assert "spending limit of $5.00" in stop_mail("chat", over)[1]
    assert "Top up" in stop_mail("chat", None)[1]
