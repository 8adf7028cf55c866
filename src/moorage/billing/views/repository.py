"""SQL of what people see of their money. Reads only."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from sqlalchemy import Date, Integer, cast, func, select, true
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.catalog.models import InstanceTypeRow
from moorage.containers.models import ContainerRow, ReplicaRow
from moorage.containers.prices import held_price
from moorage.containers.states import LIVE, DesiredState
from moorage.ledger.accounts import Kind, credit_of
from moorage.ledger.models import CreditAccountRow, EntryRow, HourRow, TransactionRow
from moorage.organizations.models import ProjectRow


@dataclass(frozen=True)
class Usage:
    """What one container bought on one day."""

    day: date
    project_id: str
    project_name: str | None
    container_id: str
    container_name: str | None
    instance_type: str
    hours: int
    amount_microusd: int


async def burning_slots(
    session: AsyncSession, organization_id: str
) -> tuple[list[tuple[int, datetime]], datetime]:
    """(price, paid until) of every slot that has a replica, at today's prices; and the database's time."""
    now: datetime = (await session.execute(select(func.clock_timestamp()))).scalar_one()
    paid_until = (
        select(func.max(HourRow.expires_at))
        .where(HourRow.container_id == ReplicaRow.container_id, HourRow.slot == ReplicaRow.slot)
        .correlate(ReplicaRow)
        .scalar_subquery()
    )
    query = (
        select(InstanceTypeRow.price_per_hour_microusd, paid_until)
        .select_from(ReplicaRow)
        .join(ContainerRow, ContainerRow.id == ReplicaRow.container_id)
        .join(ProjectRow, ProjectRow.id == ContainerRow.project_id)
        .join(
            InstanceTypeRow,
            InstanceTypeRow.name == func.coalesce(ReplicaRow.sibling_type, ReplicaRow.instance_type),
        )
        .where(
            ProjectRow.organization_id == organization_id,
            ContainerRow.desired_state == DesiredState.RUNNING,
            ReplicaRow.state.in_(LIVE),
        )
        # While a replica takes over from another, their slot is paid once.
        .group_by(ReplicaRow.container_id, ReplicaRow.slot, InstanceTypeRow.price_per_hour_microusd)
    )
    return [(price, until or now) for price, until in await session.execute(query)], now


async def burn_maximum(session: AsyncSession, organization_id: str) -> int:
    """For each hour, with everything that should run scaled to its maximum."""
    most = cast(ContainerRow.settings["max_replicas"].astext, Integer)
    query = (
        select(func.coalesce(func.sum(held_price() * most), 0))
        .select_from(ContainerRow)
        .join(ProjectRow, ProjectRow.id == ContainerRow.project_id)
        .join(InstanceTypeRow, InstanceTypeRow.name == ContainerRow.instance_type)
        .where(
            ProjectRow.organization_id == organization_id,
            ContainerRow.desired_state == DesiredState.RUNNING,
            ContainerRow.failed_generation != ContainerRow.generation,
            ContainerRow.deleted_at.is_(None),
        )
    )
    return int((await session.execute(query)).scalar_one())


async def list_balances(
    session: AsyncSession, organization_id: str, first: date, last: date
) -> list[tuple[date, int]]:
    """At the end of each UTC day. Counted back from what is there now: what was before `first` is not read."""
    day = cast(func.timezone("UTC", TransactionRow.at), Date)
    changes = (
        select(day.label("day"), func.sum(EntryRow.amount_microusd).label("microusd"))
        .join(EntryRow, EntryRow.transaction_id == TransactionRow.id)
        .where(
            TransactionRow.organization_id == organization_id,
            TransactionRow.at >= datetime.combine(first, time(), UTC),
            EntryRow.account == credit_of(organization_id),
        )
        .group_by(day)
        .subquery()
    )
    # In one statement, so that no movement is in one of the two and not in the other.
    account = CreditAccountRow
    query = (
        select(account.available_microusd + account.held_microusd, changes.c.day, changes.c.microusd)
        .outerjoin(changes, true())
        .where(account.organization_id == organization_id)
    )
    rows = (await session.execute(query)).all()
    balance = rows[0][0] if rows else 0
    changed = {changed_on: int(microusd) for _, changed_on, microusd in rows if changed_on is not None}
    balance -= sum(microusd for changed_on, microusd in changed.items() if changed_on > last)
    balances = []
    for days_ago in range((last - first).days + 1):
        on = last - timedelta(days=days_ago)
        balances.append((on, balance))
        balance -= changed.get(on, 0)
    return balances[::-1]


async def list_usage(
    session: AsyncSession,
    organization_id: str,
    first: date,
    last: date,
    project_ids: Sequence[str] | None,
    most: int,
) -> list[Usage]:
    """By UTC day, newest first, no more than that. `project_ids` None: all of them."""
    day = cast(func.timezone("UTC", HourRow.bought_at), Date)
    bought_as = func.coalesce(HourRow.sibling_type, HourRow.instance_type)
    query = (
        select(
            day,
            HourRow.project_id,
            ProjectRow.name,
            HourRow.container_id,
            ContainerRow.name,
            bought_as,
            func.count(),
            func.sum(HourRow.price_microusd),
        )
        .outerjoin(ContainerRow, ContainerRow.id == HourRow.container_id)
        .outerjoin(ProjectRow, ProjectRow.id == HourRow.project_id)
        .where(HourRow.organization_id == organization_id, HourRow.state == "paid", day.between(first, last))
        .group_by(
            day,
            HourRow.project_id,
            ProjectRow.name,
            HourRow.container_id,
            ContainerRow.name,
            bought_as,
        )
        .order_by(day.desc(), HourRow.project_id, HourRow.container_id, bought_as)
        .limit(most)
    )
    if project_ids is not None:
        query = query.where(HourRow.project_id.in_(project_ids))
    return [Usage(*row[:-1], int(row[-1])) for row in await session.execute(query)]


async def spend_by_day(
    session: AsyncSession, organization_id: str, first: date, last: date
) -> list[tuple[date, int]]:
    """What hours cost that were bought on each UTC day, oldest first; days without any are left out."""
    day = cast(func.timezone("UTC", HourRow.bought_at), Date)
    query = (
        select(day, func.sum(HourRow.price_microusd))
        .where(
            HourRow.organization_id == organization_id,
            HourRow.state == "paid",
            HourRow.bought_at >= datetime.combine(first, time(), UTC),
            HourRow.bought_at < datetime.combine(last + timedelta(days=1), time(), UTC),
        )
        .group_by(day)
        .order_by(day)
    )
    return [(on, int(microusd)) for on, microusd in await session.execute(query)]


async def paid_in(session: AsyncSession, organization_id: str) -> int:
    """By card and by bank transfer, ever; what went back is not taken off."""
    query = (
        select(func.coalesce(func.sum(EntryRow.amount_microusd), 0))
        .join(TransactionRow, TransactionRow.id == EntryRow.transaction_id)
        .where(
            TransactionRow.organization_id == organization_id,
            TransactionRow.kind.in_((Kind.CARD_TOP_UP, Kind.BANK_TRANSFER)),
            EntryRow.account == credit_of(organization_id),
        )
    )
    return int((await session.execute(query)).scalar_one())


@dataclass(frozen=True)
class Moved:
    """By all transactions of one kind on one day."""

    times: int = 0
    amount_microusd: int = 0


async def revenue_by_day(
    session: AsyncSession, first: date, last: date
) -> list[tuple[date, dict[str, Moved]]]:
    """Of the whole installation: what each kind of transaction moved."""
    day = cast(func.timezone("UTC", TransactionRow.at), Date)
    query = (
        select(day, TransactionRow.kind, func.count(), func.sum(EntryRow.amount_microusd))
        .join(EntryRow, EntryRow.transaction_id == TransactionRow.id)
        # Of its two entries, the one that adds.
        .where(day.between(first, last), EntryRow.amount_microusd > 0)
        .group_by(day, TransactionRow.kind)
        .order_by(day.desc())
    )
    days: dict[date, dict[str, Moved]] = {}
    for at, kind, times, amount in await session.execute(query):
        days.setdefault(at, {})[kind] = Moved(times, int(amount))
    return list(days.items())
