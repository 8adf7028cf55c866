"""SQL of what an owner has earned, and how much of it can be sent."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, cast, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.billing.earnings.models import EarningRow
from moorage.billing.payouts.models import PayoutRow


@dataclass(frozen=True)
class EarningsBalance:
    held_microusd: int
    """Earned, and not to be sent yet: it may still be taken back."""
    matured_microusd: int
    """Everything that has waited long enough, sent or not."""
    requested_microusd: int
    """Asked for, and not sent yet."""
    paid_microusd: int
    next_payable_at: datetime | None
    """When the next part of what is held can be sent."""

    @property
    def payable_microusd(self) -> int:
        return max(self.matured_microusd - self.paid_microusd - self.requested_microusd, 0)

    @property
    def owed_microusd(self) -> int:
        """Sent, and taken back by a bank after that. Later earnings make up for it, and nobody else."""
        return max(self.paid_microusd - self.matured_microusd, 0)


async def earnings_balance(session: AsyncSession, organization_id: str) -> EarningsBalance:
    row = EarningRow
    card_held, transfer_held = row.card_matured_at.is_(None), row.transfer_matured_at.is_(None)
    query = select(
        _sum(row.card_microusd, card_held),
        _sum(row.transfer_microusd, transfer_held),
        _sum(row.card_microusd, ~card_held),
        _sum(row.transfer_microusd, ~transfer_held),
        func.least(
            func.min(row.card_payable_at).filter(card_held, row.card_microusd > 0),
            func.min(row.transfer_payable_at).filter(transfer_held, row.transfer_microusd > 0),
        ),
    ).where(row.owner_organization_id == organization_id)
    card_held_microusd, transfer_held_microusd, *matured, next_payable_at = (
        await session.execute(query)
    ).one()
    payout = PayoutRow
    paid = select(
        _sum(payout.amount_microusd, payout.state == "requested"),
        _sum(payout.amount_microusd, payout.state == "confirmed"),
    ).where(payout.organization_id == organization_id)
    requested_microusd, paid_microusd = (await session.execute(paid)).one()
    return EarningsBalance(
        held_microusd=card_held_microusd + transfer_held_microusd,
        matured_microusd=sum(matured),
        requested_microusd=requested_microusd,
        paid_microusd=paid_microusd,
        next_payable_at=next_payable_at,
    )


def _sum(column: Any, which: ColumnElement[bool]) -> ColumnElement[int]:
    # Postgres adds integers up to a decimal number.
    return func.coalesce(cast(func.sum(column).filter(which), BigInteger), 0)
