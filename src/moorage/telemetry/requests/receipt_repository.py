"""SQL of what a request met: its container, its key, its replica, and the hour that it fell into."""

from datetime import datetime, timedelta

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.catalog.models import InstanceTypeRow
from moorage.containers.models import ContainerRow, ReplicaRow
from moorage.identity.api_keys.repository import find_key
from moorage.ledger.models import HourRow
from moorage.telemetry.requests.held import Wake
from moorage.telemetry.requests.record import RequestRecord
from moorage.telemetry.requests.repository import count_requests
from moorage.telemetry.requests.schemas import RequestContainer, RequestCost, RequestKey, RequestReplica


async def find_request_container(session: AsyncSession, container_id: str) -> RequestContainer | None:
    """None where it was deleted so long ago that nothing is left of it."""
    row = await session.get(ContainerRow, container_id)
    return RequestContainer(row.id, row.name, row.deleted_at is not None) if row is not None else None


async def find_request_key(session: AsyncSession, key_id: str) -> RequestKey:
    row = await find_key(session, key_id)
    if row is None:
        return RequestKey(key_id, None, None, None)
    return RequestKey(row.id, row.name, row.hint, row.scope)


async def find_request_replica(session: AsyncSession, replica_id: str) -> RequestReplica:
    row = await session.get(ReplicaRow, replica_id)
    if row is None:
        return RequestReplica(replica_id, None, None, None, None, None)
    size = await session.get(InstanceTypeRow, row.sibling_type or row.instance_type)
    return RequestReplica(
        id=row.id,
        version=row.version,
        node=row.node,
        instance_type=row.sibling_type or row.instance_type,
        gpu_model=size.gpu_model if size is not None else None,
        gpu_count=size.gpu_count if size is not None else None,
    )


async def find_cost(
    session: AsyncSession, record: RequestRecord, wake: Wake | None, now: datetime
) -> RequestCost | None:
    if record.replica_id is None or record.container_id is None:
        return None
    replica = await session.get(ReplicaRow, record.replica_id)
    if replica is None:
        return None
    ended_at = record.started_at + timedelta(milliseconds=record.total_ms)
    # One that follows another is bought a little before that one ends, and begins when it does.
    begins_at = func.coalesce(HourRow.begins_at, HourRow.bought_at)
    paid = select(HourRow).where(
        HourRow.container_id == record.container_id,
        HourRow.state == "paid",
        begins_at <= ended_at,
        HourRow.expires_at > ended_at,
    )
    by_slot = {hour.slot: hour for hour in (await session.execute(paid.order_by(begins_at))).scalars()}
    own = by_slot.get(replica.slot)
    if own is None or own.bought_at is None or own.expires_at is None:
        return None
    woken_at = wake.woken_at if wake is not None else None
    price = sum(hour.price_microusd for hour in by_slot.values())
    first = own.begins_at or own.bought_at
    requests = await count_requests(session, record.container_id, first, min(own.expires_at, now))
    # Its own may not be counted yet.
    requests = max(requests, 1)
    return RequestCost(
        price_microusd=price,
        replicas=len(by_slot),
        bought_at=own.bought_at,
        expires_at=own.expires_at,
        bought_by_wake=woken_at is not None and own.bought_at >= woken_at,
        requests=requests,
        share_microusd=round(price / requests),
    )
