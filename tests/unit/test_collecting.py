"""What outlived a long collection is not looked through again."""

import gc
import itertools

import pytest

from moorage.kit.collecting import LONG_S, Collecting


@pytest.mark.long
def test_a_long_collection_is_the_last_that_looks_at_them() -> None:
    collecting = Collecting()
    gc.collect()
    collecting.begin()
    try:
        kept: list[object] = []
        frozen_before = gc.get_freeze_count()
        while gc.get_freeze_count() == frozen_before:
            kept.extend([[number] for number in range(200_000)])
            assert len(kept) < 20_000_000, f"no collection took {LONG_S} s"
            gc.collect()
        assert not any(one is kept[0] for one in gc.get_objects())
    finally:
        collecting.end()
        gc.unfreeze()


@pytest.mark.long
def test_ever_less_often() -> None:
    """What becomes garbage in cycles later is found, and what an installation grew by is not looked through for ever."""
    seconds = itertools.count(1.0)
    collecting = Collecting(lambda: next(seconds))
    collecting.begin()
    gc.disable()  # only what is asked for
    try:
        kept: list[object] = []
        frozen, kept_for_good = gc.get_freeze_count(), []
        for number in range(1, 65):
            kept.append([number])
            gc.collect()
            if gc.get_freeze_count() != frozen:
                frozen = gc.get_freeze_count()
                kept_for_good.append(number)
        assert kept_for_good == [1, 2, 4, 8, 16, 32, 64]
    finally:
        gc.enable()
        collecting.end()
        gc.unfreeze()
