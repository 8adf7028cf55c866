"""One leader at a time, and a former leader writes nothing."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.kit.clock import VirtualClock, system_clock
from moorage.kit.database import Database, _driver_of
from moorage.kit.errors import LeaseLostError
from moorage.reconcile.lease import LEASE_S, WAIT_FOR_OLD_TRANSACTIONS_S, Lease, LeaseKeeper


def keeper(database: Database, holder: str) -> LeaseKeeper:
    return LeaseKeeper(database, "work", holder, system_clock)


async def expire(database: Database) -> None:
    """What ten seconds of silence would do."""
    async with database.transaction() as session:
        await session.execute(text("UPDATE leases SET expires_at = now() - interval '1 second'"))


async def guarded_write(database: Database, lease: Lease) -> None:
    async with database.transaction() as session:
        await lease.guard(session)
        await session.execute(
            text("INSERT INTO gateways VALUES ('gtw_x', now(), now()) ON CONFLICT DO NOTHING")
        )


async def acquired(database: Database, holder: str) -> Lease:
    lease = await keeper(database, holder).acquire()
    assert lease is not None
    return lease


async def test_only_one_of_many_gets_it(database: Database) -> None:
    leases = await asyncio.gather(*(keeper(database, f"process {index}").acquire() for index in range(5)))
    assert len([lease for lease in leases if lease is not None]) == 1


async def test_a_takeover_makes_the_old_token_worthless(database: Database) -> None:
    old = await acquired(database, "old")
    await guarded_write(database, old)
    await expire(database)
    new = await acquired(database, "new")
    assert new.token > old.token
    with pytest.raises(LeaseLostError):
        await guarded_write(database, old)
    await guarded_write(database, new)


async def test_who_keeps_a_later_user_of_the_connection_waiting_is_left_alone(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy process notices late that it has the lease. Its connection may wait for something else by then."""
    taker = keeper(database, "busy")
    asked: list[str] = []
    take = taker._take

    async def taking(attempt: str) -> Lease | None:
        asked.append(attempt)
        return await take(attempt)

    monkeypatch.setattr(taker, "_take", taking)
    assert await taker.acquire() is not None
    other = Database(database.dsn, pool_size=1)
    async with other.transaction() as slow:
        await slow.execute(text("LOCK TABLE gateways"))

        async def waits() -> None:
            async with database.transaction() as session:
                await session.execute(text("SELECT count(*) FROM gateways"))

        waiting = [asyncio.create_task(waits()) for _ in range(3)]
        async with asyncio.timeout(10), database.reading() as session:
            while await blocked(session) < len(waiting):  # noqa: ASYNC110 - other connections
                await asyncio.sleep(0.01)
        await taker._end_what_blocks(asked[0])
        await slow.execute(text("SELECT 1"))
    await asyncio.gather(*waiting)
    await other.close()


async def blocked(session: AsyncSession) -> int:
    query = text("SELECT count(*) FROM pg_stat_activity WHERE cardinality(pg_blocking_pids(pid)) > 0")
    return int((await session.execute(query)).scalar_one())


async def test_a_takeover_waits_for_a_write_that_is_under_way(database: Database) -> None:
    old = await acquired(database, "old")
    async with database.transaction() as session:
        await old.guard(session)
        async with database.transaction() as other:
            # The lease runs out while this transaction is open; only then is there something to take over.
            await other.execute(text("UPDATE leases SET expires_at = now() - interval '1 second'"))
        takeover = asyncio.create_task(keeper(database, "new").acquire())
        done, _ = await asyncio.wait([takeover], timeout=0.3)
        assert not done
    assert await takeover is not None


@asynccontextmanager
async def idle(database: Database, session: AsyncSession) -> AsyncIterator[None]:
    """Between two statements, as a process that was stopped there."""
    await session.execute(text("INSERT INTO gateways VALUES ('gtw_x', now(), now())"))
    yield


