"""Real controllers, as they are started in production, on a real Postgres; stopped, killed and let go on by signals.

Each process signs in to Postgres under a name of its own, and triggers note every statement that writes, with that name and with
whether its process led when it wrote. So that a former leader writes nothing is counted where the writing happens.
"""

import asyncio
import contextlib
import os
import signal
import socket
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import asyncpg
from leaders_engine import Call, StandIn
from reconciler_support import KEYRING, World, new_world

from moorage.containers import service
from moorage.entrypoints.reconcilers import RECONCILERS
from moorage.kit.clock import system_clock
from moorage.kit.database import Database

ResultT = TypeVar("ResultT")
REPLICA_PORTS = "14000-18999"
LEASES = len(RECONCILERS)
_INSTALL_SQL = """
CREATE SCHEMA watch;
CREATE TABLE watch.processes (role text PRIMARY KEY, holder text NOT NULL);
CREATE TABLE watch.writes (at timestamptz, role text, what text, led boolean);
CREATE TABLE watch.takeovers (at timestamptz, lease text, holder text);
CREATE FUNCTION watch.note_write() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO watch.writes SELECT clock_timestamp(), role, TG_OP || ' ' || TG_TABLE_NAME, EXISTS (
        SELECT FROM leases l WHERE l.holder = p.holder)
    FROM watch.processes p WHERE p.role = session_user;
    RETURN NULL;
END $$;
CREATE FUNCTION watch.note_takeover() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF NEW.holder <> OLD.holder THEN
        INSERT INTO watch.takeovers VALUES (clock_timestamp(), NEW.name, NEW.holder);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER watch AFTER UPDATE ON leases FOR EACH ROW EXECUTE FUNCTION watch.note_takeover();
DO $$ DECLARE name text; BEGIN
    FOR name IN SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p') AND NOT c.relispartition
        AND c.relname NOT IN ('leases', 'alembic_version', 'installation', 'loop_stalls')
    LOOP
        EXECUTE format('CREATE TRIGGER watch AFTER INSERT OR UPDATE OR DELETE ON %I
            FOR EACH STATEMENT EXECUTE FUNCTION watch.note_write()', name);
    END LOOP;
END $$;
"""
_TROUBLE_SQL = """
SELECT 'the ledger is off by ' || sum(amount_microusd) FROM ledger_entries HAVING sum(amount_microusd) <> 0
UNION ALL
SELECT 'account ' || a.organization_id || ' and its entries differ' FROM credit_accounts a
WHERE a.available_microusd + a.held_microusd <> (
    SELECT coalesce(sum(amount_microusd), 0) FROM ledger_entries WHERE account = 'credit:' || a.organization_id)
UNION ALL
SELECT 'slot ' || a.slot || ' of ' || a.container_id || ' is charged twice for one hour' FROM hours a JOIN hours b
ON a.container_id = b.container_id AND a.slot = b.slot AND a.id < b.id AND a.state = 'paid' AND b.state = 'paid'
AND a.bought_at < b.expires_at AND b.bought_at < a.expires_at
UNION ALL
SELECT 'a former leader wrote: ' || what || ' by ' || role FROM watch.writes WHERE NOT led
"""


@dataclass
class Controller:
    role: str
    process: subprocess.Popen[bytes]
    log_file: Path
    stopped: bool = False

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def holder(self) -> str:
        return f"{socket.gethostname()}:{self.pid}"

    def leases_lost(self) -> int:
        """By its own words."""
        return self.log_file.read_text().count('"lease_lost"')

    async def last_words(self) -> str:
        return self.log_file.read_text()[-6000:]

    def stop(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)
        self.stopped = True

    def go_on(self) -> None:
        os.kill(self.pid, signal.SIGCONT)
        self.stopped = False

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(timeout=20)


@dataclass
class Figures:
    takeovers_s: list[float] = field(default_factory=list)
    """From the signal until another process held the lease `containers`."""
    all_leases_s: list[float] = field(default_factory=list)
    """… and all of them."""
    recoveries_s: list[float] = field(default_factory=list)
    """From the moment that Postgres was asked to restart until something new was deployed."""
    happened: Counter[str] = field(default_factory=Counter)
    unled_calls: list[str] = field(default_factory=list)
    """Requests that changed something at the engine, by a process that did not hold the lease."""

    def told(self, writes: int, calls: int) -> str:
        times = ", ".join(
            f"{name} median {statistics.median(seconds):.1f} s, longest {max(seconds):.1f} s"
            for name, seconds in (
                ("takeover", self.takeovers_s),
                ("of all leases", self.all_leases_s),
                ("deployed after a restart of Postgres", self.recoveries_s),
            )
            if seconds
        )
        kinds = ", ".join(f"{count} {name}" for name, count in sorted(self.happened.items()))
        return (
            f"{len(self.takeovers_s)} leaders stopped or killed: {times}; {writes} writes and {calls} engine calls watched, "
            f"0 of either by a former leader ({kinds})"
        )


