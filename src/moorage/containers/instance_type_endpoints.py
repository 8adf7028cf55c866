"""`GET /instance-types`. Here, and not in `catalog`, because what is free is known from the replicas."""

from fastapi import APIRouter
from pydantic import BaseModel

from moorage.catalog.capacity import room_for, why_no_room
from moorage.catalog.repository import list_instance_types, list_nodes
from moorage.containers.capacity_repository import used_capacity
from moorage.identity.authentication import TheActor
from moorage.kit.pagination import Page
from moorage.kit.web import TheSession, TheSettings

router = APIRouter(tags=["instance-types"])


class InstanceTypeRead(BaseModel):
    name: str
    gpu_model: str | None
    gpu_count: int
    vcpu_millis: int
    memory_bytes: int
    disk_bytes: int
    price_per_hour_microusd: int
    infrastructure: str
    available: bool
    free: int
    """How many replicas of it could start now."""
    unavailable_reason: str | None


@router.get("/instance-types")
async def get_instance_types(
    _: TheActor, session: TheSession, settings: TheSettings
) -> Page[InstanceTypeRead]:
    nodes, used = await list_nodes(session), await used_capacity(session)
    items = []
    for entry in await list_instance_types(session):
        free = room_for(entry, nodes, used, settings.cpu_overcommit)
        reason = None if free else why_no_room(entry, nodes)
        items.append(
            InstanceTypeRead(**vars(entry), available=free > 0, free=free, unavailable_reason=reason)
        )
    return Page(items=items)
