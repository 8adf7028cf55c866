"""What an hour of a container's replicas costs: one price, or a range where it takes machines of either kind."""

from collections.abc import Sequence

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from moorage.catalog.capacity import InstanceType
from moorage.catalog.models import InstanceTypeRow
from moorage.catalog.repository import find_instance_type, find_sibling
from moorage.catalog.siblings import PriceRange, in_order_of_choice, price_range, sibling_of
from moorage.containers.models import ContainerRow
from moorage.containers.spec import ContainerSettings


async def prices_of(session: AsyncSession, settings: ContainerSettings) -> PriceRange:
    instance_type = await find_instance_type(session, settings.instance_type)
    assert instance_type is not None, "a foreign key says so"
    sibling = await find_sibling(session, instance_type) if settings.takes_either else None
    return price_range(in_order_of_choice(instance_type, sibling))


def prices_in(catalogue: Sequence[InstanceType], settings: ContainerSettings) -> PriceRange:
    [instance_type] = [one for one in catalogue if one.name == settings.instance_type]
    sibling = sibling_of(instance_type, catalogue) if settings.takes_either else None
    return price_range(in_order_of_choice(instance_type, sibling))


def held_price() -> ColumnElement[int]:
    """The same in SQL, for a query of `ContainerRow` with its `InstanceTypeRow`: the price that is held."""
    other, own = aliased(InstanceTypeRow), InstanceTypeRow
    sibling = (
        select(func.min(other.price_per_hour_microusd))
        .where(
            ContainerRow.settings["infrastructure"].astext == "any",
            ContainerRow.settings["accept_exposure"].astext == "true",
            other.enabled,
            other.infrastructure != own.infrastructure,
            other.gpu_model.is_not_distinct_from(own.gpu_model),
            other.gpu_count == own.gpu_count,
            other.vcpu_millis == own.vcpu_millis,
            other.memory_bytes == own.memory_bytes,
            other.disk_bytes == own.disk_bytes,
        )
        .correlate(ContainerRow, own)
        .scalar_subquery()
    )
    # Of several, `greatest` leaves out what is null.
    return func.greatest(own.price_per_hour_microusd, sibling)
