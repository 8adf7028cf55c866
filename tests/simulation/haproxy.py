"""A HAProxy without sockets: what `gateway/dataplane.py` keeps equal to a table, and requests in flight.

It outlives its agent, as the real one does. Server before route, drain before delete, nothing deleted that has a
request: as the real data plane promises, so that the agent and everybody behind it can be run against it.
"""

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from moorage.gateway.dataplane import Applied
from moorage.gateway.liveness import Health
from moorage.gateway.table import GatewayTable, KeyEntry
from moorage.gateway.usage import ContainerUse
from moorage.kit.ids import ContainerId, ReplicaId
from tests.simulation.story import Story

_UNREACHED = Health("timeout", None, 0)


@dataclass
class Held:
    container_id: str
    host: str
    port: int
    draining: bool = False
    busy_until_s: float = 0.0
    """The last of its requests ends then."""
    in_flight: int = 0
    """Where somebody asks (`endpoint.py`): how many are under way."""


@dataclass
class Haproxy:
    now_s: Callable[[], float]
    chance: random.Random
    story: Story
    servers: dict[ReplicaId, Held] = field(default_factory=dict)
    failing: dict[ReplicaId, Health] = field(default_factory=dict)
    reaches: Callable[[str, int], bool] = lambda address, port: True
    """Whether anybody answers it there."""
    routes: frozenset[ContainerId] = frozenset()
    """What it answers for, if only with 503; anything else is 404."""
    keys: frozenset[str] = frozenset()
    """Hashes of those that it lets in."""
    asleep: frozenset[ContainerId] = frozenset()
    """What is asked of these goes to whoever holds it."""
    projects: dict[ContainerId, str] = field(default_factory=dict)
    entries: dict[str, KeyEntry] = field(default_factory=dict)
    """By the hash of a key."""
    is_asked: bool = False
    """Requests are simulated one by one, and what drains is busy for as long as they take."""
    requests: Counter[str] = field(default_factory=Counter)
    """By container: all that ever reached a server of it."""

    def servers_of(self, container_id: str) -> list[ReplicaId]:
        """That take its requests."""
        return sorted(name for name, held in self.enabled().items() if held.container_id == container_id)

    def enabled(self) -> dict[ReplicaId, Held]:
        return {name: held for name, held in self.servers.items() if not held.draining}


@dataclass
class SimulatedDataPlane:
    """As one agent sees it; implements what the agent uses of `DataPlane`."""

    haproxy: Haproxy
    fails: Callable[[], bool]
    _counted: Counter[str] | None = None
    """When somebody asked last what was used. What was before the first time is somebody else's to tell."""

    async def start(self) -> None:
        """It runs already, or is started with what it held: the files are written before it is told."""

    def alive(self) -> bool:
        return True

    async def health(self) -> Mapping[ReplicaId, Health]:
        held = self.haproxy.enabled()
        unreached = {
            name: _UNREACHED for name, one in held.items() if not self.haproxy.reaches(one.host, one.port)
        }
        return unreached | {name: health for name, health in self.haproxy.failing.items() if name in held}

    async def usage(self) -> Mapping[ContainerId, ContainerUse]:
        proxy, before = self.haproxy, self._counted
        in_flight: Counter[str] = Counter()
        for held in proxy.servers.values():
            in_flight[held.container_id] += held.in_flight
        counted = self._counted = Counter(proxy.requests)
        since = counted - before if before is not None else Counter[str]()
        names = sorted({name for name, count in (*in_flight.items(), *since.items()) if count})
        return {ContainerId(name): ContainerUse(in_flight[name], 0, since[name], 0, 0) for name in names}

    async def apply(self, table: GatewayTable) -> Applied:
        if self.fails():
            raise OSError("HAProxy does not answer")
        proxy, now_s = self.haproxy, self.haproxy.now_s()
        before = set(proxy.servers)
        changes = len(proxy.routes ^ table.routes.keys())
        proxy.routes = frozenset(table.routes)
        proxy.keys, proxy.entries = frozenset(table.keys), dict(table.keys)
        proxy.projects = {name: route.project_id for name, route in table.routes.items()}
        wanted = {
            server.replica_id: (route.container_id, server)
            for route in table.routes.values()
            for server in route.servers
        }
        for name in sorted(before - wanted.keys()):
            del proxy.servers[name]  # Out of the table: at once, requests and all.
            changes += 1
        for name, (container_id, server) in wanted.items():
            held = proxy.servers.get(name)
            if server.draining:
                if held is not None and not held.draining:
                    held.draining = True
                    if not proxy.is_asked:
                        held.busy_until_s = now_s + proxy.chance.choice((0.0, 0.0, 0.5, 8.0, 100.0))
                    changes += 1
            elif held is not None and proxy.is_asked and (held.host, held.port) == (server.host, server.port):
                changes += held.draining
                held.draining = False
            elif held is None or (held.host, held.port) != (server.host, server.port) or held.draining:
                proxy.servers[name] = Held(container_id, server.host, server.port)
                changes += 1
        for name, held in list(proxy.servers.items()):
            if held.draining and held.busy_until_s <= now_s and not held.in_flight:
                del proxy.servers[name]
                changes += 1
        draining = {name: held.in_flight or 1 for name, held in proxy.servers.items() if held.draining}
        served = {held.container_id for held in proxy.enabled().values()}
        proxy.asleep = frozenset(
            name for name, route in table.routes.items() if route.asleep and name not in served
        )
        departing = before | {name for name, (_, server) in wanted.items() if server.draining}
        return Applied(
            enabled=frozenset(proxy.enabled()),
            draining=draining,
            removed=frozenset(departing - proxy.servers.keys()),
            changes=changes,
        )
