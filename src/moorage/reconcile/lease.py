"""Leases: who leads, and a token that keeps a former leader from writing.

A lease does not fence the engine. It is checked on the monotonic clock before each request to it, and
every transaction of a reconciler begins with `guard`, which takes a key-share lock on the lease's row: a
takeover (which locks the row for update) has to wait for that transaction, and after a takeover the old
token matches nothing. A renewal touches no key and waits for nobody.

A process that was stopped in the middle of a transaction would hold that lock until somebody lets it go on. So a
takeover waits for a moment only, and then ends the connections that are in its way: what they had not committed is undone,
which is as good as never begun. Whoever only looks whether there is something to take over locks nothing.
"""

import asyncio
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import structlog
from sqlalchemy import bindparam, func, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.kit.clock import Clock
from moorage.kit.database import Database, database_now, table_of
from moorage.kit.errors import LeaseLostError
from moorage.reconcile.models import LeaseRow

log = structlog.get_logger()

LEASE_S = 10.0
RENEW_EVERY_S = 3.0
WAIT_FOR_OLD_TRANSACTIONS_S = 1.0
"""Of a leader whose lease has run out: one that lives ends them within that, or goes the way of one that does not."""
ANSWERED_WITHIN_S = 3.0
"""Whether there is something to take over. A connection that does not say so in time is given up for another, because what it leads
to may be gone, and a takeover must not wait for that."""
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

_END_WHAT_BLOCKS = text("""
SELECT in_the_way, pg_terminate_backend(in_the_way)
FROM pg_stat_activity, unnest(pg_blocking_pids(pid)) AS in_the_way WHERE application_name = :attempt
""")


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
        async with asyncio.timeout(ANSWERED_WITHIN_S):
            held = await self._is_held()
        if held:
            return None
        attempt = f"takes {secrets.token_hex(16)}"
        taking = asyncio.create_task(self._take(attempt))
        try:
            while not (await asyncio.wait([taking], timeout=WAIT_FOR_OLD_TRANSACTIONS_S))[0]:
                async with asyncio.timeout(ANSWERED_WITHIN_S):
                    await self._end_what_blocks(attempt)
            return taking.result()
        finally:
            taking.cancel()
            await asyncio.gather(taking, return_exceptions=True)

    async def _is_held(self) -> bool:
        async with self._database.reading() as session:
            query = select(_leases.c.token, _leases.c.expires_at, func.clock_timestamp())
            row = (await session.execute(query.where(_leases.c.name == self._name))).one_or_none()
        return row is not None and self._is_in_force(*row)

    async def _take(self, attempt: str) -> Lease | None:
        async with self._database.transaction() as session:
            # Until the transaction ends, and not a moment longer: its connection is somebody else's then.
            await session.execute(select(func.set_config("application_name", attempt, True)))
            never_held = {"name": self._name, "holder": self._holder, "token": 0, "expires_at": func.now()}
            await session.execute(insert(LeaseRow).values(never_held).on_conflict_do_nothing())
            query = select(LeaseRow).where(LeaseRow.name == self._name)
            row = (await session.execute(query.with_for_update())).scalar_one()
            # Only now: until here it may have waited.
            asked_at_s = self._clock.monotonic()
            now = await database_now(session)
            if self._is_in_force(row.token, row.expires_at, now):
                return None
            row.holder, row.token = self._holder, row.token + 1
            row.expires_at = now + timedelta(seconds=LEASE_S)
        return Lease(self._name, row.token, asked_at_s + LEASE_S, self._clock)

    async def _end_what_blocks(self, attempt: str) -> None:
        """A transaction that a former leader left open, or somebody else's attempt, which is then repeated."""
        async with self._database.reading() as session:
            ended = (await session.execute(_END_WHAT_BLOCKS, {"attempt": attempt})).scalars().all()
        if ended:
            log.warning("transactions_ended", lease=self._name, connections=ended)

    def _is_in_force(self, token: int, expires_at: datetime, now: datetime) -> bool:
        return expires_at > now and not self._is_left_over(token, expires_at, now)

    def _is_left_over(self, token: int, expires_at: datetime, now: datetime) -> bool:
        """Whether it ends so late only because the database's clock was set back, and nobody renews it: who held it
        would have done so within the length of a lease, which our own clock measures."""
        if expires_at <= now + timedelta(seconds=LEASE_S):
            self._ahead = None
            return False
        now_s = self._clock.monotonic()
        if self._ahead is None or self._ahead[:2] != (token, expires_at):
            self._ahead = token, expires_at, now_s
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
