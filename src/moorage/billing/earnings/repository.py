"""SQL of earnings: which hours are to be settled, what served in them, what they were paid with, and what came of it."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, exists, func, or_, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.billing.earnings.models import EarningRow
from moorage.billing.earnings.rules import Fund, Span, Void
from moorage.containers.models import ContainerRow, GatewayRow
from moorage.kit.database import notify
from moorage.ledger.models import CreditLotRow, HourFundRow, HourMoveRow, HourRow
from moorage.machines.models import MachineVoidRow, ServedSpanRow

EARNINGS = "earnings"
"""The channel of what is to be looked at again."""
SETTLED_AFTER = timedelta(seconds=60)
"""Of an hour's end: by then every gateway has reported what it saw, or is known to be silent."""
_HOURS_AT_ONCE = 500
_IS_OVER = (
    (HourRow.state == "paid")
    & HourRow.settled_at.is_(None)
    & HourRow.begins_at.is_not(None)
    # One that pauses is over when nothing can follow it any more: nobody came back for what was left.
    & or_(HourRow.paused_at.is_(None), HourRow.due_at.is_(None))
)
_HAS_SPANS = exists().where(
    ServedSpanRow.container_id == HourRow.container_id,
    ServedSpanRow.began_at < HourRow.expires_at,
    or_(ServedSpanRow.ended_at.is_(None), ServedSpanRow.ended_at > HourRow.begins_at),
)


@dataclass(frozen=True)
class Work:
    hour_ids: list[str]
    """In which owned machines served."""
    others_are_over: bool
    """There are hours in which none did."""
    voided_machines: list[str]
    earnings: list[tuple[str, str]]
    """To look at again: (hour, replica)."""
    next_in_s: float | None


async def due_work(session: AsyncSession, limit: int) -> Work:
    over_at = HourRow.expires_at + SETTLED_AFTER
    in_s = func.extract("epoch", over_at - func.clock_timestamp())
    hours = select(HourRow.id, _HAS_SPANS, in_s).where(_IS_OVER).order_by(HourRow.expires_at).limit(limit + 1)
    found = (await session.execute(hours)).all()
    waits_s = func.extract("epoch", EarningRow.look_at - func.clock_timestamp())
    looks = select(EarningRow.hour_id, EarningRow.replica_id, waits_s).where(EarningRow.look_at.is_not(None))
    again = (await session.execute(looks.order_by(EarningRow.look_at).limit(limit + 1))).all()
    unheard = select(MachineVoidRow.machine_id).where(MachineVoidRow.heard_at.is_(None)).distinct()
    voided = list((await session.execute(unheard.limit(limit))).scalars())
    later = [float(one[2]) for one in (*found, *again) if one[2] > 0]
    return Work(
        hour_ids=[hour_id for hour_id, has_spans, left_s in found if has_spans and left_s <= 0],
        others_are_over=any(left_s <= 0 and not has_spans for _, has_spans, left_s in found),
        voided_machines=voided,
        earnings=[(hour_id, replica_id) for hour_id, replica_id, left_s in again if left_s <= 0],
        next_in_s=min(later, default=None),
    )


async def settle_others(session: AsyncSession) -> int:
    """Hours in which no owned machine served: nobody earns anything. Some at a time; how many."""
    over = _IS_OVER & (HourRow.expires_at < func.now() - SETTLED_AFTER) & ~_HAS_SPANS
    some = select(HourRow.id).where(over).limit(_HOURS_AT_ONCE).with_for_update(skip_locked=True)
    settled = update(HourRow).where(HourRow.id.in_(some)).values(settled_at=func.now())
    done = await session.execute(settled.returning(HourRow.id).execution_options(synchronize_session=False))
    return len(done.all())


async def lock_hour(session: AsyncSession, hour_id: str) -> HourRow | None:
    """None where it is settled, or not over. Its container comes first: whoever holds that may have the account, and ask for more
    of its hours."""
    of_hour = select(HourRow.container_id).where(HourRow.id == hour_id).scalar_subquery()
    await session.execute(select(ContainerRow.id).where(ContainerRow.id == of_hour).with_for_update())
    over = _IS_OVER & (HourRow.expires_at < func.now() - SETTLED_AFTER)
    query = select(HourRow).where(HourRow.id == hour_id, over).with_for_update()
    return (await session.execute(query)).scalar_one_or_none()


