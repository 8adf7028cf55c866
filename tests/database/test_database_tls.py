"""A database that is reached by TLS: pools, listeners, migrations, dumps and restores, by each `sslmode`."""

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest
from pydantic import SecretStr
from sqlalchemy import text

from moorage.entrypoints.backup import backup, restore
from moorage.entrypoints.migrate import migrate
from moorage.kit.database import VANISHED_AFTER_S, Database, DatabaseAwayError, Listener, connect, notify
from moorage.kit.dsn import Dsn, parse_dsn
from moorage.kit.settings import Settings
from moorage.reconcile.lease import LEASE_S
from tests.certificates import write_certificate
from tests.ports import free_port
from tests.postgres_tls import PostgresFront, postgres_front, postgres_with_tls, system_postgres


def at(dsn: str, *places: tuple[str, int], **parameters: str | Path) -> str:
    """The same database by another way."""
    one = parse_dsn(dsn)
    given = {name: str(value) for name, value in parameters.items()}
    return Dsn(one.user, one.password, one.database, places, given).text()


@pytest.fixture(name="certificate")
def certificate_fixture(tmp_path: Path) -> Path:
    write_certificate(tmp_path / "server.pem", "127.0.0.1")
    return tmp_path / "server.pem"


@pytest.fixture(name="front")
async def front_fixture(database_dsn: str, certificate: Path) -> AsyncIterator[PostgresFront]:
    async with postgres_front(socket_folder(database_dsn), certificate) as front:
        yield front


def socket_folder(dsn: str) -> Path:
    return Path(parse_dsn(dsn).hosts[0][0])


async def works(dsn: str) -> None:
    """A pool, and a listener that hears what is said through the pool."""
    database, listener = Database(dsn, pool_size=2), Listener(dsn)
    heard = asyncio.Event()
    listener.hear("said", lambda payload: heard.set() if payload == "hello" else None)
    hearing = asyncio.create_task(listener.run())
    try:
        async with asyncio.timeout(20):
            while not heard.is_set():
                async with database.transaction() as session:
                    await notify(session, "said", about="hello")
                await asyncio.sleep(0.02)
    finally:
        hearing.cancel()
        await asyncio.gather(hearing, return_exceptions=True)
        await database.close()


@pytest.mark.parametrize("mode", ["prefer", "require", "verify-ca", "verify-full"])
async def test_every_mode_that_speaks_tls(
    database_dsn: str, certificate: Path, front: PostgresFront, mode: str
) -> None:
    root = {"sslrootcert": certificate} if mode.startswith("verify") else {}
    await works(at(database_dsn, ("127.0.0.1", front.port), sslmode=mode, **root))
    assert front.with_tls >= 2
    assert front.without_tls == 0


@pytest.mark.parametrize("mode", ["disable", "allow"])
async def test_modes_that_begin_without(database_dsn: str, front: PostgresFront, mode: str) -> None:
    await works(at(database_dsn, ("127.0.0.1", front.port), sslmode=mode))
    assert front.with_tls == 0


async def test_a_server_without_tls(database_dsn: str) -> None:
    async with postgres_front(socket_folder(database_dsn), None) as front:
        place = ("127.0.0.1", front.port)
        await works(at(database_dsn, place, sslmode="prefer"))
        before = front.without_tls
        database = Database(at(database_dsn, place, sslmode="require"), pool_size=2)
        with pytest.raises(DatabaseAwayError, match="rejected SSL upgrade"):
            async with database.reading() as session:
                await session.execute(text("SELECT 1"))
        await database.close()
        assert front.without_tls == before, "it left without a word"


async def test_a_stranger_in_the_servers_place(
    database_dsn: str, tmp_path: Path, certificate: Path, front: PostgresFront
) -> None:
    """Another authority, or the right one for another name: nothing is sent to it."""
    write_certificate(tmp_path / "other.pem", "127.0.0.1")
    here = ("127.0.0.1", front.port)
    for dsn in (
        at(database_dsn, here, sslmode="verify-ca", sslrootcert=tmp_path / "other.pem"),
        at(database_dsn, here, sslmode="require", sslrootcert=tmp_path / "other.pem"),
        at(database_dsn, ("localhost", front.port), sslmode="verify-full", sslrootcert=certificate),
    ):
        database = Database(dsn, pool_size=2)
        with pytest.raises(DatabaseAwayError, match="certificate verify failed"):
            async with database.reading() as session:
                await session.execute(text("SELECT 1"))
        await database.close()
    # The name is not looked at by verify-ca.
    await works(at(database_dsn, ("localhost", front.port), sslmode="verify-ca", sslrootcert=certificate))


