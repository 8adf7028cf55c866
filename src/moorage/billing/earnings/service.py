"""Hours that are over are settled: the owners of the machines that served in them get their share, once.

What was served is written down with it and never changes. What it is worth is looked at again when a payment is taken back or
given back after all, when a machine fails its proof, and when its time of waiting is over; what differs is booked. So a payment
that is taken back after a payout leaves a balance below zero, which later earnings fill.

Whoever looks has locked the buyer's account, so that nothing of it is taken back meanwhile.
"""

from dataclasses import replace
from datetime import datetime, timedelta

import structlog
from sqlalchemy import func
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.billing.earnings import repository
from moorage.billing.earnings.models import EarningRow
from moorage.billing.earnings.relations_repository import are_related
from moorage.billing.earnings.rules import (
    MICROSECOND,
    Parts,
    Served,
    Void,
    earned,
    good_parts,
    served_in,
    stays_of,
)
from moorage.kit.database import database_now
from moorage.kit.errors import NotFoundError
from moorage.kit.settings import Settings
from moorage.ledger.accounts import USAGE, Kind, earnings_of
from moorage.ledger.lots_repository import set_taken_back
from moorage.ledger.models import HourRow
from moorage.ledger.repository import Posting, lock_available, post
from moorage.machines.ownership import owner_of, void_served
from moorage.organizations.audit.repository import record_audit

log = structlog.get_logger()


async def settle_hour(session: AsyncSession, settings: Settings, hour_id: str) -> None:
    """Of one that is over. Repeatable: it is settled once."""
    hour = await repository.lock_hour(session, hour_id)
    if hour is None:
        return
    assert hour.begins_at is not None, "the query says so"
    assert hour.expires_at is not None, "a constraint says so"
    assert hour.length is not None, "it came with the beginning"
    moves = await repository.moves_of(session, hour.id)
    stays = stays_of(hour.slot, hour.begins_at, hour.expires_at, moves)
    served = served_in(stays, await repository.spans_in(session, hour), hour.length)
    if served:
        await lock_available(session, hour.organization_id)
    for one in served:
        row = _new_row(hour, one, settings)
        row.void_reason = await _void(session, row)
        worth = await _worth(session, row)
        row.card_microusd, row.transfer_microusd = worth.card_microusd, worth.transfer_microusd
        await repository.add_earning(session, row)
        await _book(session, row, Kind.EARNING, worth.total_microusd, f"earn:{row.hour_id}:{row.replica_id}")
    hour.settled_at = func.now()
    await session.flush()


async def look_at_earning(session: AsyncSession, hour_id: str, replica_id: str) -> None:
    """What is it worth by now? And has it waited long enough to be payable?"""
    buyer = await repository.buyer_of(session, hour_id, replica_id)
    if buyer is None:
        return
    await lock_available(session, buyer)
    row = await repository.lock_earning(session, hour_id, replica_id)
    now = await database_now(session)
    if row is None or row.look_at is None or row.look_at > now:
        return
    if row.void_reason is None and _is_held(row):
        row.void_reason = await _void(session, row)
    await _correct(session, row, await _worth(session, row))
    if row.void_reason is None:
        _mature(row, now)
    row.look_at = _next_look(row)
    await session.flush()


async def note_taken_back(
    session: AsyncSession, organization_id: str, key: str, amount_microusd: int
) -> None:
    """So much of this payment of the organization has been taken back by now, by refunds and disputes."""
    await lock_available(session, organization_id)
    lot_id = await set_taken_back(session, key, amount_microusd)
    if lot_id is not None:
        await repository.look_again(session, lot_id)


async def void_earnings(session: AsyncSession, operator_id: str, machine_id: str, reason: str) -> None:
    """By the operator's word."""
    owner = await owner_of(session, machine_id)
    if owner is None:
        raise NotFoundError("There is no such machine with an owner.")
    await void_served(session, machine_id, "operator")
    record_audit(
        session, owner, actor=operator_id, action="machine.void_earnings", target=machine_id, reason=reason
    )


