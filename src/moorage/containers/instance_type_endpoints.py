"""`GET /instance-types`. Here, and not in `catalog`, because what is free is known from the replicas."""

from collections.abc import Sequence

from fastapi import APIRouter
from pydantic import BaseModel

from moorage.catalog.capacity import InstanceType, room_for
from moorage.catalog.gpu_models import gpu_facts
from moorage.catalog.repository import list_instance_types
from moorage.catalog.shortage import why_unavailable
from moorage.catalog.siblings import sibling_of
from moorage.containers.capacity_repository import Room, load_room
from moorage.identity.authentication import TheActor
from moorage.kit.pagination import Page
from moorage.kit.settings import Settings
from moorage.kit.web import TheSession, TheSettings

router = APIRouter(tags=["instance-types"])


class InstanceTypeRead(BaseModel):
    name: str
    gpu_model: str | None
    gpu_count: int
    gpu_memory_bytes: int | None
    """Of each of its GPUs; null without one, or where nobody knows."""
    vcpu_millis: int
    memory_bytes: int
    disk_bytes: int
    price_per_hour_microusd: int
    infrastructure: str
    enabled: bool
    """Offered for new settings."""
    available: bool
    free: int
    """How many replicas of it could start now."""
    capacity: int
    """How many could run here if nothing else did; 0 where no machine that takes replicas holds even one."""
    unavailable_reason: str | None
    sibling: str | None
    """The type with the same sizes and of the other kind: a container with `infrastructure` `any` takes the cheaper of
    both that has room, and the dearer one's price is held."""


@router.get("/instance-types", summary="List instance types")
async def get_instance_types(
    _: TheActor, session: TheSession, settings: TheSettings
) -> Page[InstanceTypeRead]:
    """Lists the sizes that a replica can have, with their price and how many are free now."""
    room = await load_room(session)
    offered = [entry for entry in await list_instance_types(session) if entry.enabled]
    return Page(items=[instance_type_json(entry, offered, room, settings) for entry in offered])


def instance_type_json(
    entry: InstanceType,
    catalogue: Sequence[InstanceType],
    room: Room,
    settings: Settings,
    *,
    for_operator: bool = False,
) -> InstanceTypeRead:
    """Only the operator reads which machine is short of what."""
    overcommit = settings.cpu_overcommit
    free = room_for(entry, room.nodes, room.used, overcommit)
    reason = (
        None if free else why_unavailable(entry, room.nodes, room.used, overcommit, for_operator=for_operator)
    )
    sibling = sibling_of(entry, catalogue)
    return InstanceTypeRead(
        **vars(entry),
        gpu_memory_bytes=gpu_facts(entry.gpu_model, room.nodes).memory_bytes if entry.gpu_model else None,
        available=free > 0,
        free=free,
        capacity=room_for(entry, room.nodes, {}, overcommit),
        unavailable_reason=reason,
        sibling=sibling.name if sibling is not None else None,
    )
