"""SQL of sleep."""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta

from sqlalchemy import ScalarSelect, delete, func, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.catalog.models import InstanceTypeRow
from moorage.containers.models import ContainerRow, ReplicaRow
from moorage.containers.sleep.models import SleepRow
from moorage.containers.states import ReplicaState
from moorage.kit.pagination import PageRequest
from moorage.ledger.models import HourRow

KEPT = timedelta(days=90)
_COLUMNS = (
    SleepRow.asleep_at,
    func.coalesce(SleepRow.woken_at, func.now()),
    SleepRow.paid_until,
    SleepRow.replicas,
    SleepRow.price_per_hour_microusd,
)
Slept = tuple[datetime, datetime, datetime | None, int, int]
"""Begin, end (now, while it sleeps), until when it was paid for, replicas, and the price of one."""
_ADDED_UP_AT_ONCE = 400
"""Of a hundred thousand: about ten milliseconds, after which others have their turn."""


async def add_sleep(session: AsyncSession, row: ContainerRow, replicas: int) -> None:
    paid = select(func.max(HourRow.expires_at)).where(
        HourRow.container_id == row.id, HourRow.expires_at > func.now()
    )
    price = select(InstanceTypeRow.price_per_hour_microusd).where(InstanceTypeRow.name == row.instance_type)
    session.add(
        SleepRow(
            container_id=row.id,
            asleep_at=func.now(),
            paid_until=(await session.execute(paid)).scalar_one_or_none(),
            replicas=replicas,
            price_per_hour_microusd=(await session.execute(price)).scalar_one(),
        )
    )
    old = (SleepRow.container_id == row.id) & (SleepRow.woken_at < func.now() - KEPT)
    await session.execute(delete(SleepRow).where(old))


async def end_sleep(session: AsyncSession, container_id: str, by: str) -> None:
    asleep = (SleepRow.container_id == container_id) & SleepRow.woken_at.is_(None)
    await session.execute(update(SleepRow).where(asleep).values(woken_at=func.now(), woken_by=by))


async def note_served(session: AsyncSession, container_id: str) -> datetime | None:
    """When it was woken, if it is known."""
    first = (
        select(ReplicaRow.id)
        .where(ReplicaRow.container_id == container_id, ReplicaRow.state == ReplicaState.ROUTED)
        .order_by(ReplicaRow.routed_at)
        .limit(1)
        .scalar_subquery()
    )
    woken = (
        (SleepRow.container_id == container_id)
        & SleepRow.woken_at.is_not(None)
        & SleepRow.served_at.is_(None)
        & (SleepRow.asleep_at == _newest(container_id))
    )
    served = update(SleepRow).where(woken).values(served_at=func.now(), replica_id=first)
    return (await session.execute(served.returning(SleepRow.woken_at))).scalar_one_or_none()


async def list_sleeps(session: AsyncSession, container_id: str, page: PageRequest) -> Sequence[SleepRow]:
    query = select(SleepRow).where(SleepRow.container_id == container_id)
    if page.after is not None:
        query = query.where(
            tuple_(SleepRow.asleep_at, SleepRow.container_id) < (page.after.time, page.after.id)
        )
    return (
        (await session.execute(query.order_by(SleepRow.asleep_at.desc()).limit(page.limit + 1)))
        .scalars()
        .all()
    )


async def slept(session: AsyncSession, container_id: str) -> AsyncIterator[Slept]:
    """All that is known of, the oldest first. Others have their turn after each portion."""
    all_of_it = select(*_COLUMNS).where(SleepRow.container_id == container_id).order_by(SleepRow.asleep_at)
    after, query = None, all_of_it
    while True:
        rows = (await session.execute(query.limit(_ADDED_UP_AT_ONCE))).all()
        for begin, end, paid, replicas, price in rows:
            yield begin, end, paid, int(replicas), int(price)
            after = begin
        if len(rows) < _ADDED_UP_AT_ONCE:
            return
        query = all_of_it.where(SleepRow.asleep_at > after)


async def count_asleep(session: AsyncSession) -> dict[str, int]:
    """Containers that sleep, and those that wake."""
    query = select(
        func.count().filter(ContainerRow.asleep_since.is_not(None)),
        func.count().filter(ContainerRow.woken_at.is_not(None)),
    ).where(ContainerRow.deleted_at.is_(None))
    asleep, waking = (await session.execute(query)).one()
    return {"asleep": asleep, "waking": waking}


async def sleep_before(session: AsyncSession, container_id: str, at: datetime) -> SleepRow | None:
    """The one that a request which arrived then ended, or met the end of."""
    query = (
        select(SleepRow)
        .where(SleepRow.container_id == container_id, SleepRow.asleep_at <= at)
        .order_by(SleepRow.asleep_at.desc())
        .limit(1)
    )
    return (await session.execute(query)).scalar_one_or_none()


def _newest(container_id: str) -> ScalarSelect[datetime]:
    newest = select(func.max(SleepRow.asleep_at)).where(SleepRow.container_id == container_id)
    return newest.correlate(None).scalar_subquery()
