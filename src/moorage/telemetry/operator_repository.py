"""SQL of what the operator watches: how much there is of everything, and how much of it waits."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select, text
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.containers.models import ContainerRow, ReplicaRouteRow, ReplicaRow
from moorage.notifications.models import MailRow
from moorage.reconcile.models import LeaseRow
from moorage.telemetry.partition_repository import DIVIDED_BY_DAYS
from moorage.webhooks.models import DeliveryRow


async def replica_states(session: AsyncSession) -> dict[str, int]:
    """Of those that are not removed."""
    query = select(ReplicaRow.state, func.count()).where(text("replicas.state <> 'removed'"))
    return {row.state: row[1] for row in await session.execute(query.group_by(ReplicaRow.state))}


async def estimated_rows(session: AsyncSession, *tables: str) -> dict[str, int]:
    """About how many rows each has, as Postgres last counted them: to count anew would read them all."""
    query = text(
        "SELECT relname, greatest(reltuples, 0)::bigint FROM pg_class WHERE oid = ANY(CAST(:tables AS regclass[]))"
    )
    found = await session.execute(query, {"tables": list(tables)})
    return {row.relname: row[1] for row in found}


async def waiting(session: AsyncSession) -> dict[str, int]:
    """By queue: what is due and not done yet."""
    due = select(func.count()).where(ContainerRow.reconcile_at <= func.now())
    mails = select(func.count()).where(MailRow.next_try_at <= func.now())
    uncollected = select(func.count()).where(ReplicaRow.state == "stopped", ReplicaRow.collected_at.is_(None))
    names = ("containers", "mails", "logs")
    counts = [(await session.execute(query)).scalar_one() for query in (due, mails, uncollected)]
    return dict(zip(names, counts, strict=True))


@dataclass(frozen=True)
class Queue:
    """What is due and not done."""

    waiting: int
    oldest_at: datetime | None = None
    last_error: str | None = None
    """Of the one that waits longest."""


async def mail_queue(session: AsyncSession) -> Queue:
    return await _queue(session, MailRow)


@dataclass(frozen=True)
class Mails:
    """What became of them, of those that are still kept."""

    waiting: int
    last_error: str | None
    """Of the one that waits longest, where it was refused."""
    last_sent_at: datetime | None


async def mails(session: AsyncSession) -> Mails:
    queue = await mail_queue(session)
    last_sent_at = (await session.execute(select(func.max(MailRow.sent_at)))).scalar_one()
    return Mails(queue.waiting, queue.last_error, last_sent_at)


async def webhook_queue(session: AsyncSession) -> Queue:
    return await _queue(session, DeliveryRow)


async def _queue(session: AsyncSession, row: type[MailRow] | type[DeliveryRow]) -> Queue:
    undone = row.next_try_at.is_not(None)
    waiting = (await session.execute(select(func.count()).select_from(row).where(undone))).scalar_one()
    query = select(row.created_at, row.error).where(undone).order_by(row.created_at).limit(1)
    oldest = (await session.execute(query)).one_or_none()
    return Queue(waiting, *oldest) if oldest is not None else Queue(waiting)


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
