"""Whose turn it is to fill a cache, what goes first, what a start waits for, and where programs look."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.containers.caches.filling import Sample, step_of, with_sample
from moorage.containers.caches.fullness import Idle, outdated
from moorage.containers.caches.turns import Turn, not_their_turn, untried
from moorage.containers.states import ReplicaState
from moorage.engines.base import DiskSpace
from moorage.engines.cache_environment import CACHE_FOLDER, cache_variables

GIB = 2**30
NOW = datetime(2030, 1, 1, tzinfo=UTC)
KEPT = timedelta(days=14)


def turn(
    number: int,
    state: ReplicaState = ReplicaState.REQUESTED,
    engine: str = "a",
    version: int = 1,
    begun: bool = False,
    generation: int = 1,
) -> Turn:
    return Turn(f"rep_{number}", number, engine, generation, version, state, begun)


def test_one_goes_first_on_each_machine() -> None:
    turns = [turn(1), turn(0), turn(2, engine="b"), turn(3, engine="b")]
    assert not_their_turn(turns, {"a": 0, "b": 0}) == {"rep_1", "rep_3"}


@pytest.mark.parametrize(
    "first",
    [turn(0, ReplicaState.STARTING), turn(0, begun=True)],
    ids=["has a process", "is being started"],
)
def test_the_others_wait_until_it_is_ready(first: Turn) -> None:
    assert not_their_turn([first, turn(1), turn(2)], {"a": 0}) == {"rep_1", "rep_2"}


def test_nobody_waits_where_the_cache_is_full_of_what_this_version_needs() -> None:
    turns = [turn(0), turn(1), turn(2, version=2), turn(3, version=2)]
    assert not_their_turn(turns, {"a": 1}) == {"rep_3"}
    assert not_their_turn(turns, {"a": 2}) == frozenset()
    assert not_their_turn(turns, {}) == frozenset()


def test_nobody_waits_for_one_of_another_generation() -> None:
    hangs = turn(0, ReplicaState.STARTING)
    turns = [hangs, turn(1), turn(2, generation=2), turn(3, generation=2)]
    assert not_their_turn(turns, {"a": 0}) == {"rep_1", "rep_3"}


def test_who_has_not_begun_shows_nothing_about_the_container() -> None:
    turns = [turn(0, ReplicaState.STOPPED), turn(1), turn(2, begun=True), turn(3, engine="b")]
    assert untried(turns, {"a": 0}) == {"rep_1"}
    assert untried(turns, {"a": 1}) == frozenset()


_TURNS = st.lists(
    st.builds(
        Turn,
        st.integers(0, 10**6).map(lambda number: f"rep_{number}"),
        st.integers(0, 5),
        st.sampled_from("ab"),
        st.integers(1, 3),
        st.integers(1, 3),
        st.sampled_from(ReplicaState),
        st.booleans(),
    ),
    unique_by=lambda one: one.replica_id,
)


@given(_TURNS, st.dictionaries(st.sampled_from("ab"), st.integers(0, 3)))
def test_somebody_always_goes(turns: list[Turn], warm: dict[str, int]) -> None:
    """Nobody waits for ever: where one waits, one that is not waiting fills that machine's cache, or may begin to."""
    waiting = not_their_turn(turns, warm)
    for one in turns:
        if one.replica_id in waiting:
            others = [
                other for other in turns if other.engine == one.engine and other.replica_id not in waiting
            ]
            assert any(
                other.state is ReplicaState.STARTING or other.state is ReplicaState.REQUESTED
                for other in others
            )


def idle(name: str, hours: float, size_gib: int = 10) -> Idle:
    return Idle(name, size_gib * GIB, NOW - timedelta(hours=hours))


def test_unused_ones_go_by_age_and_more_of_them_where_the_disk_fills() -> None:
    caches = [idle("new", 1), idle("older", 30), idle("oldest", 40), idle("forgotten", 24 * 15)]
    plenty, little = DiskSpace(1000 * GIB, 500 * GIB), DiskSpace(1000 * GIB, GIB)

    def going(space: DiskSpace | None) -> list[str]:
        return [one.container_id for one in outdated(caches, space, KEPT, NOW)]

    assert going(plenty) == going(None) == ["forgotten"]
    # Eight GiB are wanted, and the forgotten one gives ten.
    assert going(little) == ["forgotten"]
    caches = caches[:3]
    assert going(little) == ["oldest"]
    caches = [idle("new", 1, 3), idle("older", 30, 3), idle("oldest", 40, 3)]
    assert going(little) == ["oldest", "older", "new"]


def test_what_a_start_waits_for() -> None:
    samples: tuple[Sample, ...] = ()
    assert step_of(samples) == {}
    samples = with_sample(samples, Sample(0.0, GIB, 0))
    assert step_of(samples) == {"step": "load", "cache_bytes": GIB}
    samples = with_sample(samples, Sample(2.0, 3 * GIB, 0))
    assert step_of(samples) == {"step": "download", "cache_bytes": 3 * GIB, "bytes_per_s": GIB}
    for at_s in (20.0, 25.0, 31.0):
        samples = with_sample(samples, Sample(at_s, 3 * GIB, 0))
    assert step_of(samples)["step"] == "load"
    samples = with_sample(samples, Sample(33.0, 3 * GIB + 2**20, 2**20))
    assert step_of(samples)["step"] == "compile"


def test_programs_look_into_the_cache_unless_the_user_says_where() -> None:
    all_of_them = cache_variables({})
    assert {"HF_HOME", "VLLM_CACHE_ROOT", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR"} <= all_of_them.keys()
    assert all(path.startswith(CACHE_FOLDER) for path in all_of_them.values())
    own = cache_variables({"HF_HOME": "/data", "TRITON_CACHE_DIR": "/tmp/t"})
    assert own.keys().isdisjoint({"HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "TRITON_CACHE_DIR"})
    assert "VLLM_CACHE_ROOT" in own