async def moves_of(session: AsyncSession, hour_id: str) -> list[tuple[datetime, int]]:
    """When it left which slot, the first one first."""
    row = HourMoveRow
    query = select(row.moved_at, row.from_slot).where(row.hour_id == hour_id).order_by(row.moved_at)
    return [(moved_at, slot) for moved_at, slot in await session.execute(query)]


async def spans_in(session: AsyncSession, hour: HourRow) -> list[Span]:
    """Of the container's replicas of the hour's type, in whichever slot; what lasts reaches as far as its gateway was seen."""
    row = ServedSpanRow
    # A gateway that is gone without a word has seen nothing more.
    seen_until = func.greatest(row.began_at, func.coalesce(GatewayRow.seen_at, row.began_at))
    ended_at = func.coalesce(row.ended_at, seen_until)
    query = (
        select(row.replica_id, row.machine_id, row.owner_organization_id, row.slot, row.began_at, ended_at)
        .outerjoin(GatewayRow, GatewayRow.id == row.gateway_id)
        .where(
            row.container_id == hour.container_id,
            row.instance_type == hour.instance_type,
            row.began_at < hour.expires_at,
            ended_at > hour.begins_at,
        )
    )
    return [Span(*found) for found in await session.execute(query)]


async def funds_of(session: AsyncSession, hour_id: str) -> list[Fund]:
    """What an hour was paid with, and how much of that is good."""
    lot, fund = CreditLotRow, HourFundRow
    good_until = lot.amount_microusd - lot.taken_back_microusd
    query = (
        select(lot.source, fund.begins_microusd, fund.amount_microusd, good_until)
        .join(fund, fund.lot_id == lot.id)
        .where(fund.hour_id == hour_id)
    )
    return [Fund(*found) for found in await session.execute(query)]


async def add_earning(session: AsyncSession, row: EarningRow) -> None:
    session.add(row)
    await session.flush()


async def buyer_of(session: AsyncSession, hour_id: str, replica_id: str) -> str | None:
    its = (EarningRow.hour_id == hour_id) & (EarningRow.replica_id == replica_id)
    return (await session.execute(select(EarningRow.buyer_organization_id).where(its))).scalar_one_or_none()


async def lock_earning(session: AsyncSession, hour_id: str, replica_id: str) -> EarningRow | None:
    its = (EarningRow.hour_id == hour_id) & (EarningRow.replica_id == replica_id)
    return (await session.execute(select(EarningRow).where(its).with_for_update())).scalar_one_or_none()


async def look_again(session: AsyncSession, lot_id: str) -> None:
    """What the hours that were paid with this lot are worth has changed. There may be tens of thousands."""
    hours = select(HourFundRow.hour_id).where(HourFundRow.lot_id == lot_id)
    await _mark_due(session, EarningRow.hour_id.in_(hours))
    await notify(session, EARNINGS)


async def hear_voids(session: AsyncSession, machine_id: str) -> None:
    """What this machine earned and is held is looked at again. What is settled later asks `void_of` by itself."""
    row, void = EarningRow, MachineVoidRow
    its = update(void).where(void.machine_id == machine_id, void.heard_at.is_(None))
    await session.execute(its.values(heard_at=func.now()).execution_options(synchronize_session=False))
    held = row.card_matured_at.is_(None) | row.transfer_matured_at.is_(None)
    await _mark_due(session, (row.machine_id == machine_id) & held)


async def _mark_due(session: AsyncSession, which: ColumnElement[bool]) -> None:
    """Locked in one order, or two who mark some of the same ones would wait for each other."""
    key = tuple_(EarningRow.hour_id, EarningRow.replica_id)
    in_order = select(EarningRow.hour_id, EarningRow.replica_id).where(which)
    in_order = in_order.order_by(EarningRow.hour_id, EarningRow.replica_id).with_for_update()
    marked = update(EarningRow).where(key.in_(in_order)).values(look_at=func.now())
    await session.execute(marked.execution_options(synchronize_session=False))


async def void_of(session: AsyncSession, row: EarningRow) -> Void | None:
    void = MachineVoidRow
    its = (void.machine_id == row.machine_id) & (void.at > row.hour_began_at)
    found = (
        await session.execute(select(void.reason).where(its).order_by(void.at).limit(1))
    ).scalar_one_or_none()
    return Void(found) if found is not None else None