async def test_a_server_that_wants_to_know_its_clients(
    database_dsn: str, tmp_path: Path, certificate: Path
) -> None:
    client = tmp_path / "client.pem"
    write_certificate(client, "moorage")
    async with postgres_front(socket_folder(database_dsn), certificate, clients=client) as front:
        here = ("127.0.0.1", front.port)
        trusted = {"sslmode": "verify-full", "sslrootcert": str(certificate)}
        await works(at(database_dsn, here, **trusted, sslcert=client, sslkey=client))
        before = front.with_tls
        with pytest.raises((OSError, asyncpg.PostgresError)):
            await connect(at(database_dsn, here, **trusted), timeout=10)
        assert front.with_tls == before


async def test_the_next_server_where_one_is_gone(
    database_dsn: str, certificate: Path, front: PostgresFront
) -> None:
    places = (("127.0.0.1", free_port()), ("127.0.0.1", front.port))
    await works(at(database_dsn, *places, sslmode="verify-full", sslrootcert=certificate))
    assert front.with_tls >= 2


async def test_dump_and_restore_speak_tls_too(
    database_dsn: str, short_folder: Path, certificate: Path
) -> None:
    """The server takes nobody without: the bundled pg_dump, which speaks none, goes through the relay."""
    async with postgres_front(socket_folder(database_dsn), certificate, plain=False) as front:
        places = (("127.0.0.1", free_port()), ("127.0.0.1", front.port))
        dsn = at(database_dsn, *places, sslmode="verify-full", sslrootcert=certificate)
        settings = Settings(home=short_folder, database_dsn=SecretStr(dsn))
        await backup(settings, short_folder / "all.dump")
        await _empty(database_dsn)
        await restore(settings, short_folder / "all.dump")
        await migrate(dsn)
        connection = await connect(dsn, timeout=10)
        assert await connection.fetchval("SELECT count(*) FROM alembic_version") == 1
        await connection.close()
        assert front.without_tls == 0


async def _empty(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    await connection.close()


@pytest.mark.long
async def test_a_postgres_that_speaks_tls_itself(
    database_dsn: str, short_folder: Path, front: PostgresFront, certificate: Path
) -> None:
    """Migrated and dumped with nothing but TLS; and of two servers, the one that can be written to."""
    programs = system_postgres()
    if programs is None:
        pytest.skip("no Postgres with TLS on this machine (/usr/lib/postgresql)")
    password = parse_dsn(database_dsn).password
    assert password is not None
    async with postgres_with_tls(programs, password) as (port, own_certificate):
        base = database_dsn.replace(f"/{parse_dsn(database_dsn).database}?", "/moorage?")
        here = ("127.0.0.1", port)
        dsn = at(base, here, sslmode="verify-full", sslrootcert=own_certificate)
        await migrate(dsn)
        await works(dsn)
        for mode in ("disable", "allow", "prefer", "require", "verify-ca"):
            root = {"sslrootcert": str(own_certificate)} if mode == "verify-ca" else {}
            one = at(base, here, sslmode=mode, **root)
            if mode == "disable":
                with pytest.raises(asyncpg.InvalidAuthorizationSpecificationError, match="no encryption"):
                    await connect(one, timeout=10)
                continue
            connection = await connect(one, timeout=10)
            assert await connection.fetchval("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
            await connection.close()
        settings = Settings(home=short_folder, database_dsn=SecretStr(dsn))
        await backup(settings, short_folder / "all.dump")
        await _empty(database_dsn)
        elsewhere = at(database_dsn, ("127.0.0.1", front.port), sslmode="require")
        await restore(
            Settings(home=short_folder, database_dsn=SecretStr(elsewhere)), short_folder / "all.dump"
        )
        connection = await connect(dsn, timeout=10)
        await connection.execute("ALTER DATABASE moorage SET default_transaction_read_only = on")
        await connection.close()
        both = at(base, here, ("127.0.0.1", front.port), target_session_attrs="read-write", sslmode="require")
        connection = await connect(both, timeout=10)
        assert connection.get_server_version().major > 15, "the second one, which may be written to"
        await connection.close()


@pytest.mark.parametrize("mode", ["disable", "require"])
async def test_a_server_that_vanishes_is_noticed_before_a_lease_ends(
    database_dsn: str, front: PostgresFront, mode: str
) -> None:
    """Its machine says nothing more, so the kernel has to ask; what it asks, and for how long, is all that can be seen from here."""
    connection = await connect(at(database_dsn, ("127.0.0.1", front.port), sslmode=mode))
    try:
        wire = connection._transport.get_extra_info("socket")
        assert wire.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        idle_s, every_s, times = (
            wire.getsockopt(socket.IPPROTO_TCP, option)
            for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        )
        assert idle_s + every_s * times <= VANISHED_AFTER_S < LEASE_S
        unacknowledged_ms = wire.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
        assert unacknowledged_ms == VANISHED_AFTER_S * 1000
    finally:
        await connection.close()
