"""Four weeks of money: three top-ups, and the hours that were bought from them."""

from tests.database.api_support import Api, Home

TOP_UPS = {27: 1_000, 15: 800, 4: 300}
"""Dollars, so many days ago."""


async def add_money(api: Api, home: Home) -> None:
    """As the ledger writes it, only earlier: every hour and every top-up is a transaction with two entries."""
    ids = {"organization": home.organization_id, "project": home.project_id}
    for days_ago, dollars in TOP_UPS.items():
        transaction = f"txn_{home.organization_id}{days_ago}"
        await api.execute(
            "INSERT INTO ledger_transactions (id, key, kind, organization_id, at, details) "
            "VALUES (:id, :id, 'card_top_up', :organization, now() - :days * interval '24 hours', '{}')",
            id=transaction,
            organization=home.organization_id,
            days=days_ago,
        )
        await api.execute(
            "INSERT INTO ledger_entries VALUES (:id, :credit, :microusd), (:id, 'card', :back)",
            id=transaction,
            credit=f"credit:{home.organization_id}",
            microusd=dollars * 1_000_000,
            back=-dollars * 1_000_000,
        )
    await api.execute(
        "INSERT INTO hours (id, organization_id, project_id, container_id, instance_type, slot, price_microusd, state, "
        "held_at, bought_at, expires_at) SELECT 'hour_' || c.id || n, :organization, c.project_id, c.id, c.instance_type, 0, "
        "1100000, 'paid', b.at, b.at, b.at + interval '1 hour' FROM containers c, generate_series(1, 27 * 24 - 1) n, "
        "LATERAL (SELECT now() - n * interval '1 hour' AS at) b "
        "WHERE c.project_id = :project AND c.state = 'RUNNING' AND (n / 24 + length(c.name)) % 3 > 0",
        **ids,
    )
    await api.execute(
        "INSERT INTO ledger_transactions (id, key, kind, organization_id, at, details) SELECT 'txn' || substr(id, 5), "
        "'hour:' || id, 'usage', organization_id, bought_at, jsonb_build_object('container_id', container_id, "
        "'project_id', project_id, 'slot', slot, 'instance_type', instance_type) "
        "FROM hours WHERE organization_id = :organization AND state = 'paid'",
        organization=home.organization_id,
    )
    await api.execute(
        "INSERT INTO ledger_entries SELECT 'txn' || substr(id, 5), leg.account, leg.microusd FROM hours, "
        "LATERAL (VALUES ('credit:' || organization_id, -price_microusd), ('usage', price_microusd)) "
        "leg (account, microusd) WHERE organization_id = :organization AND state = 'paid'",
        organization=home.organization_id,
    )
    await api.execute(
        "UPDATE credit_accounts SET available_microusd = (SELECT sum(amount_microusd) FROM ledger_entries "
        "WHERE account = :credit) - held_microusd WHERE organization_id = :organization",
        organization=home.organization_id,
        credit=f"credit:{home.organization_id}",
    )
