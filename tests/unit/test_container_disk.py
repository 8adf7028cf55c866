import pytest

from moorage.containers.disk import (
    FALLEN_BYTES,
    LOOK_EVERY_S,
    RESERVE_BYTES,
    DiskUse,
    LastLook,
    evictions,
    must_look,
)
from moorage.containers.states import Reason
from moorage.engines.base import DiskSpace

GIB = 2**30
ROOMY = DiskSpace(1000 * GIB, 500 * GIB)
NEARLY_FULL = DiskSpace(1000 * GIB, RESERVE_BYTES - 1)
SMALL = DiskSpace(10 * GIB, GIB)


@pytest.mark.parametrize(
    ("passed_s", "took_s", "fallen_bytes", "looks"),
    [
        (1.0, 0.01, 0, False),
        (1.0, 0.01, FALLEN_BYTES, True),
        (1.0, 0.01, FALLEN_BYTES - 1, False),
        (1.0, 0.2, FALLEN_BYTES, False),  # the last look took long: rest first
        (2.0, 0.2, FALLEN_BYTES, True),
        (LOOK_EVERY_S, 0.01, 0, True),
        (LOOK_EVERY_S, 30.0, 0, False),
        (1.0, 0.01, -FALLEN_BYTES, False),  # something was removed
    ],
)
def test_when_to_look(passed_s: float, took_s: float, fallen_bytes: int, looks: bool) -> None:
    last = LastLook(100.0, took_s, ROOMY.free_bytes)
    space = DiskSpace(ROOMY.total_bytes, ROOMY.free_bytes - fallen_bytes)
    assert must_look(last, space, 100.0 + passed_s) is looks


def test_the_first_look_is_at_once_and_a_small_disk_is_looked_at_sooner() -> None:
    assert must_look(None, ROOMY, 0.0)
    assert must_look(LastLook(0.0, 0.0, GIB), DiskSpace(10 * GIB, GIB - GIB // 40), 1.0)


def test_the_reserve_leaves_no_time_to_rest() -> None:
    last = LastLook(0.0, 5.0, RESERVE_BYTES)
    assert not must_look(last, NEARLY_FULL, 4.0)
    assert not must_look(last, NEARLY_FULL, 6.0), "nothing has happened"
    assert must_look(last, DiskSpace(NEARLY_FULL.total_bytes, RESERVE_BYTES // 2), 6.0)


def test_whoever_wrote_more_than_it_has_goes() -> None:
    uses = [
        DiskUse("small", GIB, GIB),
        DiskUse("over", GIB, GIB + GIB // 4),
        DiskUse("large", 200 * GIB, 90 * GIB),
    ]
    found = evictions(uses, (), ROOMY)
    assert found.keys() == {"over"}
    assert found["over"].reason is Reason.DISK_FULL
    assert "wrote 1.25 GiB to its disk of 1 GiB" in found["over"].message


def test_before_the_machine_is_full_whoever_wrote_most_goes() -> None:
    uses = [DiskUse("little", 200 * GIB, 20 * GIB), DiskUse("most", 200 * GIB, 90 * GIB)]
    found = evictions(uses, (), NEARLY_FULL)
    assert found.keys() == {"most"}
    assert "almost full" in found["most"].message
    assert "90 GiB" in found["most"].message
    assert evictions(uses, (), ROOMY) == {}


def test_one_that_is_over_goes_alone_also_when_the_machine_is_nearly_full() -> None:
    uses = [DiskUse("over", GIB, 2 * GIB), DiskUse("most", 200 * GIB, 90 * GIB)]
    assert evictions(uses, (), NEARLY_FULL).keys() == {"over"}


def test_nobody_goes_for_what_others_than_replicas_wrote() -> None:
    assert evictions([DiskUse("tiny", GIB, 1000)], (), NEARLY_FULL) == {}
    assert evictions([], (), NEARLY_FULL) == {}


def test_the_reserve_of_a_small_disk_is_a_share_of_it() -> None:
    uses = [DiskUse("some", GIB, GIB // 2)]
    assert evictions(uses, (), SMALL) == {}
    assert evictions(uses, (), DiskSpace(10 * GIB, GIB // 4)).keys() == {"some"}


def test_what_goes_already_is_waited_for() -> None:
    uses = [DiskUse("going", GIB, 2 * GIB), DiskUse("most", 200 * GIB, 90 * GIB)]
    assert evictions(uses, {"going"}, DiskSpace(1000 * GIB, 3 * GIB)) == {}
    assert evictions(uses, {"going"}, DiskSpace(1000 * GIB, GIB)).keys() == {"most"}
