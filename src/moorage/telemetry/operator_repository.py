"""SQL of what the operator watches: how much there is of everything, and how much of it waits."""

from sqlalchemy import func, select, text
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.containers.models import ContainerRow, ReplicaRouteRow, ReplicaRow
from moorage.notifications.models import MailRow
from moorage.reconcile.models import LeaseRow
from moorage.telemetry.partition_repository import DIVIDED_BY_DAYS


async def replica_states(session: AsyncSession) -> dict[str, int]:
    """Of those that are not removed."""
    query = select(ReplicaRow.state, func.count()).where(text("replicas.state <> 'removed'"))
    return {row.state: row[1] for row in await session.execute(query.group_by(ReplicaRow.state))}


async def waiting(session: AsyncSession) -> dict[str, int]:
    """By queue: what is due and not done yet."""
    due = select(func.count()).where(ContainerRow.reconcile_at <= func.now())
    mails = select(func.count()).where(MailRow.next_try_at <= func.now())
    uncollected = select(func.count()).where(ReplicaRow.state == "stopped", ReplicaRow.collected_at.is_(None))
    names = ("containers", "mails", "logs")
    counts = [(await session.execute(query)).scalar_one() for query in (due, mails, uncollected)]
    return dict(zip(names, counts, strict=True))


async def leases(session: AsyncSession) -> dict[str, float]:
    """Seconds that each is still held; negative where nobody does."""
    left_s = func.extract("epoch", LeaseRow.expires_at - func.now())
    return {name: float(left) for name, left in await session.execute(select(LeaseRow.name, left_s))}


async def in_flight(session: AsyncSession) -> dict[str, int]:
    """Requests by gateway, as last reported of its replicas."""
    query = select(ReplicaRouteRow.gateway_id, func.sum(ReplicaRouteRow.in_flight))
    rows = await session.execute(query.group_by(ReplicaRouteRow.gateway_id))
    return {gateway_id: int(count) for gateway_id, count in rows}


async def sizes_bytes(session: AsyncSession) -> dict[str, int]:
    """Of the tables that grow by the day, indexes included, and of the whole database."""
    size = text(
        "SELECT coalesce(sum(pg_total_relation_size(inhrelid)), 0) FROM pg_inherits WHERE inhparent = to_regclass(:table)"
    )
    found = {
        table: int((await session.execute(size, {"table": table})).scalar_one()) for table in DIVIDED_BY_DAYS
    }
    whole = (await session.execute(text("SELECT pg_database_size(current_database())"))).scalar_one()
    return {**found, "database": int(whole)}
