"""What is left when everything was deleted and all that is kept for a time has run out: in the tables, and in memory."""

import re
from collections.abc import Iterator

from moorage.telemetry.partition_repository import DIVIDED_BY_DAYS
from tests.simulation.server import TABLES
from tests.simulation.world import World

_FOR_GOOD = frozenset(
    {
        *("ledger_transactions", "ledger_entries", "hours", "billing_documents", "card_payments"),
        *(
            "credit_lots",
            "hour_funds",
            "hour_moves",
            "credit_withdrawals",
            "earnings",
            "payouts",
            "past_memberships",
        ),
        *(
            "leases",
            "reconciler_status",
            "gateways",
            "nodes",
            "machines",
            "machine_state_changes",
            "tunnel_hubs",
        ),
        *DIVIDED_BY_DAYS,
        *("container_samples", "gateway_reports"),
        *("users", "organizations", "organization_members", "projects", "project_members", "credit_accounts"),
        *("payout_accounts", "payout_account_hashes", "card_fingerprints"),
        *("saved_cards", "auto_top_ups", "spending_limits", "billing_details", "webhooks"),
    }
)
"""Tables that the law keeps (of `hours` those that were paid, with what is known of them), those with one row in the end for each machine or process, those whose old
days the log collector drops and those whose old seconds the metrics' keeper does, which are not in here, and those with what somebody set and has not taken back."""


def rows_of_tables(world: World) -> dict[str, int]:
    tables = [name for (name,) in world.query(TABLES) if name is not None]
    counts = " UNION ALL ".join(f"SELECT '{name}', count(*) FROM \"{name}\"" for name in tables)
    return {name: int(count or 0) for name, count in world.query(counts) if name is not None}


def grown(world: World, rows_at_first: dict[str, int]) -> Iterator[str]:
    """All is deleted, and what is kept of it has run out: there is as much as on the first day, but for what is paid. In
    memory too: a process that lives for a year remembers nothing of what is gone."""
    for table, count in rows_of_tables(world).items():
        if table not in _FOR_GOOD and count > rows_at_first[table]:
            yield f"{table} has {count} rows, and had {rows_at_first[table]} on the first day"
    for (count,) in world.query("SELECT count(*) FROM hours WHERE state <> 'paid'"):
        if count != "0":
            yield f"{count} hours that were never paid are kept"
    for machine, count in world.query(
        "SELECT machine_id, count(*) FROM machine_state_changes GROUP BY 1 HAVING count(*) > 1"
    ):
        yield f"{count} states of {machine} are kept, and it is in one"
    for process, drivers in world.drivers.items():
        for driver in drivers:
            # Whoever leads no longer keeps at most what there was then, and forgets it when it leads again.
            if driver._leads:
                for place, kept in remembered(driver, driver.reconciler.name):
                    yield f"{process} remembers {kept} in {place}"


def remembered(thing: object, place: str) -> Iterator[tuple[str, str]]:
    """What lies in the collections of an object and of those it consists of, if they belong to the control plane."""
    for name, value in vars(thing).items():
        if isinstance(value, dict | set | list):
            items = value.items() if isinstance(value, dict) else value
            if any(_ID.search(text := repr(item)[:300]) for item in items):
                yield f"{place}.{name}", text
        elif type(value).__module__.startswith("moorage.") and name not in _SHARED:
            yield from remembered(value, f"{place}.{name}")


_ID = re.compile(r"\b(ctr|rep|hour)_[0-9a-z]{8,}|sim-\d{8}")
_SHARED = frozenset({"database", "keyring", "settings"})
