"""Makes HAProxy equal to a table, at run time and without losing a request.

Purpose: `apply(table)` is level-triggered and takes no other input; calling it again changes nothing more,
and each call moves draining servers one step on.
Invariants: the files are written before HAProxy is told, so a cold start never knows less; keys come first, so
that nothing else can hold up a revocation; a draining server is deleted only when it has no request; a slot
gets a new owner only when it is empty in every worker.
When it fails: the picture of HAProxy is thrown away and the next call reads it back. HAProxy goes on serving.
"""

import asyncio
from collections.abc import Mapping, Set
from dataclasses import dataclass
from pathlib import Path

import structlog

from moorage.gateway import render
from moorage.gateway.changes import Changes
from moorage.gateway.haproxy import Workers
from moorage.gateway.layout import Layout, ServerState, place, without_departing
from moorage.gateway.process import HaproxyProcess
from moorage.gateway.render import GatewayConfig
from moorage.gateway.statefiles import StateFiles, health_paths_from, keys_from, routes_from
from moorage.gateway.table import GatewayTable
from moorage.gateway.workers import AllWorkers
from moorage.kit.clock import Clock, system_clock
from moorage.kit.ids import ReplicaId

logger = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Applied:
    enabled: frozenset[ReplicaId]
    """Take requests now."""
    draining: Mapping[ReplicaId, int]
    """Take no new ones; the requests still in flight, over all workers."""
    removed: frozenset[ReplicaId]
    """Of the table's draining replicas and of those that left the table: the ones that no worker can reach any more."""
    changes: int
    """Commands that changed something; 0 when HAProxy was as wanted."""


class DataPlane:
    def __init__(
        self,
        config: GatewayConfig,
        home: Path,
        run_dir: Path,
        *,
        initial_slots: int = 64,
        clock: Clock = system_clock,
    ) -> None:
        self._config = config
        self._initial_slots = initial_slots
        self._clock = clock
        self._files = StateFiles(config.state_dir)
        self._persisted: Layout | None = None
        self._live: Layout | None = None
        self._live_pid: int | None = None
        self._lock = asyncio.Lock()
        self.process = HaproxyProcess(home, run_dir, config.stats_socket, clock=clock)
        self._all_workers = AllWorkers(self.process)

    async def start(self) -> None:
        """Adopt the running HAProxy with all it holds, or start one with the state of the files."""
        async with self._lock:
            await self._start()

    def alive(self) -> bool:
        return self.process.alive()

    async def stop(self) -> None:
        async with self._lock:
            self._live = None
            await self.process.stop()

    async def apply(self, table: GatewayTable) -> Applied:
        async with self._lock:
            live, self._live = self._live, None
            # Kept only when all went well: after a failure or a cancellation nobody knows which command arrived.
            applied, self._live = await self._apply(table, live)
            return applied

    async def in_flight(self) -> Mapping[ReplicaId, int]:
        """Requests per replica, over the current worker and those that a reload left to finish."""
        return (await self._all_workers.in_flight(await self.process.master.workers())).total

    async def _start(self) -> None:
        if not self.process.alive():
            self._persisted = None
            self._persist(self._files.read(self._initial_slots) or Layout(self._initial_slots))
        adopted = await self.process.adopt_or_start(self._config.state_dir / render.CONFIG_FILE)
        info = await self.process.worker.info()
        if adopted and info.get("description") != render.fingerprint(self._config):
            # It was started with other settings, or by a version with other rules.
            self._persist(await self._read_live())
            await self.process.reload()
        self._live = await self._read_live()

    async def _apply(self, table: GatewayTable, live: Layout | None) -> tuple[Applied, Layout]:
        if not self.process.alive():
            logger.warning("haproxy_is_gone")
            await self._start()
            live = self._live
        workers = await self.process.master.workers()
        if live is None or self._live_pid != workers.current_pid:
            live = await self._read_live()
        before = {replica_id for _, replica_id in live.servers}

        target = await self._place(table, live, workers)
        self._persist(target)
        changes = self._changes(workers)
        live = await changes.keys(live, target)
        if target.slots > live.slots:
            logger.info("gateway_pool_grows", slots=target.slots)
            await self.process.reload()
            live = await self._read_live()
            workers = await self.process.master.workers()
            target = await self._place(table, live, workers)
            changes = self._changes(workers, count=changes.count + 1)
        live = await changes.servers_and_routes(live, target)

        total: Mapping[ReplicaId, int] = {}
        if workers.old_pids or any(placed.state is not ServerState.READY for placed in live.servers.values()):
            in_flight = await self._all_workers.in_flight(workers)
            live, total = await changes.finish_drains(live, in_flight), in_flight.total
        self.process.trim_log()
        return _applied(table, live, before, total, changes.count), live

    async def _place(self, table: GatewayTable, live: Layout, workers: Workers) -> Layout:
        target = place(table, live, frozenset())
        held = {placement.slot for placement in live.routes.values()}
        if all(placement.slot in held for placement in target.routes.values() if placement.slot is not None):
            return target
        # Somebody needs another slot: one that is empty everywhere.
        return place(table, live, await self._all_workers.busy_slots(workers))

    def _changes(self, workers: Workers, *, count: int = 0) -> Changes:
        changes = Changes(self._config, self.process.worker, self._all_workers, workers, self._clock)
        changes.count = count
        return changes

    def _persist(self, layout: Layout) -> None:
        layout = without_departing(layout)
        if layout != self._persisted:
            self._files.write(render.render_files(self._config, layout))
            self._persisted = layout

    async def _read_live(self) -> Layout:
        worker, path_of = self.process.worker, self._config.map_path
        layout = Layout(
            slots=max(await worker.slots()),
            routes=routes_from(await worker.map_entries(path_of(render.ROUTES_MAP))),
            servers=await worker.servers(),
            health_paths=health_paths_from(await worker.map_entries(path_of(render.HEALTH_MAP))),
            keys=keys_from(await worker.map_entries(path_of(render.KEYS_MAP))),
        )
        self._live_pid = await worker.pid()
        return layout


def _applied(
    table: GatewayTable,
    live: Layout,
    before: Set[ReplicaId],
    in_flight: Mapping[ReplicaId, int],
    changes: int,
) -> Applied:
    listed = [server for route in table.routes.values() for server in route.servers]
    draining = {server.replica_id for server in listed if server.draining}
    departing = draining | (before - {server.replica_id for server in listed})
    present = {name for _, name in live.servers}
    unfinished = {name for name in departing if name in present or in_flight.get(name, 0) > 0}
    return Applied(
        enabled=frozenset(n for (_, n), placed in live.servers.items() if placed.state is ServerState.READY),
        draining={name: in_flight.get(name, 0) for name in unfinished},
        removed=frozenset(departing - unfinished),
        changes=changes,
    )
