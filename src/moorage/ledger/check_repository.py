"""The online check: whether the money that is shown is the money that was booked, and whether every slot that serves
is paid for once.

The rules of the books hold after every commit, those of slots whenever no pass over the container is due: a pass buys
what is missing. Tests may ask at any such moment.

Which slots have to be paid is said in `containers/paying.py`, which everybody asks who buys. Here it is said a second time, in
SQL of its own: what checks the others must not share their mistakes.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import TextClause, text
from sqlalchemy.ext.asyncio import AsyncSession


@dataclass(frozen=True)
class Finding:
    """One rule that does not hold, and by how much."""

    rule: str
    subject: str
    difference_microusd: int


async def find_differences(session: AsyncSession) -> list[Finding]:
    """Empty when every cent is where it should be."""
    return await _find(session, _CHECK_BOOKS)


async def find_slots_paid_wrongly(session: AsyncSession) -> list[Finding]:
    """Empty when every slot that serves is paid for once, and nothing is held in vain."""
    return await _find(session, _CHECK_SLOTS)


async def _find(session: AsyncSession, check: TextClause) -> list[Finding]:
    return [
        Finding(rule, subject, int(difference)) for rule, subject, difference in await session.execute(check)
    ]


# Each gives (subject, difference) for whatever breaks it.
_RULES_OF_BOOKS = {
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
    # By us, or by owners of machines, who have it still or were sent it.
    "what was earned is the price of the hours": """
        SELECT 'usage', entries.total - hours.total
        FROM (SELECT coalesce(sum(amount_microusd), 0) AS total FROM ledger_entries
                WHERE account IN ('usage', 'payouts') OR account LIKE 'earnings:%') entries,
            (SELECT coalesce(sum(price_microusd), 0) AS total FROM hours WHERE state = 'paid') hours
        WHERE entries.total <> hours.total""",
    "a balance is what is left of what came in": """
        SELECT a.organization_id, a.available_microusd + a.held_microusd
            - coalesce(sum(l.amount_microusd - l.spent_microusd - l.withdrawn_microusd), 0)
        FROM credit_accounts a LEFT JOIN credit_lots l ON l.organization_id = a.organization_id
        GROUP BY a.organization_id HAVING a.available_microusd + a.held_microusd
            <> coalesce(sum(l.amount_microusd - l.spent_microusd - l.withdrawn_microusd), 0) LIMIT 20""",
    "each hour says where its money came from": """
        SELECT h.id, h.price_microusd - coalesce(sum(f.amount_microusd), 0)
        FROM hours h LEFT JOIN hour_funds f ON f.hour_id = h.id
        WHERE h.begins_at IS NOT NULL
        GROUP BY h.id HAVING h.price_microusd <> coalesce(sum(f.amount_microusd), 0) LIMIT 20""",
    "what came in was spent once": """
        SELECT l.id, l.spent_microusd - coalesce(sum(f.amount_microusd), 0)
        FROM credit_lots l LEFT JOIN hour_funds f ON f.lot_id = l.id
        GROUP BY l.id HAVING l.spent_microusd <> coalesce(sum(f.amount_microusd), 0)
            OR max(f.begins_microusd + f.amount_microusd) > l.spent_microusd LIMIT 20""",
    "what an owner earned is what was booked": """
        SELECT coalesce(booked.account, expected.account), coalesce(booked.total, 0) - coalesce(expected.total, 0)
        FROM (SELECT account, sum(amount_microusd) AS total FROM ledger_entries
                WHERE account LIKE 'earnings:%' GROUP BY account) booked
        FULL JOIN (SELECT account, sum(amount) AS total FROM (
                SELECT 'earnings:' || owner_organization_id AS account, card_microusd + transfer_microusd AS amount
                FROM earnings
                UNION ALL
                SELECT 'earnings:' || organization_id, -amount_microusd FROM payouts WHERE state = 'confirmed'
            ) parts GROUP BY account) expected ON expected.account = booked.account
        WHERE coalesce(booked.total, 0) <> coalesce(expected.total, 0) LIMIT 20""",
    "an hour earns its share at most": """
        SELECT e.hour_id, sum(e.card_microusd + e.transfer_microusd) - max(e.price_microusd * e.share_percent) / 100
        FROM earnings e GROUP BY e.hour_id
        HAVING 100 * sum(e.card_microusd + e.transfer_microusd) > max(e.price_microusd * e.share_percent)
            OR sum(e.served_us) > max(e.length_us) LIMIT 20""",
    # Of the last days: spans are not kept for good. By the union of what gateways said, in milliseconds that are too many.
    "nobody is paid for more than gateways saw": """
        SELECT paid.replica_id, (paid.served_us - seen.served_us) / 1000
        FROM (SELECT replica_id, sum(served_us) AS served_us FROM earnings
                WHERE created_at > now() - interval '7 days' GROUP BY replica_id) paid
        JOIN LATERAL (
            SELECT coalesce(sum(extract(epoch FROM upper(span) - lower(span))), 0) * 1000000 AS served_us
            FROM (
                SELECT unnest(range_agg(tstzrange(s.began_at, coalesce(s.ended_at, greatest(g.seen_at, s.began_at))))) AS span
                FROM served_spans s LEFT JOIN gateways g ON g.id = s.gateway_id
                WHERE s.replica_id = paid.replica_id
            ) spans
        ) seen ON paid.served_us > seen.served_us LIMIT 20""",
}
_RULES_OF_SLOTS = {
    # The difference is what the slot is charged too much each hour, below zero what is served for nothing. A slot that
    # is to go is not renewed. One that waits to be bought is no finding while a pass is due to buy it.
    "a slot that serves has one live hour": """
        SELECT slots.container_id || ' slot ' || slots.slot,
            (count(h.id) - 1) * max(t.price_per_hour_microusd)
        FROM (
            SELECT DISTINCT container_id, slot, instance_type FROM replicas
            WHERE state IN ('ready', 'routed') AND unfunded_at IS NULL AND missing_since IS NULL
        ) slots
        JOIN containers c ON c.id = slots.container_id
            AND c.desired_state = 'running' AND c.asleep_since IS NULL
            -- From 1000 on they are a canary's.
            AND (slots.slot < c.desired_replicas OR slots.slot >= 1000 AND c.trial_image IS NOT NULL)
        JOIN projects p ON p.id = c.project_id
        JOIN organizations o ON o.id = p.organization_id AND o.suspended_at IS NULL
        JOIN instance_types t ON t.name = slots.instance_type
        LEFT JOIN hours h ON h.container_id = slots.container_id AND h.slot = slots.slot
            AND h.instance_type = slots.instance_type
            AND (h.due_at IS NOT NULL OR (h.state = 'held' AND c.reconcile_at IS NOT NULL))
        -- Of each type: two versions beside each other may be of two.
        GROUP BY slots.container_id, slots.slot, slots.instance_type HAVING count(h.id) <> 1 LIMIT 20""",
    "the hour of a slot that serves does not pause": """
        SELECT h.container_id || ' slot ' || h.slot, -h.price_microusd
        FROM hours h JOIN containers c ON c.id = h.container_id AND c.reconcile_at IS NULL
        WHERE h.paused_at IS NOT NULL AND h.due_at IS NOT NULL AND EXISTS (
            SELECT FROM replicas r WHERE r.container_id = h.container_id AND r.slot = h.slot
                AND r.instance_type = h.instance_type AND r.state IN ('ready', 'routed')
                AND r.unfunded_at IS NULL AND r.missing_since IS NULL
        ) LIMIT 20""",
    "somebody waits for what is held": """
        SELECT h.container_id || ' slot ' || h.slot, h.price_microusd
        FROM hours h LEFT JOIN containers c ON c.id = h.container_id
        WHERE h.state = 'held' AND (
            c.id IS NULL OR c.deleted_at IS NOT NULL
            OR (c.reconcile_at IS NULL AND (
                c.state IN ('STOPPED', 'FAILED') OR c.asleep_since IS NOT NULL
                OR h.slot >= c.desired_replicas AND (h.slot < 1000 OR c.trial_image IS NULL)
            ))
        ) LIMIT 20""",
}


def _all_of(rules: Mapping[str, str]) -> TextClause:
    return text(
        " UNION ALL ".join(
            f"(SELECT '{rule}', found.* FROM ({query}) found)"  # noqa: S608 - all constants
            for rule, query in rules.items()
        )
    )


_CHECK_BOOKS, _CHECK_SLOTS = _all_of(_RULES_OF_BOOKS), _all_of(_RULES_OF_SLOTS)
