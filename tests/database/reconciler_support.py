"""A world for the containers reconciler: real rows, a simulated machine that really listens, and the parts
around it (a gateway that obeys at once, a log collector with nothing to collect)."""

import asyncio
import contextlib
import math
import os
import socket
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import event, func, select, text, update
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.catalog.repository import fill_empty_catalogue, replace_nodes
from moorage.containers import service
from moorage.containers.channels import CONTAINERS
from moorage.containers.models import ContainerRow, ReplicaRow
from moorage.containers.reconciler.reconciler import ContainersReconciler
from moorage.containers.reconciler.repository import release_ports
from moorage.containers.repository import mark_due
from moorage.containers.schemas import AutoscalingResources, ContainerCreate, HealthCheck, RegistryWrite
from moorage.containers.spec import RegistryProvider
from moorage.engines.base import (
    LOCAL_ENGINE,
    Engine,
    Image,
    ImageRequest,
    ObservedReplica,
    PullProgress,
    ReplicaPhase,
    ReplicaSpec,
)
from moorage.engines.engines import Engines
from moorage.engines.simulated import SimulatedEngine, SimulatedImage, SimulatedMachine
from moorage.engines.simulated_machine import engine_ref
from moorage.gateway.liveness import Health
from moorage.gateway.repository import RouteReport, note_seen, read_table, register_gateway, report
from moorage.identity.actor import KeyActor
from moorage.kit.clock import VirtualClock, system_clock
from moorage.kit.crypto import Keyring
from moorage.kit.database import Database, Listener
from moorage.kit.errors import EngineError
from moorage.kit.ids import (
    ApiKeyId,
    GatewayId,
    InstallationId,
    ProjectId,
    ReplicaId,
    new_organization_id,
    new_project_id,
)
from moorage.kit.settings import Settings
from moorage.ledger.repository import grant_initial_credit
from moorage.organizations.models import OrganizationRow, ProjectRow
from moorage.reconcile.driver import Driver
from moorage.reconcile.lease import Lease, LeaseKeeper

GATEWAY = GatewayId("gtw_test")
HANGS = "/hangs"
"""A health path that never answers."""
KEYRING = Keyring(((b"\x01" * 4, b"\x02" * 32),))
SETTINGS = Settings(home=Path("/nonexistent"), replica_ports="14000-18999", drain_timeout_s=5, stop_grace_s=1)
IMAGES = {
    "local/chat:latest": SimulatedImage(exposed_ports=(8000,)),
    "local/crash:latest": SimulatedImage(exits_after_s=0.0, exit_code=3),
    "local/hungry:latest": SimulatedImage(exits_after_s=0.0, out_of_memory=True),
    "local/deaf:latest": SimulatedImage(listens=False),
    "local/greedy:latest": SimulatedImage(
        exposed_ports=(8000,), written_bytes=11 * 2**30, ends_on_request=False
    ),
    "local/model:latest": SimulatedImage(exposed_ports=(8000,), cached_bytes=15 * 2**30),
    "local/stubborn:latest": SimulatedImage(exposed_ports=(8000,), ends_on_request=False),
    "local/strict:latest": SimulatedImage(commands=frozenset({"serve"})),
}
LONG_LIFE_SQL = text("UPDATE leases SET expires_at = now() + interval '1 hour'")
NEXT_LIFE_SQL = text("UPDATE leases SET expires_at = now() - interval '1 second'")

ResultT = TypeVar("ResultT")


def _address(first: int) -> str:
    pid = os.getpid()
    return f"127.{first + pid // 2**16 % 64}.{pid // 2**8 % 2**8}.{pid % 2**8}"


OWN_ADDRESS, SECOND_ADDRESS = _address(64), _address(128)
"""Of this process alone: a replica whose port somebody else has begins anew after a pause, and tests that count passes do not wait."""

_LISTENING: list[tuple[asyncio.AbstractEventLoop, socket.socket]] = []
"""A loop that has ended closes no socket: the ports of one test would be taken in the next."""


_WITH_A_PORT = (ReplicaPhase.WAITING, ReplicaPhase.PULLING, ReplicaPhase.RUNNING)


