"""Which container sits in which slot: the table as HAProxy can hold it. Pure.

HAProxy cannot make a backend at run time, so the configuration declares a pool of empty ones, the
*slots*. A container with servers occupies one; its route names it. The live state and the wanted state
are both a `Layout`; `place` makes the second out of the table and the first, moving as little as possible.
"""

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from enum import StrEnum

from moorage.gateway.table import (
    USUAL_LIMITS,
    Canary,
    GatewayTable,
    KeyEntry,
    Route,
    Server,
    TrafficLimits,
    check_certificates,
    check_health_path,
    check_max_concurrency,
    check_project_id,
)
from moorage.kit.ids import ContainerId, ProjectId, ReplicaId

ServerKey = tuple[int, ReplicaId]
"""A server is addressed by its slot and its replica's id."""

MAX_SLOTS = 100_000
MAX_LIMIT_DIVISOR = 1_000_000


class ServerState(StrEnum):
    READY = "ready"
    DRAIN = "drain"
    MAINTENANCE = "maint"
    """Being added or being removed: it gets nothing at all."""


@dataclass(frozen=True)
class Placement:
    project_id: ProjectId
    slot: int | None
    """None: not running, answered by the gateway itself."""
    limits: TrafficLimits = field(default_factory=TrafficLimits)
    serves_v1: bool = False
    asleep: bool = False
    """Without a slot: its requests are held."""
    canary: Canary | None = None

    def __post_init__(self) -> None:
        check_project_id(self.project_id)
        if self.slot is not None:
            check_slot(self.slot)


@dataclass(frozen=True)
class PlacedServer:
    slot: int
    server: Server
    max_concurrency: int
    checked: bool
    state: ServerState

    def __post_init__(self) -> None:
        check_slot(self.slot)
        check_max_concurrency(self.max_concurrency)

    @property
    def key(self) -> ServerKey:
        return self.slot, self.server.replica_id

    def same_address(self, other: "PlacedServer") -> bool:
        """Whether one can become the other at run time, without being deleted and added anew."""
        return self._connection == other._connection

    @property
    def _connection(self) -> tuple[str, int, bool, bool]:
        return self.server.host, self.server.port, self.server.has_door, self.checked


@dataclass(frozen=True)
class Layout:
    slots: int
    routes: Mapping[ContainerId, Placement] = field(default_factory=dict)
    servers: Mapping[ServerKey, PlacedServer] = field(default_factory=dict)
    health_paths: Mapping[int, str] = field(default_factory=dict)
    """By slot; only of containers that have one."""
    keys: Mapping[str, KeyEntry] = field(default_factory=dict)
    door_authorities: str = ""
    """As in the table. HAProxy reads them when it starts, and never again: others take a reload."""
    limit_divisor: int = 1
    """Which part of a rate this gateway lets in where nothing else was agreed on (`limit_sharing`)."""

    def __post_init__(self) -> None:
        check_certificates(self.door_authorities)
        if not 1 <= self.slots <= MAX_SLOTS:
            raise ValueError(f"{self.slots} slots are not between 1 and {MAX_SLOTS}")
        check_limit_divisor(self.limit_divisor)
        for slot, path in self.health_paths.items():
            check_slot(slot)
            check_health_path(path)


def place(table: GatewayTable, live: Layout, busy_slots: Set[int]) -> Layout:
    """The layout that serves `table`. Containers keep their slot; a new one gets a slot that holds no
    server and is not in `busy_slots` (requests of its former owner are still there). When none is free the
    result has more slots than `live`, which takes a reload."""
    occupied = {slot for slot, _ in live.servers} | busy_slots
    occupied |= {placement.slot for placement in live.routes.values() if placement.slot is not None}
    free = (slot for slot in _count_up() if slot not in occupied)
    where = _slots_of_replicas(live)
    routed = {placement.slot for placement in live.routes.values()}

    routes: dict[ContainerId, Placement] = {}
    servers: dict[ServerKey, PlacedServer] = {}
    health_paths: dict[int, str] = {}
    taken: set[int] = set()
    for container_id in sorted(table.routes):
        route = table.routes[container_id]
        slot = None
        if any(not server.draining for server in route.servers):
            slot = _current_slot(route, live, where, routed, taken)
            slot = next(free) if slot is None else slot
            taken.add(slot)
            if route.health_path is not None:
                health_paths[slot] = route.health_path
        asleep = slot is None and route.asleep
        # What is held is checked and sent on as what is served.
        is_served = slot is not None or asleep
        limits = route.limits if is_served else USUAL_LIMITS
        canary = _canary(route) if slot is not None else None
        routes[container_id] = Placement(
            route.project_id, slot, limits, is_served and route.serves_v1, asleep, canary
        )
        for placed in _placed_servers(route, slot, live, where, canary):
            servers[placed.key] = placed

    slots = live.slots
    while taken and max(taken) > slots:
        slots *= 2
    return Layout(
        slots, routes, servers, health_paths, dict(table.keys), table.door_authorities, live.limit_divisor
    )


