"""When a version beside another has to go, and how its answers are counted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.containers.states import Reason
from moorage.containers.update_rule import LEAST_ERRORS, Figures, errors_above_bound, slower_than_before
from moorage.gateway.answers_read import Answers, Counters, Growth, SlotAnswers, slot_answers
from moorage.kit.histogram import bucket_of
from moorage.kit.ids import ReplicaId

GOOD = Figures(10_000, 0)


@pytest.mark.parametrize(
    ("new", "old", "goes"),
    [
        (Figures(0, 0), GOOD, False),
        (Figures(4, 4), GOOD, False),  # too few to say anything
        (Figures(5, 5), GOOD, True),
        (Figures(1000, 10), GOOD, False),  # at the bound
        (Figures(1000, 11), GOOD, True),
        (Figures(1000, 30), Figures(1000, 20), False),  # its clients ask for errors
        (Figures(1000, 31), Figures(1000, 20), True),
        (Figures(1000, 31), Figures(0, 0), True),  # nobody to compare with
    ],
)
def test_the_bound(new: Figures, old: Figures, goes: bool) -> None:
    verdict = errors_above_bound(new, old, 1.0)
    assert (verdict is not None) == goes
    assert verdict is None or verdict.reason is Reason.ERRORS_ABOVE_BOUND


@given(
    st.integers(0, 10_000),
    st.integers(0, 10_000),
    st.integers(0, 10_000),
    st.integers(0, 10_000),
    st.floats(0, 100),
)
def test_what_is_no_worse_than_the_version_before_stays(
    answers: int, errors: int, more: int, fewer: int, bound: float
) -> None:
    answers = max(answers, errors)
    old, new = Figures(answers + more, errors), Figures(answers, errors)
    if new.error_percent <= old.error_percent:
        assert errors_above_bound(new, old, bound) is None
    verdict = errors_above_bound(Figures(answers + fewer, answers + fewer), Figures(answers, 0), 1.0)
    assert (verdict is not None) == (answers + fewer >= LEAST_ERRORS)


def row(name: str, ok: int, failed: int, broken: int = 0) -> dict[str, str]:
    classes = {"hrsp_1xx": "0", "hrsp_3xx": "", "hrsp_4xx": "0", "hrsp_other": "0"}
    return {"svname": name, "hrsp_2xx": str(ok), "hrsp_5xx": str(failed), "eresp": str(broken), **classes}


OLD, NEW = ReplicaId("rep_old"), ReplicaId("rep_new")


def test_what_a_slot_says() -> None:
    said = slot_answers([row(OLD, 7, 2, 1), row("BACKEND", 7, 3)])
    assert said == SlotAnswers(3, {OLD: Counters(9, 2, 1)})


def test_each_answer_is_counted_once() -> None:
    growth = Growth()
    assert growth.look({1: SlotAnswers(5, {OLD: Counters(500, 5)})}, new=()) == {}, "before, nobody asked"
    looks = [
        ((6, {OLD: Counters(510, 5), NEW: Counters(3, 1)}), {OLD: Answers(10, 0), NEW: Answers(3, 1)}),
        ((6, {OLD: Counters(510, 5), NEW: Counters(4, 1)}), {NEW: Answers(1, 0)}),
        (
            (1, {OLD: Counters(2, 0), NEW: Counters(1, 1)}),
            {OLD: Answers(2, 0), NEW: Answers(1, 1)},
        ),  # another worker
    ]
    for (failed, servers), grown in looks:
        assert growth.look({1: SlotAnswers(failed, servers)}, new={NEW}) == grown


def test_what_breaks_without_an_answer_is_what_the_gateway_answered_for_it() -> None:
    growth = Growth()
    growth.look({1: SlotAnswers(0, {OLD: Counters(), NEW: Counters()})}, new={NEW})
    servers = {OLD: Counters(100, 0), NEW: Counters(90, 2, broken=21)}
    assert growth.look({1: SlotAnswers(12, servers)}, new={NEW}) == {
        OLD: Answers(100, 0),
        NEW: Answers(100, 12),
    }
    # Tries that another replica answered harm nobody.
    servers = {OLD: Counters(110, 0), NEW: Counters(90, 2, broken=25)}
    assert growth.look({1: SlotAnswers(12, servers)}, new={NEW}) == {OLD: Answers(10, 0)}


def timed(**answers_by_ms: int) -> Figures:
    return Figures(took={bucket_of(int(ms[2:])): answers for ms, answers in answers_by_ms.items()})


@pytest.mark.parametrize(
    ("new", "goes"),
    [
        (timed(ms100=1000), False),
        (timed(ms145=1000), False),  # slower, within the bound
        (timed(ms160=1000), True),
        (timed(ms100=950, ms900=50), False),  # as many slow ones as the other has
        (timed(ms100=920, ms900=80), True),
        (timed(ms100=98, ms900=12), False),  # could be chance
        (timed(ms900=99), False),  # too few to say anything
        (timed(ms900=100), True),
    ],
)
def test_clearly_slower(new: Figures, goes: bool) -> None:
    old = timed(ms10=5000, ms100=4500, ms500=450)
    verdict = slower_than_before(new, old, 50, 100)
    assert (verdict is not None) == goes
    assert verdict is None or verdict.reason is Reason.SLOWER_THAN_BEFORE
    assert slower_than_before(new, timed(ms100=99), 50, 100) is None, "nobody to compare with"


@given(st.lists(st.integers(0, 60_000), min_size=100, max_size=400))
@pytest.mark.long
def test_as_fast_as_the_other_is_never_too_slow(took_ms: list[int]) -> None:
    histogram: dict[int, int] = {}
    for one in took_ms:
        histogram[bucket_of(one)] = histogram.get(bucket_of(one), 0) + 1
    assert slower_than_before(Figures(took=histogram), Figures(took=histogram), 0, 100) is None
