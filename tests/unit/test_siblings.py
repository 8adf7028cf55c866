"""Types of both kinds with the same sizes."""

from dataclasses import replace

import pytest

from moorage.catalog.capacity import InstanceType
from moorage.catalog.siblings import PriceRange, in_order_of_choice, price_range, sibling_of

OWN = InstanceType("l4", "NVIDIA L4", 1, 8000, 32 << 30, 200 << 30, 800_000, "operator")
THEIRS = replace(OWN, name="l4-community", price_per_hour_microusd=500_000, infrastructure="community")


def test_it_is_the_cheapest_of_the_other_kind() -> None:
    dearer = replace(THEIRS, name="a", price_per_hour_microusd=600_000)
    assert sibling_of(OWN, [OWN, dearer, THEIRS]) == THEIRS
    assert sibling_of(THEIRS, [OWN, THEIRS]) == OWN


@pytest.mark.parametrize(
    "other",
    [
        replace(THEIRS, infrastructure="operator"),
        replace(THEIRS, enabled=False),
        replace(THEIRS, gpu_model="NVIDIA L40S"),
        replace(THEIRS, gpu_count=2),
        replace(THEIRS, vcpu_millis=4000),
        replace(THEIRS, memory_bytes=16 << 30),
        replace(THEIRS, disk_bytes=100 << 30),
    ],
)
def test_another_size_is_no_sibling(other: InstanceType) -> None:
    assert sibling_of(OWN, [OWN, other]) is None


def test_the_cheaper_one_is_taken_first_and_the_dearer_one_held() -> None:
    for given in ((OWN, THEIRS), (THEIRS, OWN)):
        types = in_order_of_choice(*given)
        assert types == (THEIRS, OWN)
        assert price_range(types) == PriceRange(500_000, 800_000)
    assert in_order_of_choice(OWN, None) == (OWN,)


def test_at_one_price_the_operators_comes_first() -> None:
    theirs = replace(THEIRS, price_per_hour_microusd=OWN.price_per_hour_microusd)
    assert in_order_of_choice(theirs, OWN) == (OWN, theirs)