@dataclass
class Cluster:
    """Two or more controllers, an engine that knows who calls, and users."""

    home: Path
    dsn: str
    world: World
    engine: StandIn
    monitor: asyncpg.Connection
    figures: Figures = field(default_factory=Figures)
    controllers: list[Controller] = field(default_factory=list)
    wanted: dict[str, str] = field(default_factory=dict)
    """By container: what was asked for last."""

    @property
    def socket(self) -> Path:
        return self.home / "engine.sock"

    async def start_controller(self, role: str) -> Controller:
        controller = self._spawn(role)
        self.controllers = [one for one in self.controllers if one.role != role] + [controller]
        await self.ask(
            "INSERT INTO watch.processes VALUES ($1, $2) ON CONFLICT (role) DO UPDATE SET holder = excluded.holder",
            role,
            controller.holder,
        )
        return controller

    def _spawn(self, role: str) -> Controller:
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("MOORAGE_")},
            "MOORAGE_HOME": str(self.home),
            "MOORAGE_DATABASE_DSN": self.dsn.replace("//moorage:", f"//{role}:", 1),
            "MOORAGE_DOCKER_HOST": f"unix://{self.socket}",
            "MOORAGE_ISOLATION": "waived",
            "MOORAGE_LOG_FORMAT": "json",
            "MOORAGE_REPLICA_PORTS": REPLICA_PORTS,
            "MOORAGE_DRAIN_TIMEOUT_S": "2",
            "MOORAGE_STOP_GRACE_S": "1",
        }
        command = [sys.executable, "-m", "moorage.entrypoints.moor", "serve", "--role", "controller"]
        log_file = self.home / f"{role}.log"
        with open(log_file, "ab") as log:
            process = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
        return Controller(role, process, log_file)

    async def ask(self, sql: str, *values: object) -> list[asyncpg.Record]:
        """Also after a restart of Postgres."""
        if self.monitor.is_closed():
            self.monitor = await asyncpg.connect(self.dsn)
        rows: list[asyncpg.Record] = await self.monitor.fetch(sql, *values)
        return rows

    async def leader(self, lease: str = "containers") -> Controller | None:
        rows = await self.ask(
            "SELECT holder FROM leases WHERE name = $1 AND expires_at > clock_timestamp()", lease
        )
        return next((one for one in self.controllers for row in rows if one.holder == row[0]), None)

    async def leads_everything(self, controller: Controller) -> bool:
        rows = await self.ask(
            "SELECT count(*) FROM leases WHERE holder = $1 AND expires_at > clock_timestamp()",
            controller.holder,
        )
        return bool(rows[0][0] == LEASES)

    async def watch_call(self, call: Call) -> None:
        """The kernel says who calls, Postgres who leads."""
        with contextlib.suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
            # Another connection than the rest's: this comes at any time.
            connection = await asyncpg.connect(self.dsn, timeout=5)
            try:
                holder = await connection.fetchval("SELECT holder FROM leases WHERE name = 'containers'")
            finally:
                await connection.close()
            if holder != f"{socket.gethostname()}:{call.pid}":
                self.figures.unled_calls.append(f"{call} while {holder} leads")

    async def deploy(self, replicas: int = 1) -> str:
        container_id = await self.world.create(replicas=replicas, max_replicas=4)
        self.wanted[container_id] = "RUNNING"
        return container_id

    async def change(self, container_id: str, wanted: str) -> None:
        changes = {
            "RUNNING": service.start_container,
            "STOPPED": service.stop_container,
            "gone": service.delete_container,
        }
        await self.world.ask(changes[wanted], container_id)
        self.wanted[container_id] = wanted

    async def as_wanted(self) -> bool:
        """Rows and machine, of every container."""
        for container_id, wanted in self.wanted.items():
            row = await self.world.container(container_id)
            live = [one.id for one in await self.world.replicas(container_id) if one.state == "routed"]
            there = self.engine.of(container_id)
            if wanted == "gone":
                if row.deleted_at is None or there:
                    return False
            elif (
                row.state != wanted
                or len(there) != len(live)
                or len(live) != row.desired_replicas * (wanted == "RUNNING")
            ):
                return False
        return True

    async def troubles(self) -> list[str]:
        found = [str(row[0]) for row in await self.ask(_TROUBLE_SQL)]
        return [*found, *self.engine.twins, *self.figures.unled_calls]

    async def until_taken_over(self, old: Controller, since: datetime, within_s: float) -> Controller:
        """By the times that Postgres noted: whoever asks here may come late."""

        async def taken() -> Controller | None:
            leader = await self.leader()
            return leader if leader is not None and leader is not old else None

        deadline_s = system_clock.monotonic() + within_s
        new = await eventually(taken, f"somebody leads instead of {old.role}", deadline_s)
        assert new is not None
        await eventually(lambda: self.leads_everything(new), f"{new.role} leads everything", deadline_s)
        at = "SELECT lease, max(at) AS at FROM watch.takeovers WHERE holder = $1 AND at > $2 GROUP BY lease"
        took_s = {row[0]: (row[1] - since).total_seconds() for row in await self.ask(at, new.holder, since)}
        self.figures.takeovers_s.append(took_s["containers"])
        self.figures.all_leases_s.append(max(took_s.values()))
        return new

    async def until_as_wanted(self, within_s: float = 120.0) -> None:
        deadline_s = system_clock.monotonic() + within_s
        await eventually(self.as_wanted, f"{self.wanted} holds", deadline_s, detail=self._state)

    async def told(self) -> str:
        ((writes,),) = await self.ask("SELECT count(*) FROM watch.writes")
        return self.figures.told(writes, len(self.engine.calls))

    async def _state(self) -> str:
        rows = await self.ask("SELECT id, state, desired_state, reason, message FROM containers")
        return f"{[tuple(row) for row in rows]}, {[(one.slot, one.status) for one in self.engine.processes.values()]}"


