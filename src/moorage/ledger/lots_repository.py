"""SQL of where credit came from, and of what each hour was paid with.

Credit comes in *lots*. Given ones are spent first, then card payments, then bank transfers; of each kind the oldest first. A lot is
spent from its beginning to its end, and each part of an hour's price is a stretch of it. What a bank takes back of a payment is
its end: the stretches that lie there were not paid after all.

Whoever calls has changed the organization's row in `credit_accounts` in the same transaction, and is alone with its lots; that is why
these are statements of their own (docs/locking.md: first the lock, then the question).
"""

from collections.abc import Sequence

from sqlalchemy import BigInteger, String, bindparam, text
from sqlalchemy.dialects.postgresql import ARRAY, insert
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.ledger.accounts import Source
from moorage.ledger.models import CreditLotRow


async def add_lot(
    session: AsyncSession, transaction_id: str, organization_id: str, source: Source, amount_microusd: int
) -> None:
    await session.execute(
        insert(CreditLotRow).values(
            id=transaction_id,
            organization_id=organization_id,
            source=source,
            amount_microusd=amount_microusd,
        )
    )


async def fund_hours(session: AsyncSession, hour_ids: Sequence[str]) -> None:
    """Write down what these hours, all of one organization, were just paid with."""
    if hour_ids:
        await session.execute(_FUND, {"ids": list(hour_ids)})


async def withdraw(
    session: AsyncSession,
    transaction_id: str,
    organization_id: str,
    amount_microusd: int,
    *,
    first_key: str | None,
) -> None:
    """Money goes back: of the payment with this key first, where one is named."""
    about = {
        "transaction": transaction_id,
        "organization": organization_id,
        "amount": amount_microusd,
        "first_key": first_key,
    }
    await session.execute(_WITHDRAW, about)


async def put_back(session: AsyncSession, key: str) -> bool:
    """The refund with this key failed. It is in the lots again that it was taken from; False: nobody wrote down which."""
    return (await session.execute(_PUT_BACK, {"key": key})).first() is not None


async def set_taken_back(session: AsyncSession, key: str, amount_microusd: int) -> str | None:
    """So much of the payment with this key has been taken back by now. Its lot, if that is news."""
    about = {"key": key, "amount": amount_microusd}
    return (await session.execute(_TAKEN_BACK, about)).scalar_one_or_none()


_RANK = "CASE source WHEN 'given' THEN 0 WHEN 'card' THEN 1 ELSE 2 END"
_LEFT = "amount_microusd - spent_microusd - withdrawn_microusd"

# Both the hours and the lots are laid on one line, from zero to what they come to; where two overlap, one pays for the other.
_FUND = text(f"""
WITH wanted AS (
    SELECT id, organization_id, sum(price_microusd) OVER (ORDER BY id) - price_microusd AS first,
        sum(price_microusd) OVER (ORDER BY id) AS last
    FROM hours WHERE id = ANY(:ids)
), lots AS (
    SELECT id, spent_microusd, sum({_LEFT}) OVER (ORDER BY {_RANK}, number) - ({_LEFT}) AS first,
        sum({_LEFT}) OVER (ORDER BY {_RANK}, number) AS last
    FROM credit_lots
    WHERE organization_id = (SELECT min(organization_id) FROM wanted)
        AND spent_microusd + withdrawn_microusd < amount_microusd
), parts AS (
    SELECT wanted.id AS hour_id, lots.id AS lot_id,
        (spent_microusd + greatest(wanted.first, lots.first) - lots.first)::bigint AS begins,
        (least(wanted.last, lots.last) - greatest(wanted.first, lots.first))::bigint AS amount
    FROM wanted JOIN lots ON wanted.first < lots.last AND lots.first < wanted.last
), written AS (
    INSERT INTO hour_funds (hour_id, lot_id, begins_microusd, amount_microusd)
    SELECT hour_id, lot_id, begins, amount FROM parts
)
UPDATE credit_lots SET spent_microusd = spent_microusd + used.total
FROM (SELECT lot_id, sum(amount)::bigint AS total FROM parts GROUP BY lot_id) AS used
WHERE credit_lots.id = used.lot_id
""").bindparams(bindparam("ids", type_=ARRAY(String)))  # noqa: S608 - all constants

_WITHDRAW = text(f"""
WITH ranked AS (
    SELECT lot.id, {_LEFT} AS left_over, number,
        CASE WHEN :first_key = payment.key THEN -1 ELSE {_RANK} END AS rank
    FROM credit_lots lot LEFT JOIN ledger_transactions payment ON payment.id = lot.id
    WHERE lot.organization_id = :organization AND spent_microusd + withdrawn_microusd < amount_microusd
), lots AS (
    SELECT id, left_over, sum(left_over) OVER (ORDER BY rank, number) - left_over AS first FROM ranked
), parts AS (
    SELECT id AS lot_id, least(left_over, :amount - first)::bigint AS amount FROM lots WHERE first < :amount
), written AS (
    INSERT INTO credit_withdrawals (transaction_id, lot_id, amount_microusd)
    SELECT :transaction, lot_id, amount FROM parts
)
UPDATE credit_lots SET withdrawn_microusd = withdrawn_microusd + parts.amount
FROM parts WHERE credit_lots.id = parts.lot_id
""").bindparams(  # noqa: S608 - all constants
    bindparam("first_key", type_=String),
    bindparam("organization", type_=String),
    bindparam("transaction", type_=String),
    bindparam("amount", type_=BigInteger),
)

_PUT_BACK = text("""
UPDATE credit_lots SET withdrawn_microusd = withdrawn_microusd - parts.amount_microusd
FROM credit_withdrawals parts JOIN ledger_transactions refund ON refund.id = parts.transaction_id
WHERE refund.key = :key AND credit_lots.id = parts.lot_id
RETURNING credit_lots.id
""")

_TAKEN_BACK = text("""
UPDATE credit_lots SET taken_back_microusd = least(:amount, amount_microusd)
FROM ledger_transactions payment
WHERE payment.key = :key AND credit_lots.id = payment.id
    AND taken_back_microusd <> least(:amount, amount_microusd)
RETURNING credit_lots.id
""").bindparams(bindparam("amount", type_=BigInteger))
