"""Postgres: sessions, and NOTIFY as a hint.

A session is short and never open across a network call. Services do not commit; whoever opened the
transaction (the request's edge, a reconciler's apply step) does, by leaving the `with` block.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime
from functools import lru_cache, partial
from io import BytesIO
from typing import Annotated, Any, cast

import asyncpg
import structlog
from sqlalchemy import (
    DateTime,
    MetaData,
    Select,
    String,
    Table,
    bindparam,
    delete,
    event,
    func,
    literal_column,
    select,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.exc import DBAPIError, DisconnectionError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, mapped_column
from sqlalchemy.pool import NullPool

from moorage.kit.clock import Clock, system_clock
from moorage.kit.dsn import asyncpg_arguments, parse_dsn
from moorage.kit.shared_pool import SharedPool, connections_in_use

log = structlog.get_logger()

CreatedAt = Annotated[datetime, mapped_column(DateTime(timezone=True), server_default=func.now())]


_AWAY = (
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
)
"""What Postgres says when it stops, starts, or takes nobody else."""
REFUSED = (asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError)
"""The server is there and says no: waiting does not help. The first includes a wrong password."""
LONGEST_IDLE_TRANSACTION_S = 15
"""A process that was stopped in the middle of a transaction holds its locks. The server undoes it after that, before others
that wait for them give up (`command_timeout`)."""
VANISHED_AFTER_S = 9
"""A server whose machine lost its power or its network says nothing, and a connection to it would wait for ever, or for a whole
`command_timeout`, one after the other. One that does not acknowledge for so long counts as closed, idle or not: before a lease ends."""
_IDLE_S, _ASKED_EVERY_S = 3, 2


class DatabaseAwayError(ConnectionError):
    """No connection to it could be made."""


class Base(DeclarativeBase):
    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(column_0_label)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {  # noqa: RUF012 - SQLAlchemy reads it from the class
        datetime: DateTime(timezone=True),
        str: String,
        dict[str, Any]: JSONB,
    }


def table_of(rows: type[Base]) -> Table:
    """For statements that no session has to follow: one on the class itself costs twice as much to run, because it
    also looks for the objects that it might concern."""
    return cast(Table, rows.__table__)


class Database:
    def __init__(
        self,
        dsn: str,
        *,
        pool_size: int = 10,
        longest_idle_transaction_s: int = LONGEST_IDLE_TRANSACTION_S,
    ) -> None:
        """0: as long as it likes."""
        self.dsn = dsn
        self.most_connections = 2 * pool_size
        self._engine = create_async_engine(
            "postgresql+asyncpg://",
            poolclass=SharedPool,
            pool_size=pool_size,
            max_overflow=pool_size,
            pool_timeout=10,
            # The connection used last has the statements prepared; in turn, each would prepare them all again.
            pool_use_lifo=True,
            connect_args={
                "async_creator_fn": partial(_connect, dsn),
                "timeout": 10,
                "command_timeout": 30,
                "server_settings": {"idle_in_transaction_session_timeout": f"{longest_idle_transaction_s}s"},
            },
        )
        event.listen(self._engine.sync_engine, "checkout", _refuse_closed)
        self._sessions = async_sessionmaker(self._engine, expire_on_commit=False)
        single_statements = self._engine.execution_options(isolation_level="AUTOCOMMIT")
        self._reading_sessions = async_sessionmaker(single_statements, expire_on_commit=False)

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncSession]:
        """Commits when the block ends, rolls back when it raises."""
        async with self._sessions() as session, session.begin():
            yield session

    @contextlib.asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncSession]:
        """For reads that need no common snapshot: each statement stands alone, without BEGIN and COMMIT."""
        async with self._reading_sessions() as session:
            yield session

    @contextlib.asynccontextmanager
    async def session(self) -> AsyncIterator[AsyncSession]:
        """Rolls back what the block did not commit by itself."""
        async with self._sessions() as session:
            yield session

    @property
    def connections_in_use(self) -> int:
        return connections_in_use(self._engine)

    async def close(self) -> None:
        await self._engine.dispose()


async def connect(dsn: str, **how: Any) -> asyncpg.Connection:
    """Everybody's way to the database: what the address says about TLS and several servers holds for each of them."""
    connection = await asyncpg.connect(**asyncpg_arguments(parse_dsn(dsn)), **how)
    _notice_when_it_vanishes(connection._transport.get_extra_info("socket"))
    return connection


def _notice_when_it_vanishes(server: socket.socket) -> None:
    if server.family == socket.AF_UNIX:
        return
    server.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    server.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _IDLE_S)
    server.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _ASKED_EVERY_S)
    server.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, (VANISHED_AFTER_S - _IDLE_S) // _ASKED_EVERY_S)
    # For what was sent and is not acknowledged, which nobody asks about.
    server.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, VANISHED_AFTER_S * 1000)


def unpooled_engine(dsn: str) -> AsyncEngine:
    """For a few statements in a row, and no statement twice."""
    return create_async_engine(
        "postgresql+asyncpg://", poolclass=NullPool, connect_args={"async_creator_fn": partial(connect, dsn)}
    )