@asynccontextmanager
async def in_a_copy(database: Database, session: AsyncSession) -> AsyncIterator[None]:
    """The server waits for rows, and does not call that idle."""
    goes_on = asyncio.Event()

    async def rows() -> AsyncIterator[bytes]:
        yield b"gtw_x\t2026-01-01\t2026-01-01\n"
        await goes_on.wait()

    driver = await _driver_of(session)
    copying = asyncio.create_task(driver.copy_to_table("gateways", source=rows()))
    waits = "SELECT count(*) FROM pg_stat_activity WHERE query ILIKE 'COPY%' AND wait_event = 'ClientRead'"
    async with database.reading() as other:
        while not (await other.execute(text(waits))).scalar_one():
            assert not copying.done(), copying
            await asyncio.sleep(0.01)
    yield
    goes_on.set()
    assert isinstance((await asyncio.gather(copying, return_exceptions=True))[0], Exception)


@pytest.mark.parametrize("standing", [idle, in_a_copy])
async def test_a_takeover_ends_the_transaction_of_a_process_that_stands_still(
    database: Database, standing: Callable[[Database, AsyncSession], AbstractAsyncContextManager[None]]
) -> None:
    """Or nobody leads until somebody lets that process go on."""
    old = await acquired(database, "old")
    async with database.session() as session:
        await old.guard(session)
        async with standing(database, session):
            await expire(database)
            async with asyncio.timeout(WAIT_FOR_OLD_TRANSACTIONS_S + 5):
                new = await acquired(database, "new")
        assert new.token == old.token + 1
        with pytest.raises(DBAPIError):
            await session.execute(text("SELECT 1"))
    async with database.reading() as session:
        assert (await session.execute(text("SELECT count(*) FROM gateways"))).scalar_one() == 0
    await guarded_write(database, new)


async def test_a_look_at_a_lease_that_is_held_waits_for_nothing(database: Database) -> None:
    """Neither does it lock: a process that is stopped while it looks would keep the leader from every write."""
    leader = await acquired(database, "leader")
    async with database.transaction() as session:
        await leader.guard(session)
        async with asyncio.timeout(0.5):
            assert await keeper(database, "other").acquire() is None


async def test_the_server_undoes_a_transaction_that_stands_still(database_dsn: str) -> None:
    """Whoever left it: else its locks are in everybody's way for as long as its process is stopped."""
    database = Database(database_dsn, pool_size=2, longest_idle_transaction_s=1)
    try:
        async with database.session() as session:
            await session.execute(text("LOCK TABLE gateways"))
            async with asyncio.timeout(10), database.transaction() as other:
                await other.execute(text("LOCK TABLE gateways"))
            with pytest.raises(DBAPIError):
                await session.execute(text("SELECT 1"))
    finally:
        await database.close()


async def test_a_lease_that_ran_out_on_our_own_clock_is_lost_without_asking(database: Database) -> None:
    lease = await acquired(database, "a")
    lease.deadline_s = system_clock.monotonic() - 1
    with pytest.raises(LeaseLostError):
        lease.check()


async def test_release_lets_the_next_one_in_at_once(database: Database) -> None:
    lease = await acquired(database, "a")
    assert await keeper(database, "b").acquire() is None
    await keeper(database, "a").release(lease)
    assert await keeper(database, "b").acquire() is not None


async def test_a_clock_set_back_does_not_keep_the_next_one_out(database: Database) -> None:
    """To a database whose clock was set back by an hour, the last word of a leader that died lies an hour ahead."""
    clock = VirtualClock()
    old = await acquired(database, "old")
    next_one = LeaseKeeper(database, "work", "new", clock)
    await set_clock_back(database)
    assert await next_one.acquire() is None
    # A leader that lives renews, and then nobody waits for anything but its end.
    await clock.advance(LEASE_S)
    assert await keeper(database, "old")._renew(old)
    assert await next_one.acquire() is None
    await set_clock_back(database)
    assert await next_one.acquire() is None
    await clock.advance(LEASE_S - 0.1)
    assert await next_one.acquire() is None
    await clock.advance(0.2)
    taken = await next_one.acquire()
    assert taken is not None
    assert taken.token == old.token + 1
    with pytest.raises(LeaseLostError):
        await guarded_write(database, old)
    await guarded_write(database, taken)


async def set_clock_back(database: Database) -> None:
    async with database.transaction() as session:
        await session.execute(text("UPDATE leases SET expires_at = expires_at + interval '1 hour'"))
