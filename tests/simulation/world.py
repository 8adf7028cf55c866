"""The installation under simulation: its processes, its machines, its gateway, its clocks.

Every process is wired as its role wires it (`entrypoints/`), with a clock, an engine and a data plane of the simulation.
"""

import asyncio
import contextvars
import json
import random
import re
import tempfile
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx

from moorage.billing.cards.provider import card_provider
from moorage.billing.clock_jumps import PAUSE_AFTER_JUMP_S
from moorage.catalog.repository import fill_empty_catalogue
from moorage.containers.channels import CONTAINERS
from moorage.containers.reconciler.reconciler import ContainersReconciler
from moorage.engines.base import LOCAL_ENGINE
from moorage.engines.engines import Engines
from moorage.engines.simulated_machine import SimulatedReplica
from moorage.entrypoints.api import create_app
from moorage.entrypoints.housekeeping import Housekeeping
from moorage.entrypoints.reconcilers import Parts, make_reconcilers
from moorage.gateway.agent import GatewayAgent
from moorage.gateway.dataplane import Applied
from moorage.gateway.table import GatewayTable
from moorage.identity.sessions.repository import create_session
from moorage.identity.tokens import OPERATOR_KEY_PREFIX, SESSION_PREFIX, new_token
from moorage.identity.users.repository import create_user, replace_operator_key
from moorage.kit.crypto import Keyring, sha256
from moorage.kit.database import Database, Listener
from moorage.kit.ids import GatewayId, InstallationId, OrganizationId, UserId
from moorage.kit.installation import ensure_installation_id
from moorage.kit.settings import Settings
from moorage.ledger.repository import grant_initial_credit
from moorage.organizations.repository import create_organization, create_project
from moorage.reconcile.driver import Driver
from moorage.telemetry.partition_repository import DIVIDED_BY_DAYS
from moorage.telemetry.partitions import plan_partitions
from tests.simulation.faults import CALM, Faults, Rates
from tests.simulation.haproxy import Haproxy, SimulatedDataPlane
from tests.simulation.loop import Process, SimulationLoop
from tests.simulation.machine import Machine, SimulatedClient, SimulatedFleet, Watch
from tests.simulation.network import connector
from tests.simulation.parts import reconcilers_of
from tests.simulation.plain import PlainConnection
from tests.simulation.receivers import Receivers
from tests.simulation.server import START, START_US, Server
from tests.simulation.story import Story
from tests.simulation.tempo import LEASE_S
from tests.simulation.wire import Wire

KEYRING = Keyring(((b"\x01" * 4, b"\x02" * 32),))
GATEWAY = GatewayId("gtw_" + "g" * 20)
_COLLECT = """
WITH ended AS (
    UPDATE replicas SET collected_at = sim.now() WHERE state = 'stopped' AND collected_at IS NULL RETURNING container_id
)
UPDATE containers SET changes = changes + 1, reconcile_at = sim.now() WHERE id IN (SELECT container_id FROM ended)
RETURNING pg_notify('moorage_containers', id)
"""
BASE_URL = "http://127.0.0.1:8080"
_NO_PULLS: Any = None
"""Images of the simulation are on every machine."""


class ProcessClock:
    """Wall time with a fault of its own; seconds that only grow without one."""

    def __init__(self, loop: SimulationLoop) -> None:
        self._loop = loop
        self.off_by_s = 0.0

    def now(self) -> datetime:
        return START + timedelta(seconds=self._loop.time() + self.off_by_s)

    def monotonic(self) -> float:
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


@dataclass(frozen=True)
class Organization:
    name: str
    id: str
    project_id: str
    headers: dict[str, str]


@dataclass(frozen=True)
class Answer:
    """What a user got; no status where nothing came back, so that nobody knows whether it was done."""

    status: int | None
    body: Any
    alone: bool = True
    """No other request about the same container was under way meanwhile: or nobody knows whose word was the last."""


@dataclass
class Question:
    """A request that may still take effect, also when its client no longer waits for the answer."""

    path: str
    process: Process
    work: asyncio.Task[Any]
    client_waits: bool = True
    alone: bool = True

    def is_open(self) -> bool:
        return self.client_waits or (self.process.alive and not self.work.done())


@dataclass(frozen=True)
class GatewayParts:
    """Of a gateway's process, besides its agent."""

    on_applied: Callable[[GatewayTable, Applied], None] = lambda table, applied: None
    run: tuple[Callable[[], Coroutine[Any, Any, None]], ...] = ()


