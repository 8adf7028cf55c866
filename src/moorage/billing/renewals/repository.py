"""SQL of renewals: whose hours end soon, and what is in their slots."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.containers.models import ContainerRow, ReplicaRow
from moorage.containers.states import LIVE
from moorage.ledger.models import HourRow
from moorage.organizations.models import OrganizationRow


@dataclass(frozen=True)
class DueHours:
    """Of one container, locked."""

    container: ContainerRow | None
    """None when nothing is left of it but its hours."""
    hours: Sequence[HourRow]
    replicas: Sequence[ReplicaRow]
    """Live."""
    suspended: bool
    now: datetime


async def due_organizations(
    session: AsyncSession, limit: int, postponed: Collection[str]
) -> tuple[list[str], float | None]:
    """Those with hours to decide about, and in how many seconds the next one has. Who is postponed takes nobody's place."""
    due_at = func.min(HourRow.due_at)
    in_s = func.extract("epoch", due_at - func.clock_timestamp())
    query = (
        select(HourRow.organization_id, in_s)
        .where(HourRow.due_at.is_not(None), HourRow.organization_id.not_in(postponed))
        .group_by(HourRow.organization_id)
        .order_by(due_at)
        .limit(limit + 1)
    )
    soonest = (await session.execute(query)).all()
    keys = [key for key, left_s in soonest if left_s <= 0]
    return keys[:limit], next((float(left_s) for _, left_s in soonest if left_s > 0), None)


async def due_containers(session: AsyncSession, organization_id: str) -> list[str]:
    """Oldest first: what has run longest is the last to go."""
    query = (
        select(HourRow.container_id)
        .outerjoin(ContainerRow, ContainerRow.id == HourRow.container_id)
        .where(HourRow.organization_id == organization_id, HourRow.due_at <= func.clock_timestamp())
        .group_by(HourRow.container_id, ContainerRow.created_at)
        .order_by(ContainerRow.created_at, HourRow.container_id)
    )
    return list((await session.execute(query)).scalars())


async def lock_due_hours(session: AsyncSession, container_id: str) -> DueHours:
    """The container's row is locked first, as everybody does; nobody stops it, and no pass buys, meanwhile."""
    lock = select(ContainerRow).where(ContainerRow.id == container_id).with_for_update()
    container = (await session.execute(lock)).scalar_one_or_none()
    due = (HourRow.container_id == container_id) & (HourRow.due_at <= func.now())
    hours = (await session.execute(select(HourRow).where(due).order_by(HourRow.slot))).scalars().all()
    live = select(ReplicaRow).where(ReplicaRow.container_id == container_id, ReplicaRow.state.in_(LIVE))
    replicas = (await session.execute(live)).scalars().all()
    suspended = False
    if hours:
        query = select(OrganizationRow.suspended_at).where(OrganizationRow.id == hours[0].organization_id)
        suspended = (await session.execute(query)).scalar_one_or_none() is not None
    now = (await session.execute(select(func.now()))).scalar_one()
    return DueHours(container, hours, replicas, suspended, now)


async def mark_unfunded(session: AsyncSession, replica_ids: Sequence[str]) -> None:
    await session.execute(
        update(ReplicaRow).where(ReplicaRow.id.in_(replica_ids)).values(unfunded_at=func.now())
    )
