"""`moor upgrade` with everything real but systemd and the engine: wheels and environments, Postgres, HAProxy, the keeper and the roles. One
installation goes through every way in which an upgrade fails, one after the other, and each leaves it where it was.
"""

import asyncio
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg
import httpx
import pytest

from moorage.entrypoints.service.upgrade.gate import environment_of
from moorage.kit.postgres import EmbeddedPostgres
from moorage.kit.settings import Settings
from tests.database.leaders_engine import StandIn
from tests.ports import free_port
from tests.service.fresh import until
from tests.service.supervisor import KEEPER, UNITS, Supervisor
from tests.service.versions import Changes, Folders, build_wheel, install

BEFORE = "0.1.0"
WITHIN_S = 60
MIGRATIONS = "moorage/entrypoints/migrations/versions/"
NEW_TABLE = """\
from alembic import op

revision, down_revision = "{revision}", "{before}"
branch_labels = depends_on = None


def upgrade() -> None:
    op.execute("CREATE TABLE doors_{revision} (id text)")
    {more}


def downgrade() -> None:
    op.execute("DROP TABLE doors_{revision}")
"""

pytestmark = [
    pytest.mark.proof,
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.geteuid() != 0, reason="an upgrade takes root"),
]


def migration(revision: str = "9001", before: str = "", more: str = "pass") -> Changes:
    last = max(path.name for path in (Path(__file__).parents[2] / "src" / MIGRATIONS).glob("[0-9]*.py"))[:4]
    text = NEW_TABLE.format(revision=revision, before=before or last, more=more)
    return {f"{MIGRATIONS}{revision}_doors.py": ("", text)}


@dataclass
class Installed:
    folders: Folders
    supervisor: Supervisor
    settings: Settings
    wheels: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def release(self, changes: Changes = {}) -> Path:  # noqa: B006 - read only
        return build_wheel(self.folders, f"0.2.{next(self.wheels)}", changes)

    def upgrade(
        self, *arguments: str, at: str = "", then: Callable[[int], None] = lambda _: None
    ) -> tuple[int, str]:
        """`then`: done when it says `at`, with its process id."""
        command = [
            str(self.folders["opt"] / "current/bin/moor"),
            "upgrade",
            *arguments,
            "--yes",
            "--within",
            str(WITHIN_S),
        ]
        environment = {**self.supervisor.environment, "PATH": self.supervisor.path, "PYTHONUNBUFFERED": "1"}
        process = subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        assert process.stdout is not None
        said = []
        with process.stdout:
            for line in process.stdout:
                said.append(line)
                # The list of what will be done has the same words, indented.
                if at and line.startswith(at):
                    then(process.pid)
        return process.wait(), "".join(said)

    def runs(self) -> set[str]:
        """Which versions the parts run."""
        pids = [self.supervisor.pid(unit) for unit in UNITS]
        found = [environment_of(pid) if pid else None for pid in pids]
        return {one.name if one else "" for one in found}

    def current(self) -> str:
        return (self.folders["opt"] / "current").readlink().name

    def until_back(self) -> None:
        """Nothing is left of the upgrade, and all of the version before serves."""
        until(lambda: not (self.folders["opt"] / "upgrade.json").exists(), "the upgrade is over", 150)
        self.serves(BEFORE)

    def serves(self, version: str) -> None:
        assert self.current() == version
        until(lambda: self.runs() == {version}, f"everything runs {version}", 60)
        since = str(time.time())
        moor = str(self.folders["opt"] / "current/bin/moor")
        for role, unit in zip(("gateway", "controller", "api"), UNITS[1:], strict=True):
            command = [
                moor,
                "ready",
                "--role",
                role,
                "--since",
                since,
                "--pid",
                str(self.supervisor.pid(unit)),
            ]
            environment = {**os.environ, "MOORAGE_HOME": str(self.folders["home"])}
            until(
                lambda command=command, environment=environment: (
                    subprocess.run(command, env=environment, check=False).returncode == 0
                ),
                f"{role} serves",
                60,
            )
        assert not (self.folders["opt"] / ".current-before").is_symlink()

    def rows(self) -> dict[str, int]:
        """Of what is not written again and again."""

        async def count() -> dict[str, int]:
            connection = await asyncpg.connect(EmbeddedPostgres(self.settings).dsn)
            try:
                tables = ("users", "organizations", "activities", "installation", "api_keys", "projects")
                return {one: await connection.fetchval(f"SELECT count(*) FROM {one}") for one in tables}
            finally:
                await connection.close()

        return asyncio.run(count())

    def tables_version(self) -> str:
        async def read() -> str:
            connection = await asyncpg.connect(EmbeddedPostgres(self.settings).dsn)
            try:
                found: str = await connection.fetchval("SELECT version_num FROM alembic_version")
                return found
            finally:
                await connection.close()

        return asyncio.run(read())