async def eventually(
    condition: Callable[[], Awaitable[ResultT]],
    what: str,
    deadline_s: float,
    detail: Callable[[], Awaitable[str]] | None = None,
) -> ResultT:
    while True:
        with contextlib.suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
            value = await condition()
            if value:
                return value
        if system_clock.monotonic() > deadline_s:
            raise AssertionError(f"not in time: {what} {await detail() if detail else ''}")
        await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def cluster(
    dsn: str, home: Path, roles: tuple[str, ...] = ("controller_a", "controller_b")
) -> AsyncIterator[Cluster]:
    """On a migrated, empty database; within a network of its own (`tests/registry/own_network.py`)."""
    ((key_id, key),) = KEYRING.keys
    (home / "secret-keys").write_text(f"{key_id.hex()} {key.hex()}\n")
    database = Database(dsn, pool_size=4)
    monitor = await asyncpg.connect(dsn)
    await monitor.execute(_INSTALL_SQL)
    await _make_roles(dsn, roles)
    made = Cluster(home, dsn, await new_world(database), StandIn(), monitor)

    async def note(call: Call, when: str) -> None:
        if when == "before" and call.what != "look":
            await made.watch_call(call)

    made.engine.on_call = note
    gateway = asyncio.create_task(_gateway(made.world))
    try:
        async with made.engine.serving(made.socket):
            try:
                # One after the other, or each gets some of the leases.
                first = await made.start_controller(roles[0])
                deadline_s = system_clock.monotonic() + 60
                await eventually(lambda: made.leads_everything(first), f"{first.role} leads", deadline_s)
                for role in roles[1:]:
                    await made.start_controller(role)
                yield made
            finally:
                for controller in made.controllers:
                    controller.kill()
    finally:
        gateway.cancel()
        await asyncio.gather(gateway, return_exceptions=True)
        await made.monitor.close()
        await database.close()


async def _gateway(world: World) -> None:
    """One that obeys at once, and survives restarts of Postgres."""
    while True:
        with contextlib.suppress(Exception):
            await world.gateway_step()
        await asyncio.sleep(0.1)


async def _make_roles(dsn: str, roles: tuple[str, ...]) -> None:
    """Each is the product's own role but for its name."""
    superuser = await asyncpg.connect(dsn.replace("//moorage:", "//postgres:", 1))
    password = dsn.partition("//moorage:")[2].partition("@")[0]
    try:
        await superuser.execute("GRANT pg_signal_backend, pg_read_all_stats TO moorage")
        for role in roles:
            if not await superuser.fetchval("SELECT 1 FROM pg_roles WHERE rolname = $1", role):
                await superuser.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{password}' IN ROLE moorage")
                await superuser.execute(f"ALTER ROLE {role} SET role TO moorage")
    finally:
        await superuser.close()