def _new_row(hour: HourRow, served: Served, settings: Settings) -> EarningRow:
    assert hour.begins_at is not None
    assert hour.expires_at is not None
    assert hour.length is not None
    row = EarningRow(
        hour_id=hour.id,
        replica_id=served.replica_id,
        owner_organization_id=served.owner_organization_id,
        buyer_organization_id=hour.organization_id,
        machine_id=served.machine_id,
        hour_began_at=hour.begins_at,
        hour_ended_at=hour.expires_at,
        served_us=served.microseconds,
        length_us=hour.length // MICROSECOND,
        price_microusd=hour.price_microusd,
        share_percent=settings.owners_share_percent,
        card_payable_at=_later(hour.expires_at, settings.card_earnings_held_days),
        transfer_payable_at=_later(hour.expires_at, settings.transfer_earnings_held_days),
        corrections=0,
    )
    row.look_at = _next_look(row)
    return row


async def _void(session: AsyncSession, row: EarningRow) -> Void | None:
    """Asked when it is settled and again whenever it is looked at while it is held: who joins later is found too."""
    owner, buyer = row.owner_organization_id, row.buyer_organization_id
    if await are_related(session, owner, buyer, row.hour_began_at):
        return Void.RELATED
    return await repository.void_of(session, row)


async def _worth(session: AsyncSession, row: EarningRow) -> Parts:
    """By what is known now. What is void is worth what was payable before it was."""
    good = good_parts(await repository.funds_of(session, row.hour_id))
    if row.void_reason is not None:
        good = replace(
            good,
            card_microusd=good.card_microusd if row.card_matured_at is not None else 0,
            transfer_microusd=good.transfer_microusd if row.transfer_matured_at is not None else 0,
        )
    return earned(good, row.served_us, row.length_us, row.share_percent)


async def _correct(session: AsyncSession, row: EarningRow, worth: Parts) -> None:
    before = row.card_microusd + row.transfer_microusd
    if (row.card_microusd, row.transfer_microusd) == (worth.card_microusd, worth.transfer_microusd):
        return
    row.card_microusd, row.transfer_microusd = worth.card_microusd, worth.transfer_microusd
    row.corrections += 1
    kind = Kind.EARNING_RESTORED if worth.total_microusd > before else Kind.EARNING_REVERSED
    key = f"earn:{row.hour_id}:{row.replica_id}:{row.corrections}"
    await _book(session, row, kind, abs(worth.total_microusd - before), key)
    log.info("earning_corrected", hour_id=row.hour_id, replica_id=row.replica_id, kind=kind)


async def _book(session: AsyncSession, row: EarningRow, kind: Kind, amount_microusd: int, key: str) -> None:
    if amount_microusd == 0:
        return
    owner = row.owner_organization_id
    source, target = USAGE, earnings_of(owner)
    if kind is Kind.EARNING_REVERSED:
        source, target = target, source
    details = {"hour_id": row.hour_id, "replica_id": row.replica_id, "machine_id": row.machine_id}
    details |= {"reason": row.void_reason} if row.void_reason is not None else {}
    booked = await post(session, Posting(key, kind, owner, source, target, amount_microusd, details))
    assert booked, "the row is locked, and its number is new"


def _mature(row: EarningRow, now: datetime) -> None:
    """What is void never does: having been payable is all that would be left of it (`_worth`)."""
    if row.card_payable_at <= now and row.card_matured_at is None:
        row.card_matured_at = now
    if row.transfer_payable_at <= now and row.transfer_matured_at is None:
        row.transfer_matured_at = now


def _is_held(row: EarningRow) -> bool:
    return row.card_matured_at is None or row.transfer_matured_at is None


def _next_look(row: EarningRow) -> datetime | None:
    if row.void_reason is not None:
        return None  # It waits for nothing any more.
    waits = [
        payable_at
        for payable_at, matured_at in (
            (row.card_payable_at, row.card_matured_at),
            (row.transfer_payable_at, row.transfer_matured_at),
        )
        if matured_at is None
    ]
    return min(waits, default=None)


def _later(moment: datetime, days: int) -> datetime:
    return moment + timedelta(days=days)