@pytest.fixture(scope="module")
def installed() -> Iterator[Installed]:
    base = Path(tempfile.mkdtemp(prefix="moor-", dir="/tmp"))
    base.chmod(0o755)
    # Of its own, so that it can be filled.
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3g,mode=755", "upgrade", str(base)], check=True)
    folders = Folders(base)
    for name in ("opt/versions", "home", "etc", "units", "systemd", "backups"):
        folders[name].mkdir(parents=True)
    settings = Settings(home=folders["home"])
    config = {
        "api_listen": f"127.0.0.1:{free_port()}",
        "gateway_listen": f"127.0.0.1:{free_port()}",
        "docker_host": f"unix://{base / 'engine.sock'}",
        "isolation": "waived",
    }
    (folders["etc"] / "moorage.toml").write_text(
        "".join(f'{name} = "{value}"\n' for name, value in config.items())
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MOORAGE_")}
    supervisor = Supervisor(base, folders["units"], environment)
    here = Installed(folders, supervisor, settings)
    try:
        with engine(base / "engine.sock"):
            supervisor.serve()
            try:
                first = install(folders, build_wheel(folders, BEFORE))
                (folders["opt"] / "current").symlink_to(first)
                own = {**environment, "PATH": supervisor.path}
                subprocess.run([str(first / "bin/moor"), "units"], env=own, check=True)
                supervisor.boot()
                here.serves(BEFORE)
                yield here
            finally:
                supervisor.stop()
                supervisor.close()
    finally:
        subprocess.run(["umount", "--lazy", str(base)], check=True)
        base.rmdir()


@contextmanager
def engine(path: Path) -> Iterator[None]:
    """On a loop of its own thread, while tests wait."""
    loop, started = asyncio.new_event_loop(), threading.Event()
    ends = asyncio.Event()

    async def serve() -> None:
        async with StandIn().serving(path):
            started.set()
            await ends.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    assert started.wait(10)
    try:
        yield
    finally:
        loop.call_soon_threadsafe(ends.set)
        thread.join()
        loop.close()


@contextmanager
def asked_all_the_time(installed: Installed) -> Iterator[list[str]]:
    """At the address of endpoints, where HAProxy answers whatever becomes of the roles."""
    listen = dict(
        line.split(" = ") for line in (installed.folders["etc"] / "moorage.toml").read_text().splitlines()
    )["gateway_listen"]
    ends, failures, count = threading.Event(), list[str](), itertools.count()

    def ask() -> None:
        with closing(httpx.Client(trust_env=False, timeout=5)) as client:
            while not ends.wait(0.02):
                try:
                    client.get(f"http://{listen.strip(chr(34))}/v1/models")
                    next(count)
                except httpx.HTTPError as exc:
                    failures.append(repr(exc))

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield failures
    finally:
        ends.set()
        thread.join()
    assert next(count) > 10


def fails_with(installed: Installed, changes: Changes, *words: str) -> str:
    rows = installed.rows()
    with asked_all_the_time(installed) as failures:
        code, said = installed.upgrade(str(installed.release(changes)))
    assert code == 2, said
    for word in words:
        assert word in said
    installed.until_back()
    assert failures == []
    assert installed.rows() == rows
    return said


def test_a_migration_that_fails(installed: Installed) -> None:
    before = installed.tables_version()
    changes = {**migration(), **migration("9002", "9001", 'op.execute("CREATE TABLE no")')}
    said = fails_with(installed, changes, "The migration failed", "0.1.0 runs again")
    assert "Restart" not in said.partition("Going back")[2], "nothing had to be restarted"
    assert installed.tables_version() == before, "all of it or nothing"


def test_a_role_that_does_not_start(installed: Installed) -> None:
    """The tables are extended by then, and what runs again runs on them."""
    changes = {
        **migration(),
        "moorage/entrypoints/controller_role.py": ("async def serve(settings: Settings) -> None:\n", "async def serve(settings: Settings) -> None:\n    raise RuntimeError\n"),
    }  # fmt: skip
    said = fails_with(installed, changes, "moorage-controller.service", "The tables stay extended")
    assert installed.tables_version() == "9001"
    assert "\nRestart moorage-api.service, and wait" not in said, "it was not its turn"


def test_a_role_that_never_serves(installed: Installed) -> None:
    changes: Changes = {
        "moorage/entrypoints/health.py": (
            "            await require_expected_schema(session)\n",
            "            raise RuntimeError\n",
        )
    }
    fails_with(installed, changes, f"moorage-api.service did not serve within {WITHIN_S} s", "not ready")


def test_a_keeper_that_does_not_start(installed: Installed) -> None:
    changes: Changes = {
        "moorage/entrypoints/service/keep.py": (
            "    _start_as_before(installation, say)\n",
            "    raise RuntimeError\n",
        )
    }
    fails_with(installed, changes, "That failed: moorage.service")


def filled(folder: Path, name: str, left_bytes: int) -> Path:
    file = folder / name
    free = shutil.disk_usage(folder).free
    with open(file, "wb") as opened, suppress(OSError):
        os.posix_fallocate(opened.fileno(), 0, free - max(left_bytes, 8 << 20))
        # What does not fit altogether is not allocated at all.
        opened.seek(0, os.SEEK_END)
        while not left_bytes:
            opened.write(bytes(1 << 16))
            opened.flush()
    return file


@pytest.mark.parametrize(
    ("at", "left_bytes"),
    [("Let systemd read", 0), ("Restart moorage-gateway", 30 << 20)],
    ids=["all", "nearly"],
)
def test_the_disk_fills(installed: Installed, at: str, left_bytes: int) -> None:
    """So that nothing can be written, and so that all of it runs and Health says that it will not for long."""
    release, folder = installed.release(), installed.folders.base
    # What is left of it is soon filled.
    most = filled(folder, "most", 1 << 30)
    code, said = installed.upgrade(
        str(release), at=at, then=lambda _: filled(folder, "rest", left_bytes) and None
    )
    for filler in (most, folder / "rest"):
        filler.unlink()
    assert (code, "That failed" in said) == (2, True), said
    installed.until_back()


def test_no_room_is_said_before_anything_is_done(installed: Installed) -> None:
    release = installed.release()
    filler = filled(installed.folders.base, "most", 100 << 20)
    code, said = installed.upgrade(str(release))
    filler.unlink()
    assert (code, "Nothing was changed" in said, "This will be done" in said) == (2, True, False), said
    installed.until_back()


STEPS = (
    "Put 0.2",
    "Let systemd read",
    "Write the database",
    "Extend the database",
    "Switch the service",
    *(f"Restart {unit}" for unit in (KEEPER, UNITS[1], UNITS[2], UNITS[3])),
    "Check that nothing fails",
)


@pytest.mark.parametrize("at", STEPS)
def test_the_upgrade_is_killed(installed: Installed, at: str) -> None:
    """The keeper finds it, whichever version it is of."""
    rows = installed.rows()
    release = installed.release()
    with asked_all_the_time(installed) as failures:
        code, said = installed.upgrade(str(release), at=at, then=lambda pid: os.kill(pid, signal.SIGKILL))
        assert code == -signal.SIGKILL, said
        installed.until_back()
    assert failures == []
    assert installed.rows() == rows


def test_it_is_interrupted(installed: Installed) -> None:
    code, said = installed.upgrade(
        str(installed.release()),
        at="Restart moorage-controller",
        then=lambda pid: os.kill(pid, signal.SIGHUP),
    )
    assert (code, "it was interrupted" in said) == (2, True), said
    installed.until_back()


def test_the_machine_goes_off_in_the_middle(installed: Installed) -> None:
    def power_off(pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        installed.supervisor.power_off()

    code, said = installed.upgrade(str(installed.release()), at="Restart moorage-controller", then=power_off)
    assert code == -signal.SIGKILL, said
    assert installed.current().startswith("0.2."), "a boot finds it in the middle"
    installed.supervisor.boot()
    installed.until_back()


def test_what_is_no_release_and_what_is_older(installed: Installed, tmp_path: Path) -> None:
    (tmp_path / "some.whl").write_text("no")
    older = build_wheel(installed.folders, "0.0.9")
    for arguments, words in (
        (["9.9.9"], "There is no file 9.9.9"),
        ([str(tmp_path / "some.whl")], "is neither a wheel"),
        ([str(older)], "Add --older"),
        ([BEFORE], "is at 0.1.0 already"),
    ):
        code, said = installed.upgrade(*arguments)
        assert (code, words in said) == (2, True), said
    older.unlink()
    installed.until_back()


def test_to_the_next_version_and_back(installed: Installed) -> None:
    """The last one here: it ends on another version."""
    rows, postgres = installed.rows(), EmbeddedPostgres(installed.settings).running_pid()
    keeper = installed.supervisor.pid(KEEPER)
    release = installed.release(migration())
    version = release.name.split("-")[1]
    with asked_all_the_time(installed) as failures:
        code, said = installed.upgrade(str(release))
        assert code == 0, said
        installed.serves(version)
        assert sorted(path.name for path in (installed.folders["opt"] / "versions").iterdir()) == [
            BEFORE,
            version,
        ]
        code, said = installed.upgrade(BEFORE, "--older")
        assert code == 0, said
        installed.serves(BEFORE)
    assert failures == []
    assert installed.rows() == rows
    assert EmbeddedPostgres(installed.settings).running_pid() == postgres, "the database went on"
    assert installed.supervisor.pid(KEEPER) == keeper, "in the same process"
