"""A world for the containers reconciler: real rows, a simulated machine that really listens, and the parts
around it (a gateway that obeys at once, a log collector with nothing to collect)."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sqlalchemy import event, func, select, text, update

from moorage.catalog.repository import fill_empty_catalogue, replace_nodes
from moorage.containers import service
from moorage.containers.channels import ROUTES
from moorage.containers.models import ContainerRow, ReplicaRow
from moorage.containers.reconciler.reconciler import ContainersReconciler
from moorage.containers.repository import mark_due
from moorage.containers.schemas import AutoscalingResources, ContainerCreate, HealthCheck, RegistryWrite
from moorage.containers.spec import RegistryProvider
from moorage.engines.base import (
    Engine,
    Image,
    ImageRequest,
    ListeningSocket,
    NodeCapacity,
    ObservedReplica,
    PullProgress,
    ReplicaPhase,
    ReplicaSpec,
)
from moorage.engines.simulated import SimulatedEngine, SimulatedImage, SimulatedMachine
from moorage.gateway.repository import RouteReport, read_table, register_gateway, report
from moorage.identity.actor import KeyActor
from moorage.kit.clock import Clock, VirtualClock, system_clock
from moorage.kit.crypto import Keyring
from moorage.kit.database import Database, Listener
from moorage.kit.errors import EngineError
from moorage.kit.ids import (
    ApiKeyId,
    ContainerId,
    GatewayId,
    InstallationId,
    ProjectId,
    ReplicaId,
    new_organization_id,
    new_project_id,
)
from moorage.kit.settings import Settings
from moorage.organizations.models import OrganizationRow, ProjectRow
from moorage.reconcile.driver import Driver
from moorage.reconcile.lease import Lease, LeaseKeeper

GATEWAY = GatewayId("gtw_test")
INSTALLATION = InstallationId("ins_test")
KEYRING = Keyring(((b"\x01" * 4, b"\x02" * 32),))
SETTINGS = Settings(home=Path("/nonexistent"), replica_ports="14000-18999", drain_timeout_s=5)
IMAGES = {
    "local/chat:latest": SimulatedImage(exposed_ports=(8000,)),
    "local/crash:latest": SimulatedImage(exits_after_s=0.0, exit_code=3),
    "local/deaf:latest": SimulatedImage(listens=False),
    "local/strict:latest": SimulatedImage(commands=frozenset({"serve"})),
}


class Machine(SimulatedMachine):
    """A simulated machine whose replicas answer on their host ports, for as long as their process runs."""

    def __init__(self) -> None:
        super().__init__(system_clock, IMAGES, cpu_millis=10**6, memory_bytes=2**42)
        self.servers: dict[str, asyncio.Server] = {}
        self.status_of_health_check = 200

    async def listen(self, spec: ReplicaSpec) -> None:
        if spec.replica_id in self.servers:
            return

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                await reader.readuntil(b"\r\n\r\n")
                if self.runs(spec.replica_id):
                    writer.write(
                        f"HTTP/1.1 {self.status_of_health_check} X\r\nContent-Length: 0\r\n\r\n".encode()
                    )
            writer.close()

        try:
            self.servers[spec.replica_id] = await asyncio.start_server(answer, "127.0.0.1", spec.host_port)
        except OSError as exc:
            raise EngineError(f"Port {spec.host_port} is in use.", code="port_taken") from exc

    def hush(self) -> None:
        """Close the ports of processes that have ended."""
        for replica_id in [one for one in self.servers if not self.runs(one)]:
            self.servers.pop(replica_id).close()

    def runs(self, replica_id: str) -> bool:
        return any(one.spec.replica_id == replica_id for one in self.running())

    def running(self) -> list[ReplicaSpec]:
        now = self.clock.now()
        return [one.spec for one in self.replicas.values() if one.phase(now) is ReplicaPhase.RUNNING]

    def end(self, replica_id: str, exit_code: int = 1) -> None:
        """Its process ends by itself."""
        found = next(one for one in self.replicas.values() if one.spec.replica_id == replica_id)
        self.put(replace(found, ends_at=self.clock.now(), exit_code=exit_code))
        self.hush()

    def forget(self, replica_id: str) -> None:
        """It is gone from the machine without a trace."""
        self.drop(next(one for one in self.replicas.values() if one.spec.replica_id == replica_id))
        self.hush()

    def of(self, container_id: str) -> list[ReplicaSpec]:
        return [one.spec for one in self.replicas.values() if one.spec.container_id == container_id]

    def close(self) -> None:
        for server in self.servers.values():
            server.close()


Interfere = Callable[[str], Awaitable[None]]


async def _leave_alone(_: str) -> None:
    return None


class WatchedEngine(SimulatedEngine):
    """Calls `before` and `after` around each call's effect, and counts what must never happen."""

    def __init__(self, machine: Machine, before: Interfere = _leave_alone, after: Interfere = _leave_alone):
        super().__init__(machine, INSTALLATION)
        self.machine, self.before, self.after = machine, before, after
        self.calls: Counter[str] = Counter()
        self.hidden: set[str] = set()
        """Replicas that this engine does not see, although they run."""

    async def prepare(self) -> None:
        await self._around("prepare", super().prepare())

    async def capacity(self) -> list[NodeCapacity]:
        return await self._around("capacity", super().capacity())

    async def ensure_image(self, request: ImageRequest, on_progress: Callable[[PullProgress], None]) -> Image:
        return await self._around("ensure_image", super().ensure_image(request, on_progress))

    async def start(self, spec: ReplicaSpec) -> ObservedReplica:
        return await self._around("start", self._start(spec))

    async def stop(self, engine_id: str, grace_s: float) -> None:
        await self._around("stop", super().stop(engine_id, grace_s))

    async def remove(self, engine_id: str) -> None:
        await self._around("remove", super().remove(engine_id))

    async def inspect(self, replica_id: ReplicaId) -> ObservedReplica | None:
        found = await self._around("inspect", super().inspect(replica_id))
        return None if replica_id in self.hidden else found

    async def list_replicas(self) -> list[ObservedReplica]:
        found = await self._around("list_replicas", super().list_replicas())
        return [one for one in found if one.replica_id not in self.hidden]

    async def listening_sockets(self, engine_id: str) -> tuple[ListeningSocket, ...]:
        return await self._around("listening_sockets", super().listening_sockets(engine_id))

    async def _start(self, spec: ReplicaSpec) -> ObservedReplica:
        observed = await super().start(spec)
        if self.machine.images["local/chat:latest"].listens and _image_of(self.machine, spec).listens:
            await self.machine.listen(spec)
        return observed

    async def _around(self, name: str, work: Awaitable[Any]) -> Any:
        self.calls[name] += 1
        try:
            await self.before(name)
        except BaseException:
            asyncio.ensure_future(work).cancel()
            raise
        result = await work
        self.machine.hush()
        twins = Counter((one.container_id, one.generation, one.slot) for one in self.machine.running())
        assert max(twins.values(), default=1) == 1, f"two replicas for one slot: {twins.most_common(1)}"
        await self.after(name)
        return result
