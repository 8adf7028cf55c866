"""What outlived a long collection is not looked through again."""

import gc

from moorage.kit.collecting import LONG_S, MOST_TIMES, Collecting


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


def test_a_few_times_only() -> None:
    """What becomes garbage in cycles later is found."""
    collecting = Collecting()
    collecting.begin()
    try:
        kept: list[object] = []
        seen = {gc.get_freeze_count()}
        for _ in range(MOST_TIMES + 3):
            kept.extend([[number] for number in range(400_000)])
            gc.collect()
            seen.add(gc.get_freeze_count())
        assert len(seen) <= 1 + MOST_TIMES
        assert any(one is kept[-1] for one in gc.get_objects())
    finally:
        collecting.end()
        gc.unfreeze()
