"""Everything against everything: the engine's whole list against the rows, now and then and after reconnects.

Passes look at one container each and are told when to; the sweep finds what nobody told them. It decides
nothing about known replicas: it makes their containers due.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

import structlog

from moorage.catalog.repository import replace_nodes
from moorage.containers.reconciler import repository
from moorage.containers.reconciler.doubt_repository import EXPECTED
from moorage.containers.reconciler.doubts import Doubts
from moorage.containers.repository import mark_due
from moorage.engines.base import Engine, ObservedReplica, ReplicaPhase
from moorage.kit.clock import Clock
from moorage.kit.database import Database
from moorage.reconcile.lease import Lease

log = structlog.get_logger()

SWEEP_EVERY_S = 15.0
REMOVE_UNKNOWN_AFTER = timedelta(minutes=15)
"""An object without a row means a database restored from a backup: give a person time to notice."""


@dataclass
class Sweep:
    database: Database
    engine: Engine
    clock: Clock
    doubts: Doubts
    fit_to: Callable[[int], None]
    """Called with the number of cores that there are."""
    _unknown_since_s: dict[str, float] = field(init=False, default_factory=dict)
    _hurried: asyncio.Event = field(init=False, default_factory=asyncio.Event)

    async def run(self, lease: Lease) -> None:
        while True:
            lease.check()
            self._hurried.clear()
            await self.engine.prepare()
            await self.refresh_nodes(lease)
            await self._compare(lease)
            await self.release_ports(lease)
            await self._pause()

    def hurry(self) -> None:
        """The engine's words were not heard for a moment."""
        self._hurried.set()

    async def _pause(self) -> None:
        waits = [
            asyncio.ensure_future(self._hurried.wait()),
            asyncio.ensure_future(self.clock.sleep(SWEEP_EVERY_S)),
        ]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def release_ports(self, lease: Lease) -> None:
        async with self.database.transaction() as session:
            await lease.guard(session)
            await repository.release_ports(session)

    async def refresh_nodes(self, lease: Lease) -> None:
        nodes = await self.engine.capacity()
        self.fit_to(sum(node.cpu_millis for node in nodes) // 1000)
        async with self.database.transaction() as session:
            await lease.guard(session)
            await replace_nodes(session, nodes)

    async def _compare(self, lease: Lease) -> None:
        there = {observed.replica_id: observed for observed in await self.engine.list_replicas()}
        async with self.database.reading() as session:
            rows = await repository.replicas_by_engine_presence(session)
            strangers = there.keys() - {row.id for row in rows}
            removed_rows = await repository.known_replica_ids(session, strangers)
        ended = {row.container_id for row in rows if row.state in EXPECTED and not _runs(there.get(row.id))}
        for some in repository.batches(sorted(ended)):
            async with self.database.transaction() as session:
                await lease.guard(session)
                await mark_due(session, some)
        for replica_id, observed in there.items():
            if replica_id in removed_rows:
                # Its row says removed: a start that was under way when its leader lost the lease.
                lease.check()
                await self.engine.remove(observed.engine_id)
                log.warning("stray_replica_removed", replica_id=replica_id)
        await self.doubts.end(there.keys(), lease)
        await self._remove_unknown(
            [there[replica_id] for replica_id in sorted(strangers - removed_rows)], lease
        )

    async def _remove_unknown(self, unknown: list[ObservedReplica], lease: Lease) -> None:
        now_s = self.clock.monotonic()
        self._unknown_since_s = {
            one.engine_id: self._unknown_since_s.get(one.engine_id, now_s) for one in unknown
        }
        for one in unknown:
            waited_s = now_s - self._unknown_since_s[one.engine_id]
            if waited_s >= REMOVE_UNKNOWN_AFTER.total_seconds():
                lease.check()
                await self.engine.remove(one.engine_id)
                log.warning("unknown_replica_removed", replica_id=one.replica_id)
            else:
                log.warning("unknown_replica_seen", replica_id=one.replica_id, waited_s=round(waited_s))


def _runs(observed: ObservedReplica | None) -> bool:
    return observed is not None and observed.phase is ReplicaPhase.RUNNING
