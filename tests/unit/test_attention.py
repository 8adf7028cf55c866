"""Since when somebody looks: what counts as an absence, and what a clock does to it."""

from datetime import UTC, datetime, timedelta

from moorage.containers.attention import ABSENT_AFTER, LONGEST_LOOK, counted_from, watched_since

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
BEFORE = NOW - timedelta(hours=3)


def test_a_pass_in_time_changes_nothing() -> None:
    for late in (timedelta(), ABSENT_AFTER, -LONGEST_LOOK):
        assert watched_since(BEFORE, NOW - late, NOW) == BEFORE
        assert watched_since(None, NOW - late, NOW) is None


def test_a_pass_that_nobody_waited_for_is_never_late() -> None:
    assert watched_since(BEFORE, None, NOW) == BEFORE


def test_a_late_pass_ends_an_absence() -> None:
    assert watched_since(None, NOW - ABSENT_AFTER - SECOND, NOW) == NOW
    assert watched_since(BEFORE, NOW - timedelta(days=2), NOW) == NOW


def test_a_pass_that_is_planned_later_than_any_can_be_tells_of_a_clock_that_was_set_back() -> None:
    assert watched_since(BEFORE, NOW + timedelta(hours=1), NOW) == NOW
    assert watched_since(NOW + timedelta(hours=1), None, NOW) == NOW, "nobody has looked since a time to come"


def test_time_counts_while_somebody_looks() -> None:
    assert counted_from(BEFORE, None, NOW) == BEFORE
    assert counted_from(BEFORE, NOW - SECOND, NOW) == NOW - SECOND
    assert counted_from(NOW - SECOND, BEFORE, NOW) == NOW - SECOND
    assert counted_from(NOW + timedelta(hours=1), NOW - SECOND, NOW) == NOW - SECOND, "the clock was set back"
