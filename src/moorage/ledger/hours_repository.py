"""SQL of holds and paid hours. Each step that moves money is one statement: it happens as a whole or not at all.

Whoever changes the hours of a container has locked its row, and has read them under that lock (`read_hours`); what was
read before may be another's by now. `docs/locking.md` says which locks come in which order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import bindparam, func, select, text, update
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.types import BigInteger, Integer, Interval, String

from moorage.kit.errors import ConflictError
from moorage.kit.ids import new_hour_id
from moorage.ledger.lots_repository import fund_hours
from moorage.ledger.models import HourRow
from moorage.ledger.repository import balance_of, insufficient, lock_available
from moorage.ledger.rules import Coverage, Hour, Occupied, cover
from moorage.ledger.spending import Limit, Refused, over_limit_sentence
from moorage.ledger.spending_repository import lock_tightest_limit


@dataclass(frozen=True)
class Buyer:
    """Whose hours they are: who pays, and for what."""

    organization_id: str
    project_id: str
    container_id: str
    instance_type: str
    price_microusd: int
    """Of one hour."""
    sibling_type: str | None = None
    """At whose price, where the replica took a type of the other kind."""


@dataclass(frozen=True)
class Taken:
    """What a replica took, of two types with the same sizes."""

    sibling_type: str | None
    """None: its container's own."""
    price_microusd: int


_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


@dataclass(frozen=True)
class Hours:
    """The live ones of a container."""

    hours: tuple[Hour, ...]
    now: datetime
    """By the database's clock, when they were read."""


NO_HOURS = Hours((), _EPOCH)
"""Of a container that is new."""


def live_hours(container_id: Any) -> Any:
    """A scalar subquery with the container's live hours as JSON, for whoever reads other things about it anyway."""
    hour = HourRow
    # A paid one without `due_at` has been followed by another, or could not be: nothing new can count on it.
    live = (hour.state == "held") | hour.due_at.is_not(None)
    # Of one that is paused, time passes for nobody.
    paused_for = func.coalesce(func.clock_timestamp() - hour.paused_at, text("interval '0'"))
    row = func.jsonb_build_array(
        hour.id,
        hour.slot,
        hour.instance_type,
        func.extract("epoch", hour.expires_at + paused_for),
        hour.paused_at.is_not(None),
    )
    query = select(func.coalesce(func.jsonb_agg(row), text("'[]'::jsonb")))
    return query.where(hour.container_id == container_id, live).correlate_except(hour).scalar_subquery()


def hours_from_json(rows: Sequence[Sequence[Any]]) -> tuple[Hour, ...]:
    return tuple(
        Hour(one_id, slot, instance_type, _moment(expires_s), is_paused)
        for one_id, slot, instance_type, expires_s, is_paused in rows
    )


async def read_hours(session: AsyncSession, container_id: str) -> Hours:
    """In a transaction that has locked the container's row; then they stay as they are until it ends."""
    query = select(live_hours(container_id), func.clock_timestamp())
    rows, now = (await session.execute(query)).one()
    return Hours(hours_from_json(rows), now)


async def hold_at_admission(
    session: AsyncSession, buyer: Buyer, slots: Sequence[int], occupied: Occupied, found: Hours
) -> None:
    """The funding gate: an hour for each slot that has none, or an error and nothing at all."""
    coverage = await _arrange(session, buyer, slots, occupied, found)
    if not coverage.hold:
        return
    needed_microusd = len(coverage.hold) * buyer.price_microusd
    limit = await lock_tightest_limit(session, buyer.organization_id, buyer.project_id)
    if limit is not None and limit.left_microusd < needed_microusd:
        raise ConflictError(over_limit_sentence(limit, needed_microusd), code="spending_limit")
    if not await _hold(session, buyer, coverage.hold):
        balance = await balance_of(session, buyer.organization_id)
        raise insufficient(needed_microusd, balance.available_microusd)


