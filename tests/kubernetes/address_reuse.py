"""Two tenants whose Pods come and go on a few addresses, while a gateway that hears of none of it goes on serving.

The engine, its Pods' doors and the gateway's HAProxy are real; the cluster is the stand-in, whose Pods are on loopback addresses and get
the address of one that ended at once. The gateway is told of what serves now and then; in between it is cut off: nothing
is applied to it, as when neither Postgres nor the cluster can be reached. Every request names the container it is meant for in a
header, and every Pod compares that with its own label.
"""

import asyncio
import random
import re
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from moorage.engines.base import ObservedReplica, ReplicaPhase, ReplicaSpec
from moorage.engines.kubernetes.names import LABEL_CONTAINER
from moorage.gateway.dataplane import DataPlane
from moorage.gateway.table import GatewayTable, KeyEntry, Route, Server
from moorage.kit import ids
from moorage.kit.clock import system_clock
from moorage.kit.ids import ContainerId, ProjectId, ReplicaId
from tests.engine.contract import spec_of
from tests.gateway.gateway_support import Key, make_place, new_key
from tests.kubernetes.world import ClusterWorld, cluster_world

ADDRESSES = [f"127.83.0.{number}" for number in range(1, 7)]
"""As many as a /29 has for Pods."""
CUT = 0
"""In place of a status: the gateway closed the connection."""
MEANT_FOR = "X-Meant-For"
_PODS_AT_ONCE = 4
_CLIENTS = 4
_WITHIN_S = 60.0
_NAMED = re.compile(rf"^{MEANT_FOR}: (\S+)\r?$", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True)
class Tenant:
    container_id: ContainerId
    project_id: ProjectId
    key: Key


@dataclass
class Outcome:
    pods: int = 0
    requests: Counter[int] = field(default_factory=Counter)
    """By the status that a client got."""
    own: int = 0
    """Requests that arrived at a Pod of whom they were meant for."""
    foreign: int = 0
    """And at one of the other tenant's."""
    cut_off: int = 0
    """How often the gateway was left alone."""
    reused: int = 0
    """Pods that got an address at which the gateway still had the other tenant's replica."""

    def __str__(self) -> str:
        return (
            f"{self.pods} Pods on {len(ADDRESSES)} addresses, {self.reused} at an address that the gateway had for the other "
            f"tenant, cut off {self.cut_off} times; requests by status {dict(sorted(self.requests.items()))}, "
            f"{self.own} at their own Pods, {self.foreign} at foreign ones"
        )


async def pods_come_and_go(
    certificate: Path, folder: Path, *, pods: int, cut_off_for: int, doors: bool, seed: int = 17
) -> Outcome:
    """`cut_off_for` so many Pods at a time."""
    async with AsyncExitStack() as stack:
        world = await stack.enter_async_context(
            cluster_world(
                certificate, folder, nodes=("node-1", "node-2"), really_listen=True, pool=[*ADDRESSES]
            )
        )
        engine = world.engine if doors else world.new_engine(world.installation_id, door=None)
        stack.push_async_callback(engine.close)
        world.engine = engine
        await engine.prepare()
        place = make_place(stack.enter_context(_home()), queue_timeout_s=5, queue_limit=100)
        stack.callback(place.kill)
        gateway = place.dataplane()
        await gateway.start()
        http = await stack.enter_async_context(
            aiohttp.ClientSession(
                f"http://127.0.0.1:{place.port}", timeout=aiohttp.ClientTimeout(total=_WITHIN_S)
            )
        )
        story = _Story(world, gateway, http, random.Random(seed))
        return await story.tell(pods, cut_off_for)