async def _connect(dsn: str, **how: Any) -> asyncpg.Connection:
    try:
        connection = await connect(dsn, **how)
        # The driver asks the server for the make of an array the first time that a connection sees one, which takes as long
        # as everything else in a transaction: better now than then.
        await connection.prepare("SELECT $1::varchar[], $2::int[], $3::timestamptz[]")
    except (OSError, *_AWAY) as exc:
        raise DatabaseAwayError(f"No connection to the database: {exc}") from exc
    return connection


def is_lost(error: DBAPIError) -> bool:
    """Whether the connection ended under a statement, which may have been carried out or not."""
    cause = error.orig.__cause__ if error.orig is not None else None
    return error.connection_invalidated or isinstance(cause, _AWAY)


async def copy_rows(
    session: AsyncSession, table: type[Base], columns: Sequence[str], rows: Sequence[tuple[Any, ...]]
) -> None:
    """Insert by COPY, an order of magnitude cheaper than INSERT for many rows."""
    driver = await _driver_of(session)
    await driver.copy_records_to_table(table.__tablename__, records=rows, columns=columns)


async def copy_binary(session: AsyncSession, table: type[Base], columns: Sequence[str], data: bytes) -> None:
    """The same with rows that are in the format of COPY already."""
    driver = await _driver_of(session)
    await driver.copy_to_table(table.__tablename__, source=BytesIO(data), columns=columns, format="binary")


async def database_now(session: AsyncSession) -> datetime:
    """Money and leases go by this clock, not by ours."""
    now: datetime = (await session.execute(select(func.clock_timestamp()))).scalar_one()
    return now


PORTION = 2000


async def delete_portion(session: AsyncSession, table: type[Base], old: Any) -> int:
    """Up to so many of the old rows, skipping those that somebody holds. Whoever calls goes on until fewer go."""
    place: Any = literal_column(f"{table.__tablename__}.ctid")
    some = select(place).select_from(table).where(old).limit(PORTION).with_for_update(skip_locked=True)
    gone = await session.execute(
        delete(table).where(place.in_(some)).execution_options(synchronize_session=False)
    )
    return int(gone.rowcount)  # type: ignore[attr-defined]


def _refuse_closed(connection: Any, record: object, proxy: object) -> None:
    """After a restart of the server the pool's connections are closed, which each of them was told: then the pool
    takes another, and no request notices. To ask the server instead would cost every request a question."""
    if connection.driver_connection.is_closed():
        raise DisconnectionError


async def _driver_of(session: AsyncSession) -> Any:
    connection = await (await session.connection()).get_raw_connection()
    driver = connection.driver_connection
    assert driver is not None, "a session that has executed something is connected"
    return driver


@lru_cache
def _notification(channels: tuple[str, ...]) -> Select[Any]:
    return select(*(func.pg_notify(channel, bindparam("about")) for channel in channels))


async def notify(session: AsyncSession, *channels: str, about: str = "") -> None:
    """Wake whoever listens, once this transaction has committed. At most it says which object: listeners read."""
    await session.execute(_notification(channels), {"about": about})


async def take_turn(session: AsyncSession, about: str) -> None:
    """Whoever else takes a turn about the same waits until this transaction ends."""
    await session.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(about, 0))))


class Listener:
    """One dedicated connection for all channels of a process.

    A notification sets the event of its channel. So does every reconnect, for all channels, because what
    was sent while the connection was down is gone: whoever waits must read everything again. Those who hear are
    given the payload, which is empty after a reconnect.
    """

    def __init__(self, dsn: str, clock: Clock = system_clock) -> None:
        self._dsn = dsn
        self._clock = clock
        self._hearers: dict[str, list[Callable[[str], None]]] = {}

    def subscribe(self, *channels: str) -> asyncio.Event:
        """One event for several channels; call before `run`."""
        event = asyncio.Event()
        for channel in channels:
            self.hear(channel, lambda _: event.set())
        return event

    def hear(self, channel: str, take: Callable[[str], None]) -> None:
        """Call before `run`."""
        self._hearers.setdefault(channel, []).append(take)

    async def run(self) -> None:
        retry_s = 0.1
        while True:
            try:
                await self._listen_until_closed()
                retry_s = 0.1
            except Exception as exc:  # noqa: BLE001 - whatever it was: a process that hears nothing must not stay so
                log.warning("listener_disconnected", error=repr(exc), retry_s=retry_s)
                retry_s = min(retry_s * 2, 5.0)
            await self._clock.sleep(retry_s)

    async def _listen_until_closed(self) -> None:
        connection = await connect(self._dsn, timeout=10)
        closed = asyncio.Event()
        connection.add_termination_listener(lambda _: closed.set())
        try:
            for channel in self._hearers:
                await connection.add_listener(
                    channel, lambda _c, _p, name, payload: self._tell(name, payload)
                )
            for channel in self._hearers:
                self._tell(channel, "")
            while not closed.is_set():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(10):
                        await closed.wait()
                if not closed.is_set():
                    # A half-open connection says nothing for ever; asking shows that it is gone.
                    await connection.execute("SELECT 1", timeout=10)
        finally:
            with contextlib.suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError):
                await connection.close(timeout=2)

    def _tell(self, channel: str, payload: str) -> None:
        for take in self._hearers[channel]:
            try:
                take(payload)
            except Exception:
                # One that cannot read a notice keeps it from nobody else.
                log.exception("notice_not_taken", channel=channel, payload=payload)
