"""One role of the scale benchmark in a process of its own, so that its CPU and memory can be told apart.

    python bench/scale_roles.py controller|gateway <home> <api port> <gateway port> <machines>

Says on its output, a JSON object a line, what it does: `ready`, and for the controller when each
machine was swept and looked at once (`settled`), and each engine call with its time on the machine's monotonic clock, which is the same in every process.
"""

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import asyncpg
import uvloop
from scale_world import (
    CONTAINER_PORT,
    GATEWAY,
    HEALTH_PATH,
    IMAGE,
    INSTANCE_TYPE,
    KEYRING,
    PINNED_IMAGE,
    SomeMachine,
    machine_of,
    settings_of,
)

from moorage.catalog.defaults import default_catalogue
from moorage.containers.channels import CONTAINERS
from moorage.containers.reconciler.reconciler import ContainersReconciler
from moorage.engines.base import DiskSpace, HeldCache, NodeCapacity, ObservedReplica, ReplicaSpec
from moorage.engines.engines import Engines
from moorage.engines.simulated import SimulatedEngine, SimulatedImage, SimulatedMachine
from moorage.engines.simulated_machine import SimulatedReplica, engine_ref
from moorage.entrypoints.gateway_role import create_dataplane
from moorage.gateway.agent import GatewayAgent
from moorage.kit.clock import system_clock
from moorage.kit.collecting import Collecting
from moorage.kit.database import Database, Listener
from moorage.kit.ids import (
    ContainerId,
    InstallationId,
    ProjectId,
    ReplicaId,
    new_organization_id,
    new_project_id,
)
from moorage.kit.logging import configure_logging
from moorage.kit.postgres import EmbeddedPostgres
from moorage.kit.settings import Settings
from moorage.reconcile.driver import Driver
from moorage.telemetry.metrics.keeper import MetricsKeeper

INSTALLATION = InstallationId("ins_scale")


class ToldEngine(SimulatedEngine):
    """Tells of each call; what it starts really answers its health check, because the reconciler really asks."""

    def __init__(self, machine: SimulatedMachine, new: set[str], *, tells_sweeps: bool) -> None:
        """`new` are the machines of which not everything was looked at yet."""
        super().__init__(machine, INSTALLATION)
        self._tells_sweeps = tells_sweeps
        self._new = new
        self._unseen = {"capacity", "caches", "written bytes"}
        self._servers: dict[str, asyncio.Server] = {}

    async def start(self, spec: ReplicaSpec) -> ObservedReplica:
        tell("start", container_id=spec.container_id)
        self._servers[spec.container_id] = await asyncio.start_server(
            _answer, self._machine.address, spec.host_port
        )
        return await super().start(spec)

    async def stop(self, engine_id: str, grace_s: float) -> None:
        replica = self._machine.replicas[engine_id]
        tell("stop", container_id=replica.spec.container_id)
        if replica.spec.container_id in self._servers:
            self._servers.pop(replica.spec.container_id).close()
        await super().stop(engine_id, grace_s)

    async def prepare(self) -> None:
        """Asked for by sweeps alone: where there are several machines, the pulse lists replicas too."""
        if self._tells_sweeps:
            tell("sweep")
        await super().prepare()

    async def capacity(self) -> list[NodeCapacity]:
        self._looked("capacity")  # the end of a sweep
        return await super().capacity()

    async def caches(self) -> list[HeldCache]:
        self._looked("caches")
        return await super().caches()

    async def written_bytes(self, limits: Mapping[str, int]) -> Mapping[str, int]:
        self._looked("written bytes")
        return await super().written_bytes(limits)

    def _looked(self, at: str) -> None:
        self._unseen.discard(at)
        if not self._unseen and self._machine.name in self._new:
            self._new.remove(self._machine.name)
            if not self._new:
                tell("settled")