@dataclass
class World:
    server: Server
    loop: SimulationLoop
    chance: random.Random
    monitor: PlainConnection
    story: Story
    faults: Faults
    settings: Settings
    wire: Wire
    machine: Machine
    """Moorage's own."""
    haproxy: Haproxy
    watch: Watch
    receivers: Receivers
    acting: random.Random = field(default_factory=random.Random)
    """What is drawn for the present event: its own, so that an event stays the same when others are left out."""
    processes: dict[str, Process] = field(default_factory=dict)
    clocks: dict[str, ProcessClock] = field(default_factory=dict)
    organizations: list[Organization] = field(default_factory=list)
    operator: dict[str, str] = field(default_factory=dict)
    database_off_by_s: float = 0.0
    restart_after: Callable[[str], float | None] = lambda name: 1.0
    """Seconds until the supervisor starts a dead process again; None: not by itself."""
    renewals_away_until_s: float = 0.0
    """Until then nobody was there to renew hours, or only just came back."""
    wishes: dict[str, tuple[str, str]] = field(default_factory=dict)
    """By container: what was asked for last and acknowledged, and how."""
    scales: dict[str, int] = field(default_factory=dict)
    """By container: the least number of replicas that was asked for last and acknowledged."""
    deleted: set[str] = field(default_factory=set)
    """Containers whose deletion was acknowledged."""
    drivers: dict[str, list[Driver]] = field(default_factory=dict)
    """By process, those of the present one, if it lives."""
    joined: dict[str, Machine] = field(default_factory=dict)
    """Other machines, by their address in the tunnel."""
    former: list[Machine] = field(default_factory=list)
    """Machines that were removed, or left."""
    has_fleet: bool = False
    """Controllers that are started from now on look for machines that joined."""
    has_sleep: bool = False
    """Controllers that are started from now on let idle containers sleep."""
    furnish_gateway: Callable[[Database, SimulatedDataPlane, ProcessClock], GatewayParts] = (
        lambda database, plane, clock: GatewayParts()
    )
    """What gateways that are started from now on do besides their agent."""
    is_waited_at: Callable[[], bool] = lambda: False
    """Whether a client waits for an answer of a container: no time is skipped meanwhile."""
    engines: dict[str, list[SimulatedClient]] = field(default_factory=dict)
    """By process: the engines as it sees them."""
    crashes: list[str] = field(default_factory=list)
    """Requests that were answered with a 500."""
    drawn_rates: Rates = CALM
    postgres_ill_until_s: float = 0.0
    leases_in_doubt_until_s: float = 0.0
    """The database's clock jumped, and until then somebody may hold a lease that it regards as over."""
    noticed_at_s: float = 0.0
    """Until then somebody may not have seen that the clock jumped, and no time is skipped."""
    clock_set_back_s: float = 0.0
    """By how much Postgres's clock was set back in all: leases end so much later."""
    parts: frozenset[str] = frozenset()
    """Which reconcilers run besides the containers' and the renewals' (`parts.py`). The log collector is none of them: the
    world itself says that there is nothing to collect, and makes the days' partitions. The collector makes and drops those
    under a `lock_timeout`, which is real time: with it a story is not always told the same way twice."""
    dead: list[Process] = field(default_factory=list)
    """Kept: what they left must not be collected, which would run their `finally` blocks."""
    _questions: list[Question] = field(default_factory=list)
    _days_made: set[date] = field(default_factory=set)
    _app: Any = None

    # Processes.

    def start(self, name: str) -> None:
        process = Process(name, self.loop)
        self.processes[name] = process
        starts = {"api": self._api, "gateway": self._gateway, "housekeeper": self._housekeeper}.get(
            name, self._controller
        )
        main = process.spawn(starts(process), "main")
        main.add_done_callback(lambda _: self._ended(process, main), context=contextvars.Context())

    def _ended(self, process: Process, main: asyncio.Task[Any]) -> None:
        """A role that ends, because it found no database as it started, is started again like one that was killed."""
        if process.alive and not main.cancelled() and main.exception() is not None:
            self.story.tell(process.name, f"ends by itself: {main.exception()!r}"[:160])
            self.story.count("process ended by itself")
            self.kill(process.name)

    def crash(self, process: Process) -> None:
        """Before anything else of it gets a turn."""
        self.loop.call_soon(self.kill, process.name, context=contextvars.Context())

    def kill(self, name: str) -> None:
        process = self.processes[name]
        if not process.alive:
            return
        self.story.tell(name, "is killed")
        self.story.count(f"{name.rstrip('12')} killed")
        process.kill()
        self.dead.append(process)
        self.drivers.pop(name, None)
        if name.startswith("controller"):
            self.nobody_renews_for(0.0)
        after_s = self.restart_after(name)
        if after_s is not None:
            self.loop.call_later(after_s, self._start_again, name, context=contextvars.Context())

    def _start_again(self, name: str) -> None:
        if not self.processes[name].alive:
            self.story.tell(name, "is started again")
            self.start(name)

    def take_down(self, name: str, seconds: float) -> None:
        """And leave it down for so long."""
        before, self.restart_after = self.restart_after, lambda _: seconds
        self.kill(name)
        self.restart_after = before
        self.nobody_renews_for(seconds)

    def stall(self, name: str, seconds: float) -> None:
        process = self.processes[name]
        if not process.alive or process.stopped:
            return
        self.story.tell(name, f"is stopped for {seconds:.0f} s")
        self.story.count(f"{name.rstrip('12')} stopped")
        process.stop()
        if name.startswith("controller"):
            self.nobody_renews_for(seconds)
        self.loop.call_later(seconds, self._go_on, process, context=contextvars.Context())

    def _go_on(self, process: Process) -> None:
        if process.alive:
            self.story.tell(process.name, "goes on")
            process.go_on()

    def fail_over(self, seconds: float) -> None:
        self.story.tell("postgres", f"fails over, away for {seconds:.0f} s")
        self.story.count("postgres failed over")
        self.faults.postgres_away = True
        self.postgres_ill_until_s = self.now_s() + seconds + 60
        self.wire.break_all()
        self.nobody_renews_for(seconds)
        self.loop.call_later(seconds, self._postgres_back, context=contextvars.Context())

    def _postgres_back(self) -> None:
        self.faults.postgres_away = False

    def jump_database_clock(self, by_s: float) -> None:
        self.story.tell("postgres", f"its clock jumps by {by_s} s")
        self.story.count("database clock jumped")
        self.database_off_by_s += by_s
        self.leases_in_doubt_until_s = self.now_s() + 2 * LEASE_S
        self.noticed_at_s = self.now_s() + 60
        self.clock_set_back_s += max(-by_s, 0.0)
        # Renewals pause for five minutes after a jump, and what is behind the clock waits for it.
        self.nobody_renews_for(PAUSE_AFTER_JUMP_S + max(-by_s, 0.0))

    def at(self, after_s: float, happens: Callable[[], None]) -> None:
        """Something of the world outside, whoever is dead by then."""
        self.loop.call_later(after_s, happens, context=contextvars.Context())

    def nobody_renews_for(self, seconds: float) -> None:
        """And a moment longer: the lease has to be taken over, and the next look to come."""
        until_s = self.now_s() + seconds + 2 * LEASE_S + 60
        self.renewals_away_until_s = max(self.renewals_away_until_s, until_s)

    async def _api(self, process: Process) -> None:
        app = create_app(self.settings, new_database(self.server.dsn, 3), KEYRING)
        app.state.clock = self._clock(process)
        self._app = app

    async def _controller(self, process: Process) -> None:
        clock = self._clock(process)
        database = new_database(self.server.dsn, 8)
        listener = Listener(self.server.dsn, clock)
        async with database.transaction() as session:
            installation_id = await ensure_installation_id(session)
        self.engines[process.name] = []
        engines = Engines({LOCAL_ENGINE: self.engine(process, installation_id, self.machine)})
        cards = card_provider(self.settings)
        made = make_reconcilers(Parts(database, engines, KEYRING, cards, self.settings, clock))
        containers = made["containers"]
        assert isinstance(containers, ContainersReconciler)
        wanted = reconcilers_of(self.parts, has_fleet=self.has_fleet, has_sleep=self.has_sleep)
        reconcilers = (containers, *(one for name, one in made.items() if name in wanted))
        drivers = [Driver(one, database, listener, process.name, clock) for one in reconcilers]
        self.drivers[process.name] = drivers
        containers.ask = drivers[0].ask
        listener.hear(CONTAINERS, drivers[0].ask)
        async with asyncio.TaskGroup() as group:
            group.create_task(listener.run())
            for driver in drivers:
                group.create_task(driver.run())
            if self.has_fleet:
                fleet = SimulatedFleet(
                    *(database, listener, engines, KEYRING, self.settings, _NO_PULLS, clock, _no_other_way),
                    lambda address: self.engine(process, installation_id, self.joined[address]),
                )
                group.create_task(fleet.run())

    async def _gateway(self, process: Process) -> None:
        clock = self._clock(process)
        database = new_database(self.server.dsn, 2)
        listener = Listener(self.server.dsn, clock)
        plane = SimulatedDataPlane(self.haproxy, lambda: False)
        parts = self.furnish_gateway(database, plane, clock)
        agent = GatewayAgent(GATEWAY, database, listener, plane, clock, parts.on_applied)  # type: ignore[arg-type]
        async with asyncio.TaskGroup() as group:
            group.create_task(listener.run())
            for run in parts.run:
                group.create_task(run())
            group.create_task(agent.run())

    async def _housekeeper(self, process: Process) -> None:
        clock = self._clock(process)
        database = new_database(self.server.dsn, 2)
        housekeeping = Housekeeping(database, self.settings, clock)
        await Driver(housekeeping, database, Listener(self.server.dsn, clock), process.name, clock).run()

    def engine(self, process: Process, installation_id: InstallationId, machine: Machine) -> SimulatedClient:
        """As this process sees it."""
        engine = SimulatedClient(machine, installation_id, process, self.faults, self.chance, self.watch)
        self.engines[process.name].append(engine)
        return engine

    def machines(self) -> list[Machine]:
        return [self.machine, *self.joined.values()]

    def replicas(self) -> list[SimulatedReplica]:
        """On machines that answer."""
        return [one for machine in self.machines() if machine.reachable for one in machine.replicas.values()]

    def running(self) -> list[SimulatedReplica]:
        """On machines that answer."""
        return [one for machine in self.machines() if machine.reachable for one in machine.running()]

    def is_reached(self, address: str, port: int) -> bool:
        """By gateways. What ended where its engine answers is known from that before anybody misses it."""
        machine = next((one for one in self.joined.values() if one.address == address), None)
        if machine is None or (machine.reachable and not machine.is_dark):
            return True
        return not machine.is_dark and any(one.spec.host_port == port for one in machine.running())

    def ran_ago_s(self, container_id: str) -> float:
        """Since when no process of a container has run, wherever."""
        return min(machine.ran_ago_s(container_id) for machine in (*self.machines(), *self.former))

    def _clock(self, process: Process) -> ProcessClock:
        return self.clocks.setdefault(process.name, ProcessClock(self.loop))

    def is_calm(self) -> bool:
        """Postgres is there and answers."""
        return self.faults.rates is CALM and self.now_s() > self.postgres_ill_until_s

    # Requests.

    def sign_in_again(self) -> None:
        """After a night without a request, sessions are over."""
        self.story.count("signed in again")
        self.query(
            "UPDATE sessions SET last_used_at = sim.now(), expires_at = sim.now() + interval '14 days'"
        )

    async def ask(self, headers: dict[str, str], method: str, path: str, body: Any = None) -> Answer:
        return await self._ask(httpx.Request(method, f"{BASE_URL}/api/v1{path}", headers=headers, json=body))

    async def post_bytes(self, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        """As somebody outside sends it, who signed it."""
        headers = {**headers, "Content-Type": "application/json"}
        return await self._ask(
            httpx.Request("POST", f"{BASE_URL}/api/v1{path}", headers=headers, content=body)
        )

    async def _ask(self, request: httpx.Request) -> Answer:
        """By a client that waits a minute."""
        api = self.processes["api"]
        if not api.alive or self._app is None:
            return Answer(502, None)
        work = api.spawn(self._request(request), f"{request.method} {request.url.path}")
        question = self._put(Question(request.url.path, api, work))
        done, _ = await asyncio.wait([work], timeout=60)
        question.client_waits = False
        api.tasks.remove(work) if api.alive and done else None
        if not done:
            return Answer(None, None, question.alone)
        answer = work.result()
        try:
            body = answer.json() if answer.content else None
        except json.JSONDecodeError:
            body = answer.text
        return Answer(answer.status_code, body, question.alone)

    def _put(self, question: Question) -> Question:
        self._questions = [one for one in self._questions if one.is_open()]
        about = _container_in(question.path)
        for other in self._questions:
            if about is not None and _container_in(other.path) == about:
                other.alone = question.alone = False
        self._questions.append(question)
        return question

    def being_asked(self) -> set[str]:
        """Containers about which a request is under way, so that nobody knows yet whether it was done."""
        asked = {_container_in(one.path) for one in self._questions if one.is_open()}
        return {container_id for container_id in asked if container_id is not None}

    async def _request(self, request: httpx.Request) -> httpx.Response:
        transport = httpx.ASGITransport(self._app, raise_app_exceptions=False)
        response = await transport.handle_async_request(request)
        await response.aread()
        return response

    def collect_logs(self) -> None:
        """What the log collector does: whatever ended has no logs, and the days to come have partitions."""
        if self.wire.is_idle():
            self.query(_COLLECT)
            self._make_days()

    def _make_days(self) -> None:
        now = START + timedelta(seconds=self.now_s() + self.database_off_by_s)
        for day in plan_partitions(self._days_made, now, self.settings.log_retention_days).create:
            self._days_made.add(day)
            for table in DIVIDED_BY_DAYS:
                self.query(
                    f"""CREATE TABLE IF NOT EXISTS {table}_{day:%Y%m%d} PARTITION OF {table}
                    FOR VALUES FROM ('{day} 00:00:00+00') TO ('{day + timedelta(days=1)} 00:00:00+00')"""
                )

    # Looking.

    def query(self, sql: str) -> list[tuple[str | None, ...]]:
        return self.monitor.query(sql, before=self.wire.clock_statement())

    def now_s(self) -> float:
        return self.loop.time()


def new_world(server: Server, seed: int, settings: dict[str, Any]) -> World:
    loop = SimulationLoop()
    chance = random.Random(f"world of {seed}")
    story = Story(loop.time)
    monitor = server.plain()
    faults = Faults(random.Random(f"faults of {seed}"), story)
    machine = Machine(ProcessClock(loop))
    watch = Watch()
    haproxy = Haproxy(loop.time, chance, story)
    wire = Wire(loop, server.backends, monitor, lambda: START_US + int(loop.time() * 1_000_000), faults)
    receivers = Receivers(loop, faults, random.Random(f"receivers of {seed}"))
    world = World(
        server,
        loop,
        chance,
        monitor,
        story,
        faults,
        _settings(settings),
        wire,
        machine,
        haproxy,
        watch,
        receivers,
    )
    wire.database_now_us = lambda: START_US + int((loop.time() + world.database_off_by_s) * 1_000_000)
    faults.crash = world.crash
    loop.connect_to_postgres = wire.connect
    haproxy.reaches = world.is_reached
    loop.connect_to_address = connector(loop, world.machines, receivers)
    return world


def _settings(values: dict[str, Any]) -> Settings:
    home = Path(tempfile.gettempdir()) / "moorage-simulation"
    # A share of the thread's time is measured on the real processor, which no seed decides about.
    # People there do in minutes what others do in a week.
    own: dict[str, Any] = {
        "replica_ports": "14000-14199",
        "api_share_percent": 100,
        "starts_per_minute": 1000,
    }
    return Settings(home=home, **{**own, **values})


async def furnish(world: World, organizations: int) -> None:
    """What an installation has before its first day: an operator, and people who signed up."""
    database = new_database(world.server.dsn, 1)
    key = new_token(OPERATOR_KEY_PREFIX)
    async with database.transaction() as session:
        await ensure_installation_id(session)
        await fill_empty_catalogue(session)
        await create_user(session, "operator@example.com", is_operator=True)
        await replace_operator_key(session, sha256(key))
        for number in range(organizations):
            name, token = f"org{number}", new_token(SESSION_PREFIX)
            user, _ = await create_user(session, f"{name}@example.com")
            await create_session(session, UserId(user.id), sha256(token))
            row = await create_organization(session, name, UserId(user.id))
            await grant_initial_credit(session, row.id, user.id)
            project = await create_project(session, OrganizationId(row.id), "default")
            headers = {"Authorization": f"Bearer {token}"}
            world.organizations.append(Organization(name, row.id, project.id, headers))
            world.story.names[row.id] = name
    world.operator = {"Authorization": f"Bearer {key}"}
    await database.close()


async def _no_other_way() -> None:
    """There is one way to a machine here."""


def _container_in(path: str) -> str | None:
    found = re.search(r"/containers/(ctr_[0-9a-z]+)", path)
    return found and found[1]


def new_database(dsn: str, pool_size: int) -> Database:
    """Without the server's own limit for transactions that stand still, which is real time: `wire.py` keeps it."""
    return Database(dsn, pool_size=pool_size, longest_idle_transaction_s=0)
