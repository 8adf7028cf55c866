"""What outlived a long collection is not looked through again."""

import gc

from moorage.kit.collecting import LONG_S, Collecting


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
