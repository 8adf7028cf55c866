"""The online check: whether the money that is shown is the money that was booked."""

from dataclasses import dataclass

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession


@dataclass(frozen=True)
class Finding:
    """One rule that does not hold, and by how much."""

    rule: str
    subject: str
    difference_microusd: int


async def find_differences(session: AsyncSession) -> list[Finding]:
    """Empty when every cent is where it should be."""
    return [
        Finding(rule, subject, int(difference)) for rule, subject, difference in await session.execute(_CHECK)
    ]


# Each gives (subject, difference) for whatever breaks it.
_RULES = {
    "entries add up to zero": """
        SELECT transaction_id, sum(amount_microusd) FROM ledger_entries
        GROUP BY transaction_id HAVING sum(amount_microusd) <> 0 LIMIT 20""",
    "every entry has its transaction": """
        SELECT e.transaction_id, e.amount_microusd FROM ledger_entries e
        LEFT JOIN ledger_transactions t ON t.id = e.transaction_id WHERE t.id IS NULL LIMIT 20""",
    "a balance is the sum of its entries": """
        SELECT a.organization_id,
            a.available_microusd + a.held_microusd - coalesce(sum(e.amount_microusd), 0)
        FROM credit_accounts a LEFT JOIN ledger_entries e ON e.account = 'credit:' || a.organization_id
        GROUP BY a.organization_id
        HAVING a.available_microusd + a.held_microusd <> coalesce(sum(e.amount_microusd), 0) LIMIT 20""",
    "what is held is the sum of the holds": """
        SELECT a.organization_id, a.held_microusd - coalesce(sum(h.price_microusd), 0)
        FROM credit_accounts a
        LEFT JOIN hours h ON h.organization_id = a.organization_id AND h.state = 'held'
        GROUP BY a.organization_id HAVING a.held_microusd <> coalesce(sum(h.price_microusd), 0) LIMIT 20""",
    "what was earned is the price of the hours": """
        SELECT 'usage', entries.total - hours.total
        FROM (SELECT coalesce(sum(amount_microusd), 0) AS total FROM ledger_entries WHERE account = 'usage') entries,
            (SELECT coalesce(sum(price_microusd), 0) AS total FROM hours WHERE state = 'paid') hours
        WHERE entries.total <> hours.total""",
}

_CHECK = text(
    " UNION ALL ".join(
        f"(SELECT '{rule}', found.* FROM ({query}) found)"  # noqa: S608 - all constants
        for rule, query in _RULES.items()
    )
)