class Machine(SimulatedMachine):
    """Its replicas answer on their host ports for as long as their process runs."""

    def __init__(self, name: str = "simulated", address: str = OWN_ADDRESS) -> None:
        super().__init__(
            system_clock, IMAGES, name=name, address=address, cpu_millis=10**6, memory_bytes=2**42
        )
        self.engine_identity = f"engine of {name}"
        self.servers: dict[str, asyncio.Server] = {}
        self.health_status = 200
        self.twins: list[str] = []
        """Whenever two processes ran for one slot of one generation."""

    async def listen(self, spec: ReplicaSpec) -> None:
        image = next(image for name, image in self.images.items() if engine_ref(name) == spec.image)
        if spec.replica_id in self.servers or not image.listens:
            return

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                head = await reader.readuntil(b"\r\n\r\n")
                if head.startswith(f"GET {HANGS} ".encode()):
                    await reader.read()  # until whoever asks gives up
                elif self.runs(spec.replica_id):
                    writer.write(f"HTTP/1.1 {self.health_status} X\r\nContent-Length: 0\r\n\r\n".encode())
            writer.close()

        try:
            listening = socket.create_server((self.address, spec.host_port))
        except OSError as exc:
            raise EngineError(f"Port {spec.host_port} is in use.", code="port_taken") from exc
        _LISTENING.append((asyncio.get_running_loop(), listening))
        self.servers[spec.replica_id] = await asyncio.start_server(answer, sock=listening)

    def settle(self) -> None:
        """Close the ports of processes that have ended, and look for what must never be."""
        now = self.clock.now()
        alive = {one.spec.replica_id for one in self.replicas.values() if one.phase(now) in _WITH_A_PORT}
        for replica_id in self.servers.keys() - alive:
            self.servers.pop(replica_id).close()
        slots = Counter((one.container_id, one.generation, one.slot) for one in self.running())
        self.twins += [f"{slot}: {count}" for slot, count in slots.items() if count > 1]

    def running(self) -> list[ReplicaSpec]:
        now = self.clock.now()
        return [one.spec for one in self.replicas.values() if one.phase(now) is ReplicaPhase.RUNNING]

    def runs(self, replica_id: str) -> bool:
        return any(one.replica_id == replica_id for one in self.running())

    def end(self, replica_id: str, exit_code: int = 1) -> None:
        """Its process ends by itself."""
        self.put(replace(self._found(replica_id), ends_at=self.clock.now(), exit_code=exit_code))
        self.settle()

    def find_a_place(self, replica_id: str) -> None:
        """It has waited and fetched long enough, and runs from now on."""
        now = self.clock.now()
        self.put(replace(self._found(replica_id), waits_until=now, started_at=now))

    def lose(self, replica_id: str) -> None:
        """It is gone without a trace."""
        self.drop(self._found(replica_id))
        self.settle()

    def wipe(self) -> None:
        """The engine loses all its data, its identity included."""
        for replica in list(self.replicas.values()):
            self.drop(replica)
        self.engine_identity = f"{self.engine_identity}-wiped"
        self.settle()

    def ids_of(self, container_id: str) -> set[str]:
        return {
            one.spec.replica_id for one in self.replicas.values() if one.spec.container_id == container_id
        }

    def _found(self, replica_id: str) -> Any:
        return next(one for one in self.replicas.values() if one.spec.replica_id == replica_id)


async def _nothing(_: str) -> None:
    return None