async def cover_slots(
    session: AsyncSession, buyer: Buyer, slots: Sequence[int], occupied: Occupied, found: Hours
) -> list[int]:
    """Those of the slots that have an hour now, held or paid. What cannot be paid is left out."""
    coverage = await _arrange(session, buyer, slots, occupied, found)
    if not coverage.hold:
        return list(slots)
    affordable = await _lock_and_count_affordable(session, buyer, coverage)
    held = coverage.hold[:affordable]
    if held and not await _hold(session, buyer, held):
        held = ()  # the organization is suspended
    return [slot for slot in slots if slot not in coverage.hold or slot in held]


async def close(session: AsyncSession, hour_ids: Sequence[str]) -> None:
    """Nothing follows these paid hours: whatever comes to their slots gets another."""
    if hour_ids:
        await session.execute(update(HourRow).where(HourRow.id.in_(hour_ids)).values(due_at=None))


async def capture(
    session: AsyncSession,
    container_id: str,
    slots: Sequence[int],
    hour: timedelta,
    lead: timedelta,
    taken: Mapping[int, Taken] | None = None,
) -> None:
    """The replicas of these slots are ready: what was held for them is bought, and lasts from now, or from the end of
    the slot's last hour. Not for an organization that is suspended: there they go again. `taken`, by slot: at that price, if it
    is lower than what was held; the rest comes back."""
    known = taken or {}
    values = {
        "container_id": container_id,
        "slots": list(slots),
        "hour": hour,
        "lead": lead,
        "taken_slots": list(known),
        "taken_types": [one.sibling_type for one in known.values()],
        "taken_prices": [one.price_microusd for one in known.values()],
    }
    bought = await session.execute(_CAPTURE, values)
    await fund_hours(session, list(bought.scalars()))


async def release(session: AsyncSession, hour_ids: Sequence[str]) -> None:
    """Give back what was held; a hold that became an hour meanwhile stays one."""
    await session.execute(_RELEASE, {"ids": list(hour_ids)})


async def renew(
    session: AsyncSession,
    renewed: HourRow,
    buyer: Buyer,
    begins_at: datetime,
    hour: timedelta,
    lead: timedelta,
) -> Refused | None:
    """Buy the hour that follows."""
    over = await _refusing_limit(session, buyer)
    if over is not None:
        return Refused(over)
    values = {
        **_buyer_values(buyer),
        "id": new_hour_id(),
        "slot": renewed.slot,
        "renews": renewed.id,
        "begins_at": begins_at,
        "length": hour,
        "expires_at": begins_at + hour,
        "due_at": begins_at + hour - lead,
    }
    bought = (await session.execute(_RENEW, values)).scalar_one_or_none()
    if bought is None:
        return Refused(limit=None)
    await fund_hours(session, [bought])
    return None


async def hold_next(session: AsyncSession, renewed: HourRow, buyer: Buyer) -> Refused | None:
    """Hold the hour that follows, for a replica that is still coming up."""
    over = await _refusing_limit(session, buyer)
    if over is not None:
        return Refused(over)
    return None if await _hold(session, buyer, (renewed.slot,)) else Refused(limit=None)


async def _arrange(
    session: AsyncSession, buyer: Buyer, slots: Sequence[int], occupied: Occupied, found: Hours
) -> Coverage:
    """What can be done without money: what is over makes way, and spare hours go where they are needed."""
    # Held for a deployment that is over; a slot waits for one hour at a time.
    other_type = [
        hour.id for hour in found.hours if hour.is_held and hour.instance_type != buyer.instance_type
    ]
    if other_type:
        await release(session, other_type)
    coverage = cover(slots, occupied, found.hours, buyer.instance_type, found.now)
    await close(session, coverage.close)
    for hour_id, slot in coverage.moves:
        await session.execute(_MOVE, {"id": hour_id, "slot": slot})
    return coverage


