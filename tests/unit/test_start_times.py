"""What starts that were looked at took, and what that says about the next one."""

from dataclasses import replace

import pytest

from moorage.containers.caches.filling import Sample
from moorage.containers.start_times.measuring import (
    Filled,
    Measured,
    PastStep,
    Step,
    of_pull,
    of_start,
    with_look,
)
from moorage.models.start_estimate import StartEstimate, estimate

MIB = 2**20
GIB = 2**30
MINE, THEIRS = "org_mine", "org_theirs"


def looked_at(*samples: tuple[float, int, int]) -> Filled:
    """(moment, bytes of weights, compiled bytes)"""
    filled = None
    for at_s, weights, compiled in samples:
        filled = with_look(filled, Sample(at_s, weights + compiled, compiled))
    assert filled is not None
    return filled


def test_a_first_start_is_a_download_and_then_loading() -> None:
    filled = looked_at(
        (100, 0, 0), (110, 4 * GIB, 0), (120, 8 * GIB, 0), (122, 8 * GIB, 0), (130, 8 * GIB, GIB)
    )
    assert of_start(filled, running_s=51, now_s=150) == [
        Measured(Step.DOWNLOAD, 8 * GIB, 20),
        Measured(Step.LOAD, 8 * GIB, 30),
    ]


def test_a_later_start_is_one_piece() -> None:
    filled = looked_at((100, 8 * GIB, GIB), (110, 8 * GIB + 10, GIB))
    assert of_start(filled, running_s=41, now_s=140) == (Measured(Step.AGAIN, 8 * GIB + 10, 41),)


def test_what_was_trimmed_meanwhile_is_not_taken_for_less_of_a_download() -> None:
    filled = looked_at((100, 5 * GIB, 0), (110, 9 * GIB, 0), (112, 4 * GIB, 0), (120, 8 * GIB, 0))
    assert filled.fetched_bytes == 8 * GIB


@pytest.mark.parametrize(
    ("samples", "running_s"),
    [
        ([(130, GIB, 0), (140, 8 * GIB, 0)], 50),
        ([(100, 0, 0), (101, 10 * MIB, 0)], 50),
        ([(100, 0, 5 * GIB)], 50),
    ],
    ids=["half of it was over when somebody looked", "a small model", "its weights are elsewhere"],
)
def test_what_was_not_seen_is_not_said(samples: list[tuple[float, int, int]], running_s: float) -> None:
    assert of_start(looked_at(*samples), running_s, now_s=150) == ()
    assert of_start(None, running_s, now_s=150) == ()


def test_a_download_of_a_moment_says_how_long_loading_took_and_no_rate() -> None:
    found = of_start(looked_at((100, 0, 0), (102, GIB, 0)), running_s=51, now_s=150)
    assert found == [Measured(Step.LOAD, GIB, 48)]


def test_a_pull_of_a_moment_says_nothing() -> None:
    assert of_pull(GIB, 10) == (Measured(Step.PULL, GIB, 10),)
    assert of_pull(GIB, 0.5) == of_pull(MIB, 10) == of_pull(0, 10) == ()


def past(step: Step, size: int, took_s: float, **what: str) -> PastStep:
    common = {"organization_id": MINE, "infrastructure": "operator", "instance_type": "l4", "image": "vllm:1"}
    return PastStep(**{**common, **what}, step=step, bytes=size, took_s=took_s)  # type: ignore[arg-type]


def of(*steps: PastStep) -> StartEstimate:
    return estimate(
        steps, MINE, infrastructure="operator", instance_type="l4", image="vllm:1", download_bytes=10 * GIB
    )


NOTHING = StartEstimate(None, None, None, None, own=True)


def test_where_nothing_was_measured_nothing_is_said() -> None:
    assert of() == NOTHING


def test_its_own_starts_say_all_of_it() -> None:
    found = of(
        past(Step.PULL, 8 * GIB, 40, image="other:1"),
        past(Step.DOWNLOAD, 20 * GIB, 100, instance_type="h100"),
        past(Step.LOAD, 10 * GIB, 50),
        past(Step.LOAD, 10 * GIB + MIB, 54),
        past(Step.LOAD, 10 * GIB, 500),
        past(Step.AGAIN, 10 * GIB, 30),
        past(Step.PULL, GIB, 1000, organization_id=THEIRS),
    )
    assert found == StartEstimate(round(8 * GIB / 40), 50, 54, 30, own=True)


@pytest.mark.parametrize(
    "other",
    [
        {"organization_id": THEIRS},
        {"image": "vllm:2"},
        {"instance_type": "h100"},
        {"infrastructure": "community"},
    ],
    ids=lambda one: next(iter(one)),
)
def test_loading_is_of_the_same_server_on_the_same_type_and_nobody_elses(other: dict[str, str]) -> None:
    steps = [past(Step.LOAD, 10 * GIB, 50, **other), past(Step.AGAIN, 10 * GIB, 50, **other)]
    assert of(*steps) == NOTHING
    assert of(past(Step.LOAD, 5 * GIB, 50)) == NOTHING, "and of weights of that size"


def test_rates_of_others_help_where_there_are_none_of_its_own_and_each_counts_once() -> None:
    slow = [past(Step.DOWNLOAD, GIB, 10_000, organization_id="org_slow") for _ in range(50)]
    others = [
        *slow,
        past(Step.DOWNLOAD, GIB, 1, organization_id="org_a"),
        past(Step.DOWNLOAD, GIB, 2, organization_id="org_b"),
    ]
    found = of(*others)
    assert found == replace(NOTHING, download_s=20, own=False)
    own = of(*others, past(Step.DOWNLOAD, GIB, 5))
    assert own == replace(NOTHING, download_s=50)
    elsewhere = [replace(one, infrastructure="community") for one in others]
    assert of(*elsewhere) == NOTHING