async def run_controller(settings: Settings, dsn: str, count: int) -> None:
    before_kib = resident_kib("self")
    machines = {one.engine: _machine(one) for one in (machine_of(number, count) for number in range(count))}
    await _preload(machines, dsn)
    database, listener = Database(dsn, pool_size=settings.database_pool_size), Listener(dsn)
    first = next(iter(machines))
    new = {machine.name for machine in machines.values()}
    engines = Engines(
        {name: ToldEngine(machine, new, tells_sweeps=name == first) for name, machine in machines.items()}
    )
    reconciler = ContainersReconciler(database, engines, KEYRING, settings, system_clock)
    driver = Driver(reconciler, database, listener, "scale", system_clock)
    metrics = Driver(
        MetricsKeeper(database, engines, system_clock), database, listener, "scale", system_clock
    )
    reconciler.ask = driver.ask
    listener.hear(CONTAINERS, driver.ask)
    tell("ready", machine_kib=resident_kib("self") - before_kib, cpu_s=time.process_time())
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(listener.run())
            group.create_task(driver.run())
            group.create_task(metrics.run())
    finally:
        await reconciler.close()
        await database.close()


def _machine(one: SomeMachine) -> SimulatedMachine:
    return SimulatedMachine(
        system_clock,
        dict.fromkeys((IMAGE, PINNED_IMAGE), SimulatedImage(exposed_ports=(CONTAINER_PORT,))),
        one.name,
        one.address,
        engine_identity=f"the engine of {one.name}",
        cpu_millis=10**9,
        memory_bytes=2**50,
        disk_space=DiskSpace(total_bytes=2 * 10**12, free_bytes=10**12),
    )


async def run_gateway(settings: Settings, dsn: str, _: int) -> None:
    database, listener = Database(dsn, pool_size=2), Listener(dsn)
    dataplane = create_dataplane(settings)
    agent = GatewayAgent(GATEWAY, database, listener, dataplane, system_clock)
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(listener.run())
            group.create_task(agent.run())
            while dataplane.process.pid() is None:  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.05)
            tell("ready", haproxy_pid=dataplane.process.pid())
    finally:
        await dataplane.stop()
        await database.close()


def tell(what: str, **more: object) -> None:
    print(json.dumps({"what": what, "at_s": time.monotonic(), **more}), flush=True)


def resident_kib(pid: int | str) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))


async def _preload(machines: Mapping[str, SimulatedMachine], dsn: str) -> None:
    size = next(one for one in default_catalogue() if one.name == INSTANCE_TYPE)
    project_id, organization_id = new_project_id(), new_organization_id()
    connection = await asyncpg.connect(dsn)
    rows = await connection.fetch(
        "SELECT id, container_id, engine, host, host_port, engine_id, started_at FROM replicas"
    )
    await connection.close()
    for row in rows:
        spec = ReplicaSpec(
            replica_id=ReplicaId(row["id"]),
            container_id=ContainerId(row["container_id"]),
            project_id=ProjectId(project_id),
            organization_id=organization_id,
            slot=0,
            generation=1,
            image=engine_ref(IMAGE),
            command=None,
            environment={},
            port=CONTAINER_PORT,
            host_port=row["host_port"],
            vcpu_millis=size.vcpu_millis,
            memory_bytes=size.memory_bytes,
            disk_bytes=size.disk_bytes,
        )
        machine = machines[row["engine"]]
        machine.put(
            SimulatedReplica(
                INSTALLATION,
                row["engine_id"],
                spec,
                machine.images[IMAGE],
                row["host"],
                started_at=row["started_at"],
            )
        )


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
        asked = await reader.readuntil(b"\r\n\r\n")
        status = 200 if asked.split()[1] == HEALTH_PATH.encode() else 404
        writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n".encode())
    writer.close()


def main() -> None:
    role, home, api_port, gateway_port, machines = sys.argv[1:]
    settings = settings_of(Path(home), int(api_port), int(gateway_port))
    configure_logging(settings.log_level, as_json=True)
    dsn = EmbeddedPostgres(settings).dsn
    Collecting().begin()  # as every role does
    run = {"controller": run_controller, "gateway": run_gateway}[role]

    async def until_told() -> None:
        """The parent closes our input when it is done, also by dying."""
        work = asyncio.ensure_future(run(settings, dsn, int(machines)))
        closed = asyncio.ensure_future(asyncio.to_thread(sys.stdin.read))
        await asyncio.wait([work, closed], return_when=asyncio.FIRST_COMPLETED)
        work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await work

    uvloop.run(until_told())


if __name__ == "__main__":
    main()