class WatchedEngine(SimulatedEngine):
    """Tells `before` and `after` of each call; either may block, fail or kill."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine, InstallationId("ins_test"))
        self.machine = machine
        self.before: Callable[[str], Awaitable[None]] = _nothing
        self.after: Callable[[str], Awaitable[None]] = _nothing
        self.hidden: set[str] = set()
        """Replicas that this engine does not see, although they are there."""

    async def prepare(self) -> None:
        await self._call("prepare", super().prepare)

    async def ensure_image(self, request: ImageRequest, on_progress: Callable[[PullProgress], None]) -> Image:
        inner = super().ensure_image
        return await self._call("ensure_image", lambda: inner(request, on_progress))

    async def start(self, spec: ReplicaSpec) -> ObservedReplica:
        inner = super().start

        async def listen_and_start() -> ObservedReplica:
            await self.machine.listen(spec)
            return await inner(spec)

        return await self._call("start", listen_and_start)

    async def stop(self, engine_id: str, grace_s: float) -> None:
        inner = super().stop
        await self._call("stop", lambda: inner(engine_id, grace_s))

    async def remove(self, engine_id: str) -> None:
        inner = super().remove
        await self._call("remove", lambda: inner(engine_id))

    async def inspect(self, replica_id: ReplicaId) -> ObservedReplica | None:
        inner = super().inspect
        found = await self._call("inspect", lambda: inner(replica_id))
        return None if replica_id in self.hidden else found

    async def list_replicas(self) -> list[ObservedReplica]:
        found = await self._call("list_replicas", super().list_replicas)
        return [one for one in found if one.replica_id not in self.hidden]

    async def _call(self, name: str, work: Callable[[], Awaitable[ResultT]]) -> ResultT:
        await self.before(name)
        try:
            result = await work()
        finally:
            self.machine.settle()
        await self.after(name)
        return result


@dataclass
class Doom:
    """A process dies at its n-th step, and a dead process takes no further one."""

    at: int | None = None
    steps: int = 0
    dead: bool = False

    def step(self) -> None:
        self.steps += 1
        self.dead = self.dead or self.steps == self.at
        if self.dead:
            raise asyncio.CancelledError("killed")


class DoomedDatabase(Database):
    """Every statement that writes is a step, and so are the moments before and after every commit.

    Reads are not: nothing happens between two of them that a death could come between.
    """

    def __init__(self, dsn: str) -> None:
        super().__init__(dsn, pool_size=5)
        self.doom = Doom()
        event.listen(self._engine.sync_engine, "before_cursor_execute", self._before_statement)

    def _before_statement(self, _connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if not statement.startswith("SELECT"):
            self.doom.step()

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncSession]:
        async with super().transaction() as session:
            yield session
            self.doom.step()
        self.doom.step()


@dataclass
class World:
    database: Database
    project: ProjectRow
    machine: Machine
    fewest_enabled: dict[str, int] = field(default_factory=dict)
    """By container: the least that the gateway had while somebody counted."""
    failing: dict[str, Health] = field(default_factory=dict)
    """Replicas whose health checks fail at the gateway."""
    _names: int = 0

    async def create(
        self,
        image: str = "local/chat:latest",
        *,
        replicas: int = 1,
        max_replicas: int | None = None,
        health_path: str = "/health",
        health_timeout_s: int = 60,
        **more: Any,
    ) -> str:
        self._names += 1
        resources = AutoscalingResources(
            mode="autoscaling",
            instance_type="cpu-nano",
            min_replicas=replicas,
            max_replicas=max_replicas or replicas,
        )
        wanted = ContainerCreate(
            name=f"container-{self._names}",
            image=image,
            registry=RegistryWrite(provider=RegistryProvider.LOCAL),
            resources=resources,
            health_check=HealthCheck(path=health_path),
            **more,
        )
        async with self.database.transaction() as session:
            row = await service.create_container(
                session,
                self.actor,
                self.project,
                wanted,
                keyring=KEYRING,
                settings=SETTINGS,
                clock=system_clock,
            )
            # Shorter than the API allows, because a test does not wait that long.
            row.settings = {**row.settings, "health_timeout_s": health_timeout_s}
            return row.id

    async def ask(self, change: Callable[..., Awaitable[service.Changed]], container_id: str) -> None:
        """`change` is one of the service's: start, stop, restart, delete."""
        async with self.database.transaction() as session:
            await change(session, self.actor, container_id)

    @property
    def actor(self) -> KeyActor:
        return KeyActor(ApiKeyId("key_test"), ProjectId(self.project.id), None)

    async def container(self, container_id: str) -> ContainerRow:
        async with self.database.transaction() as session:
            return (
                await session.execute(select(ContainerRow).where(ContainerRow.id == container_id))
            ).scalar_one()

    async def replicas(self, container_id: str, *states: str) -> list[ReplicaRow]:
        query = select(ReplicaRow).where(ReplicaRow.container_id == container_id).order_by(ReplicaRow.slot)
        async with self.database.transaction() as session:
            rows = (await session.execute(query)).scalars()
            return [row for row in rows if not states or row.state in states]

    async def gateway_step(self) -> None:
        """What the agent does: hold what the table says; what drains has nothing in flight and goes."""
        async with self.database.transaction() as session:
            table = await read_table(session)
            held = {
                str(server.replica_id): RouteReport(
                    draining=False, in_flight=0, health=self.failing.get(server.replica_id)
                )
                for route in table.routes.values()
                for server in route.servers
                if not server.draining
            }
            await note_seen(session, GATEWAY, held)
            await report(session, GATEWAY, held)
        async with self.database.transaction() as session:
            await release_ports(session)
        for container_id, fewest in self.fewest_enabled.items():
            routes = [one for name, one in table.routes.items() if name == container_id]
            enabled = sum(not server.draining for route in routes for server in route.servers)
            self.fewest_enabled[container_id] = min(fewest, enabled)

    async def collector_step(self) -> None:
        stopped = (ReplicaRow.state == "stopped") & ReplicaRow.collected_at.is_(None)
        async with self.database.transaction() as session:
            found = await session.execute(select(ReplicaRow.container_id).where(stopped))
            container_ids = sorted(set(found.scalars()))
            if container_ids:
                await mark_due(session, container_ids)
                here = ReplicaRow.container_id.in_(container_ids)
                await session.execute(update(ReplicaRow).where(stopped, here).values(collected_at=func.now()))

    async def end_lease(self) -> None:
        """What ten seconds of silence would do."""
        async with self.database.transaction() as session:
            await session.execute(NEXT_LIFE_SQL)

    async def nothing_left(self, container_id: str) -> bool:
        rows = await self.replicas(container_id)
        released = all(row.state == "removed" and row.port_released_at is not None for row in rows)
        return released and not self.machine.ids_of(container_id)


