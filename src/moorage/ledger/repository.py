"""SQL of accounts and entries. `post` is the only way in which money comes or goes, except for hours (`hours_repository.py`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import BigInteger, String, bindparam, func, select, text, update
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.kit.errors import InsufficientCreditError
from moorage.kit.ids import new_transaction_id
from moorage.kit.money import format_usd
from moorage.ledger.accounts import GRANTS, INITIAL_CREDIT_MICROUSD, Kind, Source, credit_of, source_of
from moorage.ledger.lots_repository import add_lot, put_back, withdraw
from moorage.ledger.models import CreditAccountRow, EntryRow, TransactionRow


@dataclass(frozen=True)
class Balance:
    available_microusd: int
    held_microusd: int

    @property
    def total_microusd(self) -> int:
        return self.available_microusd + self.held_microusd


@dataclass(frozen=True)
class Posting:
    """`amount_microusd` goes from one account to another. `key` names what it is about: it happens once."""

    key: str
    kind: Kind
    organization_id: str
    source: str
    target: str
    amount_microusd: int
    details: Mapping[str, Any] = field(default_factory=dict)


async def post(session: AsyncSession, posting: Posting) -> bool:
    """False when a transaction with that key is there already; then nothing changes."""
    assert posting.amount_microusd > 0, "money moves forward; a correction goes the other way"
    booked = await session.execute(
        _BOOK,
        {
            "id": new_transaction_id(),
            "key": posting.key,
            "kind": posting.kind,
            "organization_id": posting.organization_id,
            "details": dict(posting.details),
            "source": posting.source,
            "target": posting.target,
            "amount": posting.amount_microusd,
        },
    )
    found = booked.first()
    if found is None:
        return False
    legs = {posting.source: -posting.amount_microusd, posting.target: posting.amount_microusd}
    change = legs.get(credit_of(posting.organization_id))
    if change is not None:
        await _change_available(session, posting.organization_id, change)
        await _change_lots(session, posting, found.transaction_id, change)
    return True


async def booked_keys(session: AsyncSession, keys: Sequence[str]) -> set[str]:
    query = select(TransactionRow.key).where(TransactionRow.key.in_(keys))
    return set((await session.execute(query)).scalars())


async def booked_amounts(session: AsyncSession, keys: Sequence[str]) -> dict[str, tuple[str, int]]:
    """Key → the account that it was taken from, and how much."""
    query = (
        select(TransactionRow.key, EntryRow.account, -EntryRow.amount_microusd)
        .join(EntryRow, EntryRow.transaction_id == TransactionRow.id)
        .where(TransactionRow.key.in_(keys), EntryRow.amount_microusd < 0)
    )
    return {key: (account, amount) for key, account, amount in await session.execute(query)}


async def balance_of(session: AsyncSession, organization_id: str) -> Balance:
    """Who never had any has nothing."""
    query = select(CreditAccountRow.available_microusd, CreditAccountRow.held_microusd)
    found = (await session.execute(query.where(CreditAccountRow.organization_id == organization_id))).first()
    return Balance(*found) if found is not None else Balance(0, 0)


async def lock_available(session: AsyncSession, organization_id: str) -> int:
    """What may be spent, and nobody else spends it until this transaction ends."""
    query = select(CreditAccountRow.available_microusd).where(
        CreditAccountRow.organization_id == organization_id
    )
    return (await session.execute(query.with_for_update())).scalar_one_or_none() or 0


def available_credit(organization_id: Any) -> Any:
    """A scalar subquery, for whoever reads other things about the organization anyway."""
    query = select(CreditAccountRow.available_microusd).where(
        CreditAccountRow.organization_id == organization_id
    )
    return func.coalesce(query.correlate_except(CreditAccountRow).scalar_subquery(), 0)


async def grant_initial_credit(session: AsyncSession, organization_id: str, user_id: str) -> str:
    """Once per person; the key of its transaction. Whoever signs up comes here through `initial_credit_repository.py`, which knows spellings and cards."""
    key = f"initial-credit:{user_id}"
    await post(
        session,
        Posting(
            key=key,
            kind=Kind.INITIAL_CREDIT,
            organization_id=organization_id,
            source=GRANTS,
            target=credit_of(organization_id),
            amount_microusd=INITIAL_CREDIT_MICROUSD,
            details={"user_id": user_id},
        ),
    )
    return key


async def require_credit(session: AsyncSession, organization_id: str) -> None:
    """What a new project needs: a balance above zero."""
    if (await balance_of(session, organization_id)).total_microusd <= 0:
        raise InsufficientCreditError(
            "A project needs a balance above zero. Top up your credit first.", missing_microusd=1
        )


def insufficient(needed_microusd: int, available_microusd: int) -> InsufficientCreditError:
    missing = needed_microusd - available_microusd
    return InsufficientCreditError(
        f"This needs {format_usd(needed_microusd)} of credit, but only {format_usd(available_microusd)} is "
        f"available. Top up at least {format_usd(missing)} first.",
        missing_microusd=missing,
    )


async def _change_lots(session: AsyncSession, posting: Posting, transaction_id: str, change: int) -> None:
    """After the account: whoever holds that row is alone with the organization's lots."""
    if posting.kind is Kind.REFUND_FAILED:
        if not await put_back(session, posting.key.replace("refund-failed:", "refund:", 1)):
            await add_lot(session, transaction_id, posting.organization_id, Source.GIVEN, change)
    elif change > 0:
        source = source_of(posting.source)
        await add_lot(session, transaction_id, posting.organization_id, source, change)
    else:
        payment = posting.details.get("top_up_id")
        first = f"card:{payment}" if payment is not None else None
        await withdraw(session, transaction_id, posting.organization_id, -change, first_key=first)


async def _change_available(session: AsyncSession, organization_id: str, amount_microusd: int) -> None:
    account = CreditAccountRow
    if amount_microusd > 0:
        await session.execute(
            insert(account)
            .values(organization_id=organization_id, available_microusd=amount_microusd, held_microusd=0)
            .on_conflict_do_update(
                index_elements=[account.organization_id],
                set_={
                    "available_microusd": account.available_microusd + amount_microusd,
                    # There is more again: whoever is warned of its end is warned anew.
                    "low_credit_told_h": None,
                },
            )
        )
        return
    spent = (
        update(account)
        .where(
            account.organization_id == organization_id,
            account.available_microusd >= -amount_microusd,
        )
        .values(available_microusd=account.available_microusd + amount_microusd)
        .returning(account.organization_id)
    )
    if (await session.execute(spent)).scalar_one_or_none() is None:
        balance = await balance_of(session, organization_id)
        raise insufficient(-amount_microusd, balance.available_microusd)


_BOOK = text("""
WITH booked AS (
    INSERT INTO ledger_transactions (id, key, kind, organization_id, details)
    VALUES (:id, :key, :kind, :organization_id, :details) ON CONFLICT (key) DO NOTHING
    RETURNING id
)
INSERT INTO ledger_entries (transaction_id, account, amount_microusd)
SELECT id, leg.account, leg.amount
FROM booked, (VALUES (:source, -:amount), (:target, :amount)) AS leg (account, amount)
RETURNING transaction_id
""").bindparams(
    bindparam("details", type_=JSONB),
    bindparam("source", type_=String),
    bindparam("target", type_=String),
    bindparam("amount", type_=BigInteger),
)