async def _refusing_limit(session: AsyncSession, buyer: Buyer) -> Limit | None:
    """One that another hour does not fit into."""
    limit = await lock_tightest_limit(session, buyer.organization_id, buyer.project_id)
    return limit if limit is not None and limit.left_microusd < buyer.price_microusd else None


async def _hold(session: AsyncSession, buyer: Buyer, slots: Sequence[int]) -> bool:
    values = {
        **_buyer_values(buyer),
        "ids": [new_hour_id() for _ in slots],
        "slots": list(slots),
        "total": len(slots) * buyer.price_microusd,
    }
    return (await session.execute(_HOLD, values)).first() is not None


async def _lock_and_count_affordable(session: AsyncSession, buyer: Buyer, coverage: Coverage) -> int:
    available = await lock_available(session, buyer.organization_id)
    limit = await lock_tightest_limit(session, buyer.organization_id, buyer.project_id)
    spendable = min(available, limit.left_microusd) if limit is not None else available
    return min(spendable // buyer.price_microusd, len(coverage.hold))


def _buyer_values(buyer: Buyer) -> dict[str, Any]:
    return {
        "organization_id": buyer.organization_id,
        "project_id": buyer.project_id,
        "container_id": buyer.container_id,
        "instance_type": buyer.instance_type,
        "price": buyer.price_microusd,
        "sibling_type": buyer.sibling_type,
    }


def _moment(epoch_s: float | None) -> datetime | None:
    return None if epoch_s is None else _EPOCH + timedelta(seconds=float(epoch_s))


_BUYER = (
    bindparam("organization_id", type_=String),
    bindparam("project_id", type_=String),
    bindparam("container_id", type_=String),
    bindparam("instance_type", type_=String),
    bindparam("price", type_=BigInteger),
    bindparam("sibling_type", type_=String),
)

_HOLD = text("""
WITH account AS (
    UPDATE credit_accounts
    SET available_microusd = available_microusd - :total, held_microusd = held_microusd + :total
    WHERE organization_id = :organization_id AND available_microusd >= :total
        AND NOT EXISTS (SELECT FROM organizations WHERE id = :organization_id AND suspended_at IS NOT NULL)
    RETURNING organization_id
)
INSERT INTO hours (id, organization_id, project_id, container_id, instance_type, sibling_type, slot, price_microusd, state)
SELECT wanted.id, account.organization_id, :project_id, :container_id, :instance_type, :sibling_type, wanted.slot, :price,
    'held'
FROM account, unnest(:ids, :slots) AS wanted (id, slot)
RETURNING id
""").bindparams(
    *_BUYER,
    bindparam("ids", type_=ARRAY(String)),
    bindparam("slots", type_=ARRAY(Integer)),
    bindparam("total", type_=BigInteger),
)

_BOOK_USAGE = """
, transactions AS (
    INSERT INTO ledger_transactions (id, key, kind, organization_id, details)
    SELECT 'txn' || substr(id, 5), 'hour:' || id, 'usage', organization_id,
        jsonb_build_object('container_id', container_id, 'project_id', project_id, 'slot', slot,
            'instance_type', coalesce(sibling_type, instance_type))
    FROM bought
)
, entries AS (
    INSERT INTO ledger_entries (transaction_id, account, amount_microusd)
    SELECT 'txn' || substr(id, 5), 'credit:' || organization_id, -price_microusd FROM bought
    UNION ALL
    SELECT 'txn' || substr(id, 5), 'usage', price_microusd FROM bought
)
SELECT id FROM bought
"""

_CAPTURE = text(
    """
WITH bought AS (
    UPDATE hours
    SET state = 'paid', bought_at = now(), begins_at = begins.at, length = :hour,
        expires_at = begins.at + :hour, due_at = begins.at + :hour - :lead,
        price_microusd = least(hours.price_microusd, taken.price), sibling_type = taken.sibling_type
    FROM (
        -- What is left of the hour before it is paid already.
        SELECT held.id AS hour_id, held.slot AS of_slot, held.price_microusd AS held_microusd,
            greatest(now(), max(before.expires_at)) AS at
        FROM hours held LEFT JOIN hours before ON before.container_id = held.container_id
            AND before.slot = held.slot AND before.instance_type = held.instance_type AND before.state = 'paid'
        WHERE held.container_id = :container_id AND held.state = 'held'
        GROUP BY held.id
    ) begins LEFT JOIN unnest(:taken_slots, :taken_types, :taken_prices) AS taken (slot, sibling_type, price)
        ON taken.slot = begins.of_slot
    WHERE id = begins.hour_id AND hours.slot = ANY(:slots) AND state = 'held'
        AND NOT EXISTS (
            SELECT FROM organizations WHERE id = hours.organization_id AND suspended_at IS NOT NULL
        )
    RETURNING hours.*, begins.held_microusd
), account AS (
    UPDATE credit_accounts SET held_microusd = credit_accounts.held_microusd - spent.held,
        available_microusd = available_microusd + spent.held - spent.total
    FROM (
        SELECT organization_id, sum(held_microusd)::bigint AS held, sum(price_microusd)::bigint AS total
        FROM bought GROUP BY 1
    ) AS spent
    WHERE credit_accounts.organization_id = spent.organization_id
)"""  # noqa: S608 - two constants
    + _BOOK_USAGE
).bindparams(
    bindparam("container_id", type_=String),
    bindparam("slots", type_=ARRAY(Integer)),
    bindparam("hour", type_=Interval),
    bindparam("lead", type_=Interval),
    bindparam("taken_slots", type_=ARRAY(Integer)),
    bindparam("taken_types", type_=ARRAY(String)),
    bindparam("taken_prices", type_=ARRAY(BigInteger)),
)

_RENEW = text(
    """
WITH account AS (
    UPDATE credit_accounts SET available_microusd = available_microusd - :price
    WHERE organization_id = :organization_id AND available_microusd >= :price
    RETURNING organization_id
), bought AS (
    INSERT INTO hours (id, organization_id, project_id, container_id, instance_type, sibling_type, slot, price_microusd,
        state, bought_at, begins_at, length, expires_at, due_at, renews)
    SELECT :id, organization_id, :project_id, :container_id, :instance_type, :sibling_type, :slot, :price,
        'paid', now(), :begins_at, :length, :expires_at, :due_at, :renews
    FROM account
    RETURNING *
)"""  # noqa: S608 - two constants
    + _BOOK_USAGE
).bindparams(*_BUYER, bindparam("length", type_=Interval))

# The two slots change places with all that is left of what was paid for them: each moment of a slot lies in one hour. Until
# now it was for what served in the other slot: its owner is paid for that.
_MOVE = text("""
WITH going AS (
    SELECT paid.id, paid.slot, CASE paid.slot WHEN :slot THEN spare.slot ELSE :slot END AS new_slot
    FROM hours spare JOIN hours paid ON paid.container_id = spare.container_id
        AND paid.instance_type = spare.instance_type AND paid.slot IN (spare.slot, :slot) AND paid.state = 'paid'
    WHERE spare.id = :id AND (paid.id = spare.id OR paid.expires_at > now())
), before AS (
    INSERT INTO hour_moves (hour_id, moved_at, from_slot) SELECT id, now(), slot FROM going ON CONFLICT DO NOTHING
)
UPDATE hours SET slot = going.new_slot FROM going WHERE hours.id = going.id
""").bindparams(bindparam("slot", type_=Integer))

_RELEASE = text("""
WITH released AS (
    UPDATE hours SET state = 'released' WHERE id = ANY(:ids) AND state = 'held'
    RETURNING organization_id, price_microusd
)
UPDATE credit_accounts
SET available_microusd = available_microusd + back.total, held_microusd = held_microusd - back.total
FROM (SELECT organization_id, sum(price_microusd)::bigint AS total FROM released GROUP BY 1) AS back
WHERE credit_accounts.organization_id = back.organization_id
""").bindparams(bindparam("ids", type_=ARRAY(String)))