@dataclass
class _Story:
    world: ClusterWorld
    gateway: DataPlane
    http: aiohttp.ClientSession
    random: random.Random
    outcome: Outcome = field(default_factory=Outcome)
    running: dict[ReplicaId, tuple[Tenant, ObservedReplica]] = field(default_factory=dict)
    told: dict[str, ContainerId] = field(default_factory=dict)
    """What the gateway has, by address."""

    async def tell(self, pods: int, cut_off_for: int) -> Outcome:
        tenants = [self._tenant() for _ in range(2)]
        specs = {one.container_id: await spec_of(self.world, "serves") for one in tenants}
        self.world.nodes.answers = self._answer
        over = asyncio.Event()
        clients = [asyncio.create_task(self._client(tenants, over)) for _ in range(_CLIENTS)]
        try:
            while self.outcome.pods < pods:
                await self._tell_gateway(tenants)
                until = min(pods, self.outcome.pods + cut_off_for)
                while self.outcome.pods < until:
                    await self._next_pods(tenants, specs)
        finally:
            over.set()
            await asyncio.gather(*clients)
        return self.outcome

    def _tenant(self) -> Tenant:
        project_id = ids.new_project_id()
        return Tenant(ids.new_container_id(), project_id, new_key(project_id))

    async def _next_pods(self, tenants: list[Tenant], specs: dict[ContainerId, ReplicaSpec]) -> None:
        """Some end, and as many of whomever begin: at the addresses that these gave back."""
        room = len(ADDRESSES) - len(self.running)
        ending = self.random.sample(sorted(self.running), max(0, _PODS_AT_ONCE - room))
        await asyncio.gather(*(self._end(one) for one in ending))
        beginning = [self.random.choice(tenants) for _ in range(_PODS_AT_ONCE)]
        await asyncio.gather(*(self._begin(one, specs[one.container_id]) for one in beginning))

    async def _begin(self, tenant: Tenant, like: ReplicaSpec) -> None:
        spec = _as_of(like, tenant)
        await self.world.engine.start(spec)
        observed: ObservedReplica | None = None

        async def runs() -> bool:
            nonlocal observed
            observed = await self.world.engine.inspect(spec.replica_id)
            return observed is not None and observed.phase is ReplicaPhase.RUNNING

        await _until(runs, f"{spec.replica_id} runs")
        assert observed is not None
        assert observed.host is not None
        self.running[spec.replica_id] = tenant, observed
        self.outcome.pods += 1
        self.outcome.reused += self.told.get(observed.host, tenant.container_id) != tenant.container_id

    async def _end(self, replica_id: ReplicaId) -> None:
        _, observed = self.running.pop(replica_id)
        await self.world.engine.remove(observed.engine_id)

    async def _tell_gateway(self, tenants: list[Tenant]) -> None:
        """What serves now, as the rows would say it; then it is alone."""
        routes = {
            one.container_id: Route(one.container_id, one.project_id, self._servers(one)) for one in tenants
        }
        keys: dict[str, KeyEntry] = {one.key.entry.key_hash_hex: one.key.entry for one in tenants}
        authority = await self.world.doors.authority()
        with_doors = any(server.has_door for route in routes.values() for server in route.servers)
        await self.gateway.apply(GatewayTable(routes, keys, authority.certificate if with_doors else ""))
        self.told = {
            observed.host: tenant.container_id
            for tenant, observed in self.running.values()
            if observed.host is not None
        }
        self.outcome.cut_off += 1

    def _servers(self, tenant: Tenant) -> tuple[Server, ...]:
        return tuple(
            Server(
                observed.replica_id, observed.host or "", observed.host_port or 0, has_door=observed.has_door
            )
            for whose, observed in self.running.values()
            if whose is tenant
        )

    async def _client(self, tenants: list[Tenant], over: asyncio.Event) -> None:
        while not over.is_set():
            tenant = self.random.choice(tenants)
            headers = {**tenant.key.headers, MEANT_FOR: tenant.container_id}
            path = f"/c/{tenant.container_id}/v1/completions"
            try:
                async with self.http.post(path, data=b"a prompt", headers=headers) as answer:
                    await answer.read()
                    self.outcome.requests[answer.status] += 1
            except aiohttp.ClientError:
                # What it was at left the gateway's table, without a drain: it had ended long before.
                self.outcome.requests[CUT] += 1
            await asyncio.sleep(0.01)

    def _answer(self, pod: dict[str, Any], head: str) -> bytes:
        meant = _NAMED.search(head)
        assert meant is not None, "only the gateway asks"
        if meant[1] == pod["metadata"]["labels"][LABEL_CONTAINER]:
            self.outcome.own += 1
        else:
            self.outcome.foreign += 1
        return b"HTTP/1.1 200 X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@contextmanager
def _home() -> Iterator[Path]:
    # Not tmp_path: a socket's path must stay short, and the unprivileged worker must reach it.
    with tempfile.TemporaryDirectory(prefix="moor-gw-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def _as_of(spec: ReplicaSpec, tenant: Tenant) -> ReplicaSpec:
    values = {**vars(spec), "replica_id": ids.new_replica_id(), "container_id": tenant.container_id}
    return ReplicaSpec(**values)


async def _until(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    deadline_s = system_clock.monotonic() + _WITHIN_S
    while not await condition():
        assert system_clock.monotonic() < deadline_s, f"not within {_WITHIN_S:g} s: {what}"
        await asyncio.sleep(0.02)
