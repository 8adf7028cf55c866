"""Types with the same sizes and of the other kind: what a container that takes either chooses between. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from moorage.catalog.capacity import InstanceType

ANY = "any"
OPERATOR = "operator"


@dataclass(frozen=True)
class PriceRange:
    """Of an hour of one replica."""

    least_microusd: int
    most_microusd: int
    """What is held, until it is known which one a replica took."""


def sibling_of(instance_type: InstanceType, catalogue: Iterable[InstanceType]) -> InstanceType | None:
    """The cheapest that is offered."""
    siblings = [
        one
        for one in catalogue
        if one.enabled
        and one.infrastructure != instance_type.infrastructure
        and _sizes(one) == _sizes(instance_type)
    ]
    return min(siblings, key=lambda one: (one.price_per_hour_microusd, one.name), default=None)


def in_order_of_choice(instance_type: InstanceType, sibling: InstanceType | None) -> tuple[InstanceType, ...]:
    """The cheaper one first; at one price the operator's, where nobody else looks on."""
    types = [one for one in (instance_type, sibling) if one is not None]
    return tuple(sorted(types, key=lambda one: (one.price_per_hour_microusd, one.infrastructure != OPERATOR)))


def price_range(types: Sequence[InstanceType]) -> PriceRange:
    prices = [one.price_per_hour_microusd for one in types]
    return PriceRange(min(prices), max(prices))


def _sizes(one: InstanceType) -> tuple[object, ...]:
    return one.gpu_model, one.gpu_count, one.vcpu_millis, one.memory_bytes, one.disk_bytes
