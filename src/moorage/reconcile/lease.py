"""Leases: who leads, and a token that keeps a former leader from writing.

A lease does not fence the engine. It is checked on the monotonic clock before each engine call, and
every transaction of a reconciler begins with `guard`, which takes a key-share lock on the lease's row: a
takeover (which locks the row for update) has to wait for that transaction, and after a takeover the old
token matches nothing. A renewal touches no key and waits for nobody.
"""

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import bindparam, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.kit.clock import Clock
from moorage.kit.database import Database, table_of
from moorage.kit.errors import LeaseLostError
from moorage.reconcile.models import LeaseRow

LEASE_S = 10.0
RENEW_EVERY_S = 3.0
_IN_A_LEASE = func.clock_timestamp() + timedelta(seconds=LEASE_S)
# Made once: every transaction of every reconciler begins with the first, and each of them renews every few seconds.
_leases = table_of(LeaseRow)
_ours = (_leases.c.name == bindparam("of")) & (_leases.c.token == bindparam("held"))
_HELD = (
    select(_leases.c.token)
    .where(_ours, _leases.c.expires_at > func.now())
    .with_for_update(read=True, key_share=True)
)
_RENEW = _leases.update().where(_ours).values(expires_at=_IN_A_LEASE).returning(_leases.c.token)
_GIVE_BACK = _leases.update().where(_ours).values(expires_at=func.now())


@dataclass
class Lease:
    name: str
    token: int
    deadline_s: float
    """On our monotonic clock, counted from before the request was sent: never later than Postgres thinks."""
    clock: Clock

    def check(self) -> None:
        """Call before every effect outside the database."""
        if self.clock.monotonic() >= self.deadline_s:
            raise LeaseLostError(f"The lease {self.name} has run out.")

    async def guard(self, session: AsyncSession) -> None:
        """Call first in every transaction that writes."""
        self.check()
        held = await session.execute(_HELD, _name_and_token(self))
        if held.scalar_one_or_none() is None:
            raise LeaseLostError(f"Another process holds the lease {self.name} now.")


class LeaseKeeper:
    """Gets the lease, keeps it, and gives it back on a clean stop."""

    def __init__(self, database: Database, name: str, holder: str, clock: Clock) -> None:
        self._database = database
        self._name = name
        self._holder = holder
        self._clock = clock
        self._ahead: tuple[int, datetime, float] | None = None
        """A lease that ends later than any can: its token, its end, and since when we see it so."""

    async def acquire(self) -> Lease | None:
        """A lease with a new token, or None while somebody else leads."""
        asked_at_s = self._clock.monotonic()
        async with self._database.transaction() as session:
            never_held = {"name": self._name, "holder": self._holder, "token": 0, "expires_at": func.now()}
            await session.execute(insert(LeaseRow).values(never_held).on_conflict_do_nothing())
            query = select(LeaseRow, func.clock_timestamp()).where(LeaseRow.name == self._name)
            row, now = (await session.execute(query.with_for_update())).one()
            if row.expires_at > now and not self._is_left_over(row, now):
                return None
            row.holder, row.token = self._holder, row.token + 1
            row.expires_at = now + timedelta(seconds=LEASE_S)
        return Lease(self._name, row.token, asked_at_s + LEASE_S, self._clock)

    def _is_left_over(self, row: LeaseRow, now: datetime) -> bool:
        """Whether it ends so late only because the database's clock was set back, and nobody renews it: who held it
        would have done so within the length of a lease, which our own clock measures."""
        if row.expires_at <= now + timedelta(seconds=LEASE_S):
            self._ahead = None
            return False
        now_s = self._clock.monotonic()
        if self._ahead is None or self._ahead[:2] != (row.token, row.expires_at):
            self._ahead = row.token, row.expires_at, now_s
        return now_s - self._ahead[2] >= LEASE_S

    async def keep(self, lease: Lease) -> None:
        """Renew until somebody else has it, or until our own clock says that it ran out."""
        while True:
            await self._clock.sleep(RENEW_EVERY_S)
            asked_at_s = self._clock.monotonic()
            try:
                async with asyncio.timeout(max(lease.deadline_s - asked_at_s, 0.1)):
                    if not await self._renew(lease):
                        raise LeaseLostError(f"Another process took the lease {self._name}.")
            except LeaseLostError:
                raise
            except Exception:  # noqa: BLE001 - the database may be away for a moment; the deadline decides
                lease.check()
            else:
                lease.deadline_s = asked_at_s + LEASE_S

    async def release(self, lease: Lease) -> None:
        async with self._database.transaction() as session:
            await session.execute(_GIVE_BACK, _name_and_token(lease))

    async def _renew(self, lease: Lease) -> bool:
        async with self._database.transaction() as session:
            renewed = await session.execute(_RENEW, _name_and_token(lease))
            return renewed.scalar_one_or_none() is not None


def _name_and_token(lease: Lease) -> dict[str, Any]:
    return {"of": lease.name, "held": lease.token}