def _close_what_others_left() -> None:
    left = [one for one in _LISTENING if one[0].is_closed()]
    for one in left:
        one[1].close()
        _LISTENING.remove(one)


async def new_world(database: Database) -> World:
    _close_what_others_left()
    machine = Machine()
    async with database.transaction() as session:
        await fill_empty_catalogue(session)
        await replace_nodes(session, await WatchedEngine(machine).capacity())
        await register_gateway(session, GATEWAY)
        project = await new_project(session, "Acme")
    return World(database, project, machine)


async def neighbour_of(world: World) -> World:
    """Another organization on the same machine."""
    async with world.database.transaction() as session:
        project = await new_project(session, "Neighbours")
    return World(world.database, project, world.machine)


async def new_project(session: AsyncSession, organization: str) -> ProjectRow:
    project = ProjectRow(id=new_project_id(), organization_id=new_organization_id(), name="default")
    session.add(OrganizationRow(id=project.organization_id, name=organization))
    await session.flush()
    await grant_initial_credit(session, project.organization_id, f"usr_{organization}")
    session.add(project)
    return project


def engines_of(engine: Engine | Engines) -> Engines:
    return engine if isinstance(engine, Engines) else Engines({LOCAL_ENGINE: engine})


@dataclass
class Life:
    """One life of a controller, driven by hand: a pass, what it began, then the neighbours' turn."""

    world: World
    reconciler: ContainersReconciler
    lease: Lease
    clock: VirtualClock

    async def round(self, container_id: str, doom: Doom | None = None) -> None:
        """As the driver does it, but at once and to the end; or until the process dies."""
        try:
            try:
                await self.reconciler.reconcile(container_id, self.lease)
            except EngineError as exc:
                await self.reconciler.postpone(container_id, exc, self.lease)
            await self.finish_operations()
        except asyncio.CancelledError:
            if doom is None or not doom.dead:
                raise
        await self.world.gateway_step()
        await self.world.collector_step()

    async def finish_operations(self) -> None:
        while tasks := self.reconciler._operations.under_way():
            await self.clock.advance(60)  # the pause after a failed call
            await asyncio.wait(tasks, timeout=0.01)

    async def finish_probes(self, container_id: str) -> None:
        """Nobody but a test asks for another pass before a health check that takes long has ended."""
        probes = self.reconciler._observer._prober._running.get(container_id, {})
        if probes:
            await asyncio.wait(probes.values())


@contextlib.asynccontextmanager
async def life(
    world: World, engine: Engine | Engines, database: Database | None = None
) -> AsyncIterator[Life]:
    await world.end_lease()
    database, clock = database or world.database, VirtualClock()
    keeper = LeaseKeeper(world.database, "containers", "test", system_clock)
    lease = await keeper.acquire()
    assert lease is not None
    # Not renewed but long: on a machine that stands still for ten seconds nobody renews anything.
    lease.deadline_s = math.inf
    async with world.database.transaction() as session:
        await session.execute(LONG_LIFE_SQL)
    reconciler = ContainersReconciler(database, engines_of(engine), KEYRING, SETTINGS, clock)
    # As a sweep would say, and none runs: replicas start side by side.
    reconciler._operations.fit_to(LOCAL_ENGINE, cores=8)
    try:
        yield Life(world, reconciler, lease, clock)
    finally:
        await reconciler.close()


@contextlib.asynccontextmanager
async def driven(world: World, engine: Engine | Engines, holder: str = "test") -> AsyncIterator[Driver]:
    """The controller as it is deployed, beside a gateway and a collector."""
    listener = Listener(world.database.dsn)
    reconciler = ContainersReconciler(world.database, engines_of(engine), KEYRING, SETTINGS, system_clock)
    driver = Driver(reconciler, world.database, listener, holder, system_clock)
    reconciler.ask = driver.ask
    listener.hear(CONTAINERS, driver.ask)

    async def neighbours() -> None:
        while True:
            await world.gateway_step()
            await world.collector_step()
            await asyncio.sleep(0.02)

    tasks = [asyncio.create_task(one) for one in (listener.run(), driver.run(), neighbours())]
    try:
        yield driver
        if tasks[2].done():  # The neighbours of the controller are a part of every test.
            tasks[2].result()
    finally:
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        await reconciler.close()
    assert [type(end) for end in ends] == [asyncio.CancelledError] * 3, f"a clean stop: {ends}"


async def eventually(condition: Callable[[], Awaitable[bool]], what: str, timeout_s: float = 90.0) -> None:
    deadline_s = system_clock.monotonic() + timeout_s
    while not await condition():
        assert system_clock.monotonic() < deadline_s, f"not within {timeout_s} s: {what}"
        await asyncio.sleep(0.02)
