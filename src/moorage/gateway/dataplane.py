"""Makes HAProxy equal to a table, at run time and without losing a request.

Purpose: `apply(table)` is level-triggered and takes no other input; calling it again changes nothing more,
and each call moves draining servers one step on.
Invariants: the files are written before HAProxy is told, so a cold start never knows less; keys come first, so
that nothing else can hold up a revocation, and what runs with a revoked one is ended next; a draining server is
deleted only when it has no request; a slot gets a new owner only when it is empty in every worker.
When it fails: the picture of HAProxy is thrown away and the next call reads it back. HAProxy goes on serving.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from pathlib import Path

import structlog

from moorage.gateway import render
from moorage.gateway.answers_read import SlotAnswers, slot_answers
from moorage.gateway.certificates import Certificates
from moorage.gateway.changes import Changes
from moorage.gateway.config import GatewayConfig
from moorage.gateway.endpoint_rules import CANARIES_MAP, HEALTH_MAP, KEYS_MAP, ROUTES_MAP
from moorage.gateway.haproxy import Workers
from moorage.gateway.key_streams import KeyStreams
from moorage.gateway.layout import (
    Layout,
    ServerKey,
    ServerState,
    place,
    place_changed,
    with_canaries,
    without_departing,
)
from moorage.gateway.liveness import Health, Liveness
from moorage.gateway.map_values import keys_from, routes_from
from moorage.gateway.process import HaproxyProcess
from moorage.gateway.rate_rules import LIMITS_MAP
from moorage.gateway.runtime_socket import HaproxyError
from moorage.gateway.statefiles import StateFiles, health_paths_from
from moorage.gateway.table import GatewayTable
from moorage.gateway.usage import ContainerUse
from moorage.gateway.usage_reader import UsageReader
from moorage.gateway.workers import AllWorkers, Leftovers, TotalLoad
from moorage.kit.clock import Clock, system_clock
from moorage.kit.ids import ContainerId, ReplicaId

logger = structlog.get_logger(__name__)

_ASK_ONE_BY_ONE_UP_TO = 50
"""Slots. More are asked for with all others in one command."""


@dataclass(frozen=True)
class Applied:
    enabled: frozenset[ReplicaId]
    """Take requests now."""
    draining: Mapping[ReplicaId, int]
    """Take no new ones; the requests still in flight, over all workers."""
    removed: frozenset[ReplicaId]
    """Of the table's draining replicas and of those that left the table: the ones that no worker can reach any more.
    So a replica that is neither enabled nor draining is gone, whoever restarted in between."""
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
        self.config = config
        self._initial_slots = initial_slots
        self._clock = clock
        self._files = StateFiles(config.state_dir)
        self._certificates = Certificates(config.certificates, run_dir / "certificates")
        self._persisted: Layout | None = None
        self._live: Layout | None = None
        self._live_pid: int | None = None
        self._unfinished: set[ReplicaId] = set()
        """Departing, as of the last pass: one that left the table meanwhile still deserves its `removed`."""
        self._settled: tuple[GatewayTable, Applied] | None = None
        """What was applied last, once there was nothing left to do for it."""
        self._lock = asyncio.Lock()
        self.process = HaproxyProcess(home, run_dir, config.stats_socket, clock=clock)
        self._all_workers = AllWorkers(config, self.process, clock)
        self._key_streams = KeyStreams(self._all_workers, clock)
        self._usage = UsageReader(self.process, config.stats_socket)
        self._liveness = Liveness(self.process.worker, config.health_interval_s, clock)

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

    async def health(self) -> Mapping[ReplicaId, Health]:
        """Of the replicas that fail their health checks; some of them get no new requests meanwhile."""
        async with self._lock:
            return await self._liveness.look(self._live) if self._live is not None else {}

    async def in_flight(self) -> Mapping[ReplicaId, int]:
        """Requests per replica, over the current worker and those that a reload left to finish."""
        return (await self._all_workers.load(await self.process.master.workers())).in_flight

    async def answers(self, replicas: Set[ReplicaId]) -> Mapping[int, SlotAnswers]:
        """By slot, of those that have one of these: what its servers answered, as far as the current worker has counted."""
        async with self._lock:
            live = self._live.servers if self._live is not None else {}
            slots = sorted({slot for slot, replica_id in live if replica_id in replicas})
            return {slot: slot_answers(await self.process.worker.whole_slot_stat(slot)) for slot in slots}

    async def limit_divisor(self) -> int:
        """As HAProxy has it."""
        async with self._lock:
            self._live = self._live or await self._read_live()
            return self._live.limit_divisor

    async def knows_no_key(self) -> bool:
        """So it can let nobody in."""
        async with self._lock:
            self._live = self._live or await self._read_live()
            return not self._live.keys

    async def divide_limits(self, divisor: int) -> None:
        """Lets in that part of every rate from now on, wherever no other share is set."""
        async with self._lock:
            live, self._live = self._live or await self._read_live(), None
            if divisor != live.limit_divisor:
                await self._persist(replace(live, limit_divisor=divisor))
                live = await self._changes(await self.process.master.workers()).limit_divisor(live, divisor)
            self._live = live

    async def usage(self) -> Mapping[ContainerId, ContainerUse]:
        """What each container did since the last call, exact across reloads and changes of owner. From the first call on:
        what was before is not known."""
        return await self._usage.read()

    async def _start(self) -> None:
        self._settled = None
        if not self.process.alive():
            self._usage.lost()
            self._persisted = None
            await self._persist(self._files.read(self._initial_slots) or Layout(self._initial_slots))
        certificates = self._certificates.digest()
        adopted = await self.process.adopt_or_start(self.config.state_dir / render.CONFIG_FILE)
        info = await self.process.worker.info()
        if adopted and info.get("description", "").split(" ")[0] != render.fingerprint(self.config):
            # It was started with other settings, or by a version with other rules.
            await self._persist(await self._read_live())
            await self._reload()
        if not adopted:
            self._certificates.note_served(certificates)
        self._live = await self._read_live()

    async def _apply(self, table: GatewayTable, live: Layout | None) -> tuple[Applied, Layout]:
        if not self.process.alive():
            logger.warning("haproxy_is_gone")
            await self._start()
            live = self._live
        if self._certificates.changed():
            await self._serve_new_certificates()
        workers = await self.process.master.workers()
        settled, self._settled = self._settled, None
        if live is None or self._live_pid != workers.current_pid:
            live, settled = await self._read_live(), None
        elif settled is not None and settled[0] == table and not workers.old_pids:
            # Nearly every pass: the agent comes by every two seconds, and with many keys a comparison is work.
            await self._key_streams.end_without_key(live.keys, workers, keys_changed=False)
            self._settled = settled
            return settled[1], live
        before = {replica_id for _, replica_id in live.servers}

        target = await self._place(table, live, workers, settled[0] if settled is not None else None)
        await self._persist(target)
        changes = self._changes(workers)
        keys_before = live.keys
        live = await changes.keys(live, target)
        changes.count += await self._key_streams.end_without_key(
            live.keys, workers, keys_changed=live.keys is not keys_before
        )
        if target.slots > live.slots or target.door_authorities != live.door_authorities:
            logger.info(
                "gateway_pool_grows" if target.slots > live.slots else "door_authorities_change",
                slots=target.slots,
            )
            await self._reload()
            live = await self._read_live()
            workers = await self.process.master.workers()
            target = await self._place(table, live, workers)
            changes = self._changes(workers, count=changes.count + 1)
        if target != live:
            await self._usage.before_owners_change(_owners(target))
            await self._liveness.before(target)
            live = await changes.servers_and_routes(live, target)

        load, leftovers = TotalLoad(), Leftovers()
        kept, draining = _replicas_of(table)
        if workers.old_pids:
            leftovers = await self._all_workers.let_go(kept, draining, workers)
            changes.count += leftovers.commands
        leaving = {
            slot
            for (slot, replica_id), placed in live.servers.items()
            if placed.state is not ServerState.READY or replica_id not in kept
        }
        if workers.old_pids or leaving:
            load = await self._load(leaving, workers)
            live = await changes.finish_drains(live, load)

        departing = (draining | before | self._unfinished | leftovers.cut_off | leftovers.reachable) - kept
        unfinished = departing & ({name for _, name in live.servers} | leftovers.reachable)
        self._unfinished = unfinished
        ready = [n for (_, n), placed in live.servers.items() if placed.state is ServerState.READY]
        applied = Applied(
            enabled=frozenset(ready),
            draining={name: load.in_flight.get(name, 0) for name in unfinished},
            removed=frozenset(departing - unfinished),
            changes=changes.count,
        )
        wanted = {key for key, placed in target.servers.items() if placed.state is ServerState.READY}
        if not workers.old_pids and len(ready) == len(live.servers) and live.servers.keys() == wanted:
            # Nothing is on its way any more, so the next pass would only find that out: for ten thousand routes that
            # takes longer than to change one.
            self._settled = table, replace(applied, changes=0)
        return applied, live

    async def _place(
        self, table: GatewayTable, live: Layout, workers: Workers, settled: GatewayTable | None = None
    ) -> Layout:
        """`settled` is the table that HAProxy serves exactly; then only what differs from it needs a place."""
        if settled is not None:
            target = place_changed(table, live, settled)
        else:
            target = place(table, live, frozenset())
        held = {placement.slot for placement in live.routes.values()}
        new = {placement.slot for placement in target.routes.values() if placement.slot is not None} - held
        # Somebody needs another slot: one that is empty everywhere.
        if not new or await self._are_empty(new, live.slots, workers):
            return target
        return place(table, live, await self._all_workers.busy_slots(workers))

    async def _are_empty(self, slots: Set[int], last: int, workers: Workers) -> bool:
        """Whether these slots, of which those behind the last are not there yet, have no request. False also when
        that is not known of just these."""
        present = {slot for slot in slots if slot <= last}
        if workers.old_pids or len(present) > _ASK_ONE_BY_ONE_UP_TO:
            return False
        return all([(await self.process.worker.load(slot)).slots.get(slot) == 0 for slot in sorted(present)])

    async def _load(self, slots: Set[int], workers: Workers) -> TotalLoad:
        """At least of these slots. Of all of them when there are many, or a reload has left workers behind: an answer
        about ten thousand slots takes half a second to make and to read."""
        if workers.old_pids or len(slots) > _ASK_ONE_BY_ONE_UP_TO:
            return await self._all_workers.load(workers)
        current: dict[ServerKey, int] = {}
        in_flight: Counter[ReplicaId] = Counter()
        for slot in sorted(slots):
            for key, requests in (await self.process.worker.load(slot)).servers.items():
                current[key] = requests
                in_flight[key[1]] += requests
        return TotalLoad(current, dict(in_flight))

    def _changes(self, workers: Workers, *, count: int = 0) -> Changes:
        changes = Changes(self.config, self.process.worker, self._all_workers, workers, self._clock)
        changes.count = count
        return changes

    async def _persist(self, layout: Layout) -> None:
        layout, before = without_departing(layout), self._persisted
        if layout == before:
            return
        # Tens of thousands of keys are not spelled out because a route changed; and by a thread, because they would hold up
        # whatever else there is to do.
        same_keys = before is not None and before.keys == layout.keys
        keys_text = self._files.written(KEYS_MAP) if same_keys else None
        await asyncio.to_thread(self._write, layout, keys_text)
        self._persisted = layout

    def _write(self, layout: Layout, keys_text: str | None) -> None:
        self._files.write(render.render_files(self.config, layout, keys_text=keys_text))

    async def _read_live(self) -> Layout:
        worker, path_of = self.process.worker, self.config.map_path
        layout = Layout(
            slots=max((await worker.load()).slots),
            routes=routes_from(
                await worker.map_entries(path_of(ROUTES_MAP)),
                await worker.map_entries(path_of(CANARIES_MAP), may_be_absent=True),
            ),
            servers=await worker.servers(),
            health_paths=health_paths_from(await worker.map_entries(path_of(HEALTH_MAP))),
            keys=keys_from(await worker.map_entries(path_of(KEYS_MAP))),
            door_authorities=await self._live_authorities(),
            limit_divisor=render.limit_divisor_from(
                await worker.map_entries(path_of(LIMITS_MAP), may_be_absent=True)
            ),
        )
        layout = with_canaries(layout)
        pid = await worker.pid()
        if pid != self._live_pid:
            await self._liveness.trust_all()
        self._live_pid = pid
        self._usage.owned_by(pid, _owners(layout))
        return layout

    async def _live_authorities(self) -> str:
        """Whom the running worker trusts, as far as it is who stands in the files; else nobody, and a reload follows."""
        _, _, digest = (await self.process.worker.info()).get("description", "").partition(" ")
        written = self._files.authorities()
        return written if render.digest_of(written) == digest else ""

    async def _serve_new_certificates(self) -> None:
        """A file that HAProxy refuses is not tried again until it changes; the old one is served until then."""
        digest = self._certificates.digest()
        try:
            await self._reload()
        except HaproxyError as exc:
            logger.error("certificate_refused", error=str(exc))
        else:
            logger.info("certificates_changed")
        self._certificates.note_served(digest)

    async def _reload(self) -> None:
        async with self._usage.across_reload():
            await self.process.reload()


def _owners(layout: Layout) -> dict[int, ContainerId]:
    return {
        placement.slot: container_id
        for container_id, placement in layout.routes.items()
        if placement.slot is not None
    }


def _replicas_of(table: GatewayTable) -> tuple[set[ReplicaId], set[ReplicaId]]:
    """Those that stay and those that drain."""
    servers = [server for route in table.routes.values() for server in route.servers]
    return (
        {server.replica_id for server in servers if not server.draining},
        {server.replica_id for server in servers if server.draining},
    )