def place_changed(table: GatewayTable, live: Layout, settled: GatewayTable) -> Layout:
    """What `place` answers for the whole table, if `live` serves the settled one and nothing else: containers whose
    route is the same stay where they are, so only the others have to be placed."""
    changed = {name for name, route in table.routes.items() if settled.routes.get(name) != route}
    touched = changed | (settled.routes.keys() - table.routes.keys())
    replicas = {
        server.replica_id
        for name in touched
        for routes in (settled.routes, table.routes)
        for server in (routes[name].servers if name in routes else ())
    }
    slots = {live.routes[name].slot for name in touched if name in live.routes}
    placed = place(
        GatewayTable({name: table.routes[name] for name in changed}, table.keys, table.door_authorities),
        live,
        frozenset(),
    )
    kept_routes = {name: route for name, route in live.routes.items() if name not in touched}
    kept_servers = {key: server for key, server in live.servers.items() if key[1] not in replicas}
    kept_paths = {slot: path for slot, path in live.health_paths.items() if slot not in slots}
    return Layout(
        placed.slots,
        kept_routes | dict(placed.routes),
        kept_servers | dict(placed.servers),
        kept_paths | dict(placed.health_paths),
        placed.keys,
        placed.door_authorities,
        live.limit_divisor,
    )


def with_canaries(layout: Layout) -> Layout:
    """As a worker tells it, a server that rests and one on trial have the same weight. The routes know who is on trial."""
    on_trial = {
        (placement.slot, replica_id)
        for placement in layout.routes.values()
        if placement.slot is not None and placement.canary is not None
        for replica_id in placement.canary.replicas
    }
    servers = dict(layout.servers)
    for key in on_trial & servers.keys():
        placed = servers[key]
        servers[key] = replace(placed, server=replace(placed.server, on_trial=True))
    return replace(layout, servers=servers)


def without_departing(layout: Layout) -> Layout:
    """What a fresh worker should begin with: it has no requests that a draining server would have to finish."""
    ready = {key: placed for key, placed in layout.servers.items() if placed.state is ServerState.READY}
    return replace(layout, servers=ready)


def check_slot(slot: int) -> int:
    if not isinstance(slot, int) or isinstance(slot, bool) or not 1 <= slot <= MAX_SLOTS:
        raise ValueError(f"{slot!r} is not a slot")
    return slot


def check_limit_divisor(value: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_LIMIT_DIVISOR:
        raise ValueError(f"{value!r} is not a number to divide limits by")
    return value


def _count_up() -> Iterator[int]:
    yield from range(1, MAX_SLOTS + 1)
    raise ValueError(f"more than {MAX_SLOTS} containers do not fit into one gateway")


def _slots_of_replicas(live: Layout) -> dict[ReplicaId, list[int]]:
    where: dict[ReplicaId, list[int]] = {}
    for slot, replica_id in live.servers:
        where.setdefault(replica_id, []).append(slot)
    return where


def _current_slot(
    route: Route,
    live: Layout,
    where: Mapping[ReplicaId, list[int]],
    routed: Set[int | None],
    taken: Set[int],
) -> int | None:
    """Where the container is already: where its route points, else where one of its servers is."""
    present = live.routes.get(route.container_id)
    if present is not None and present.slot is not None and present.slot not in taken:
        return present.slot
    for server in route.servers:
        for slot in where.get(server.replica_id, []):
            if slot not in taken and slot not in routed:
                return slot
    return None


def _canary(route: Route) -> Canary | None:
    """None where nobody else is there for the other requests: then what is on trial gets all of them."""
    ready = [server for server in route.servers if not server.draining]
    on_trial = tuple(sorted(server.replica_id for server in ready if server.on_trial))
    if not on_trial or not route.canary_percent or len(on_trial) == len(ready):
        return None
    return Canary(route.canary_percent, on_trial)


def _placed_servers(
    route: Route,
    slot: int | None,
    live: Layout,
    where: Mapping[ReplicaId, list[int]],
    canary: Canary | None,
) -> Iterator[PlacedServer]:
    for server in route.servers:
        if server.draining:
            # One that is not there any more has finished; it must not be added only to be drained again.
            for held_in in where.get(server.replica_id, []):
                present = live.servers[held_in, server.replica_id]
                yield PlacedServer(
                    held_in, present.server, present.max_concurrency, present.checked, ServerState.DRAIN
                )
        elif slot is not None:
            checked = route.health_path is not None
            server = replace(server, on_trial=canary is not None and server.replica_id in canary.replicas)
            yield PlacedServer(slot, server, route.max_concurrency, checked, ServerState.READY)
