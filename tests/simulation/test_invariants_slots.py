"""How many processes a slot may have: the part of the invariant that a seed meets rarely."""

from dataclasses import replace

import pytest

from tests.simulation.invariants_slots import Running, too_many

ONE = Running("ctr_1", 1, 0, failed=False, moving=False)
FAILED = replace(ONE, failed=True)
MOVING = replace(ONE, moving=True)


@pytest.mark.parametrize(
    "running",
    [
        [ONE],
        [FAILED],
        [FAILED, ONE],
        [ONE, FAILED],
        [FAILED, FAILED],
        [MOVING, ONE],
        [MOVING, MOVING, ONE],
        [FAILED, MOVING, ONE],
        [ONE, replace(ONE, slot=1), replace(ONE, generation=2), replace(ONE, container_id="ctr_2")],
    ],
)
def test_what_failed_or_moves_may_end_beside_its_successor(running: list[Running]) -> None:
    assert not list(too_many(running))


@pytest.mark.parametrize("running", [[ONE, ONE], [FAILED, ONE, ONE], [FAILED, FAILED, ONE], [FAILED] * 3])
def test_nothing_else_may_run_beside_another(running: list[Running]) -> None:
    wrong = [f"{len(running)} processes run for slot 0 of ctr_1, generation 1"]
    assert list(too_many(running)) == wrong
    assert list(too_many([*running, MOVING])) == wrong
