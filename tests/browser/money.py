"""Four weeks of money: three top-ups, and the hours that were bought from them, up to those that are paid for now."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from tests.database.api_support import Api, Home

TOP_UPS = {27: 1_000, 15: 1_000, 4: 800}
"""Dollars, so many days ago."""
HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class Slot:
    """What one replica after the other of a container buys an hour for."""

    container_id: str
    since: datetime
    slot: int = 0
    until: datetime | None = None
    by_day: bool = False
    """Between 08:00 and 20:00 UTC alone."""


async def add_money(api: Api, home: Home, slots: list[Slot], now: datetime) -> None:
    """As the ledger writes it, only earlier: every hour and every top-up is a transaction with two entries."""
    credit = f"credit:{home.organization_id}"
    for days_ago, dollars in TOP_UPS.items():
        await api.execute(
            "WITH booked AS (INSERT INTO ledger_transactions (id, key, kind, organization_id, at, details) "
            "VALUES (:id, :id, 'card_top_up', :organization, :at, '{}') RETURNING id) "
            "INSERT INTO ledger_entries (transaction_id, account, amount_microusd) SELECT id, account, amount FROM booked, "
            "(VALUES (CAST(:credit AS text), CAST(:amount AS bigint)), ('card', -CAST(:amount AS bigint))) AS leg (account, amount)",
            id=f"txn_{home.organization_id}{days_ago}",
            organization=home.organization_id,
            at=now - timedelta(days=days_ago),
            credit=credit,
            amount=dollars * 1_000_000,
        )
    for slot in slots:
        await _add_hours(api, home, slot, now)
    await _hold(api, home)
    await api.execute(
        "WITH booked AS (INSERT INTO ledger_transactions (id, key, kind, organization_id, at, details) SELECT 'txn' || substr(id, 5), "
        "'hour:' || id, 'usage', organization_id, bought_at, jsonb_build_object('container_id', container_id, "
        "'project_id', project_id, 'slot', slot, 'instance_type', instance_type) "
        "FROM hours WHERE organization_id = :organization AND state = 'paid' RETURNING id) "
        "INSERT INTO ledger_entries (transaction_id, account, amount_microusd) "
        "SELECT booked.id, leg.account, leg.amount FROM booked JOIN hours ON booked.id = 'txn' || substr(hours.id, 5), "
        "LATERAL (VALUES (CAST(:credit AS text), -price_microusd), ('usage', price_microusd)) leg (account, amount)",
        organization=home.organization_id,
        credit=credit,
    )
    held = "(SELECT coalesce(sum(price_microusd), 0) FROM hours WHERE organization_id = :organization AND state = 'held')"
    await api.execute(
        f"UPDATE credit_accounts SET held_microusd = {held}, available_microusd = (SELECT sum(amount_microusd) "
        f"FROM ledger_entries WHERE account = :credit) - {held} WHERE organization_id = :organization",
        organization=home.organization_id,
        credit=credit,
    )


async def _add_hours(api: Api, home: Home, slot: Slot, now: datetime) -> None:
    """One after the other, at today's price."""
    await api.execute(
        "INSERT INTO hours (id, organization_id, project_id, container_id, instance_type, slot, price_microusd, state, "
        "held_at, bought_at, expires_at, due_at) SELECT 'hour_' || c.id || CAST(:slot AS int) || '_' || row_number() OVER (), :organization, "
        "c.project_id, c.id, c.instance_type, :slot, t.price_per_hour_microusd, 'paid', b.at, b.at, b.at + interval '1 hour', "
        # The one that another will follow is live: what may run in its slot costs nothing more.
        "CASE WHEN b.at > CAST(:now AS timestamptz) - interval '1 hour' THEN b.at + interval '58 minutes' END "
        "FROM containers c JOIN instance_types t ON t.name = c.instance_type, "
        "generate_series(CAST(:since AS timestamptz), CAST(:until AS timestamptz), interval '1 hour') b (at) "
        "WHERE c.id = :container AND (NOT :by_day OR extract(hour FROM b.at AT TIME ZONE 'UTC') BETWEEN 8 AND 19)",
        container=slot.container_id,
        organization=home.organization_id,
        slot=slot.slot,
        since=slot.since,
        until=slot.until or now,
        now=now,
        by_day=slot.by_day,
    )


async def _hold(api: Api, home: Home) -> None:
    """For replicas that are not ready yet."""
    await api.execute(
        "INSERT INTO hours (id, organization_id, project_id, container_id, instance_type, slot, price_microusd, state, held_at) "
        "SELECT 'hour_' || c.id || slot, :organization, c.project_id, c.id, c.instance_type, slot, t.price_per_hour_microusd, 'held', "
        "c.state_since FROM containers c JOIN instance_types t ON t.name = c.instance_type, "
        "generate_series(0, c.desired_replicas - 1) slot "
        "WHERE c.project_id = :project AND c.state IN ('PENDING', 'PULLING', 'STARTING')",
        organization=home.organization_id,
        project=home.project_id,
    )
