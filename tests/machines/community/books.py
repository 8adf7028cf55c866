"""The money of the story, read where it is kept: what was charged, what was earned, and by which seconds."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import text

from moorage.kit.database import Database
from moorage.kit.money import format_usd
from moorage.kit.postgres import database_dsn
from moorage.kit.settings import Settings
from moorage.ledger.check_repository import find_differences, find_slots_paid_wrongly
from tests.acceptance.stack import Stack, until
from tests.machines.community.people import LENT_PRICE, OWN_PRICE, People
from tests.machines.fleet import Fleet

_SHARE_PERCENT = 70
_TWICE = """
SELECT one.slot, one.id, other.id FROM hours one JOIN hours other
    ON other.container_id = one.container_id AND other.slot = one.slot AND other.id > one.id
WHERE one.container_id = :container AND one.state = 'paid' AND other.state = 'paid'
    AND one.begins_at IS NOT NULL AND other.begins_at IS NOT NULL
    AND tstzrange(one.begins_at, one.expires_at) && tstzrange(other.begins_at, other.expires_at)
"""
_SEEN = """
SELECT coalesce(extract(epoch FROM sum(upper(part) - lower(part))), 0)
FROM (
    SELECT unnest(range_agg(tstzrange(span.began_at, coalesce(span.ended_at, now())) * tstzrange(hours.begins_at, hours.expires_at)))
        AS part
    FROM hours JOIN served_spans span ON span.container_id = hours.container_id AND span.slot = hours.slot
        AND span.began_at < hours.expires_at AND coalesce(span.ended_at, now()) > hours.begins_at
    WHERE hours.settled_at IS NOT NULL AND span.machine_id = :machine
    GROUP BY hours.id
) AS seen
"""
_EARNED = """
SELECT earning.hour_id, earning.served_us, earning.length_us, earning.price_microusd, earning.share_percent,
    earning.card_microusd, earning.transfer_microusd
FROM earnings earning WHERE earning.machine_id = :machine
"""


@dataclass(frozen=True)
class Earned:
    hours: int
    served_s: float
    seen_s: float
    """In the same hours, as gateways reported it."""
    microusd: int

    def __str__(self) -> str:
        return f"{format_usd(self.microusd)} for {self.served_s:.0f} s of {self.hours} hours, {self.seen_s:.0f} s as gateways saw it"


def until_earned(people: People, name: str) -> Earned:
    """What the machine's owner sees, when the hours that it served in are settled; held to what gateways reported."""
    until(lambda: people.earnings(name).get("earned_microusd", 0) > 0, f"{name} has earned", 600, 2)
    return earned(people, name)


def earned(people: People, name: str) -> Earned:
    machine_id = people.lab.ids[name]
    rows = _rows(people.lab.stack, _EARNED, machine=machine_id)
    ((seen_s,),) = _rows(people.lab.stack, _SEEN, machine=machine_id)
    for row in rows:
        share = row.price_microusd * _SHARE_PERCENT * row.served_us // (100 * row.length_us)
        assert (row.card_microusd, row.transfer_microusd) == (0, share), row
        assert row.price_microusd in (OWN_PRICE, LENT_PRICE), row
    found = Earned(
        len({row.hour_id for row in rows}),
        sum(row.served_us for row in rows) / 1e6,
        float(seen_s),
        sum(row.transfer_microusd for row in rows),
    )
    assert found.microusd > 0
    assert found.served_s <= found.seen_s + 0.001, "nobody is paid for what no gateway saw"
    return found


def balanced(fleet: Fleet) -> str:
    """Nothing charged twice, nothing served unpaid, and all entries add up to zero."""
    twice = _rows(fleet.lab.stack, _TWICE, container=fleet.chat.id)
    assert twice == [], "a slot's hour is charged once"
    ((total, entries),) = _rows(fleet.lab.stack, "SELECT sum(amount_microusd), count(*) FROM ledger_entries")
    assert total == 0
    findings = asyncio.run(_checked(fleet.lab.stack))
    assert findings == [], findings
    return f"{fleet.hours_bought()} hours, none twice; {entries} entries add up to 0; the installation's own check finds nothing"


def _rows(stack: Stack, statement: str, **values: object) -> Sequence[Any]:
    return asyncio.run(_read(stack, statement, values))


async def _read(stack: Stack, statement: str, values: dict[str, object]) -> Sequence[Any]:
    database = Database(database_dsn(Settings(home=stack.home)))
    async with database.reading() as session:
        rows = (await session.execute(text(statement), values)).all()
    await database.close()
    return rows


async def _checked(stack: Stack) -> list[Any]:
    database = Database(database_dsn(Settings(home=stack.home)))
    async with database.reading() as session:
        found = [*await find_differences(session), *await find_slots_paid_wrongly(session)]
    await database.close()
    return found
