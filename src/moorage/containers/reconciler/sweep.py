"""Everything against everything: each engine's whole list against its rows, now and then and after reconnects.

Passes look at one container each and are told when to; the sweep finds what nobody told them. It decides
nothing about known replicas: it makes their containers due.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import structlog

from moorage.catalog.repository import follow_intakes, nodes_of, replace_nodes_of
from moorage.containers.reconciler import repository
from moorage.containers.reconciler.doubt_repository import EXPECTED, Doubt, list_doubts
from moorage.containers.reconciler.doubts import Doubts
from moorage.containers.reconciler.repository import KnownReplica
from moorage.containers.repository import mark_due
from moorage.engines.base import NodeCapacity, ObservedReplica, ReplicaPhase
from moorage.engines.engines import Engines
from moorage.kit.clock import Clock
from moorage.kit.database import Database
from moorage.kit.ids import ReplicaId
from moorage.kit.together import Together
from moorage.machines.intakes import note_intakes
from moorage.reconcile.lease import Lease
from moorage.reconcile.watches import Pauses

log = structlog.get_logger()

SWEEP_EVERY_S = 15.0
REMOVE_UNKNOWN_AFTER = timedelta(minutes=15)
"""An object without a row means a database restored from a backup: give a person time to notice."""


@dataclass(frozen=True)
class _Rows:
    """Of one engine."""

    replicas: Sequence[KnownReplica]
    doubts: Sequence[Doubt]


@dataclass
class Sweep:
    database: Database
    engines: Engines
    clock: Clock
    doubts: Doubts
    described: Callable[[str, Sequence[NodeCapacity]], None]
    """Called with an engine's name and what it says about its machines, before that is written down."""
    _unknown_since_s: dict[str, dict[str, float]] = field(init=False, default_factory=dict)
    """By engine, and by its own id of the object."""
    _described: Together[str, tuple[Sequence[NodeCapacity], Lease], None] = field(init=False)
    """By engine: its machines, to be written down."""
    _rows: Together[str, None, _Rows] = field(init=False)
    """By engine."""
    _pauses: Pauses = field(init=False)

    def __post_init__(self) -> None:
        self._described = Together(self._write_nodes, self.clock, self.engines.pause_s)
        self._rows = Together(self._read_rows, self.clock, self.engines.pause_s)
        self._pauses = Pauses(self.clock)

    async def run(self, name: str, lease: Lease) -> None:
        """Of one engine."""
        while True:
            lease.check()
            self._pauses.begin_round(name)
            await self.engines.of(name).prepare()
            # First what does not belong there: a machine that nobody knew yet takes replicas as soon as it is described.
            await self._compare(name, lease)
            await self.refresh_nodes(name, lease)
            pause_s = self.engines.turn_in_s(name, SWEEP_EVERY_S, self.clock.monotonic())
            await self._pauses.rest(name, pause_s)

    def hurry(self, name: str) -> None:
        """The engine's words were not heard for a moment."""
        self._pauses.cut_short(name)

    async def run_ports(self, lease: Lease) -> None:
        while True:
            await self.release_ports(lease)
            await self.clock.sleep(SWEEP_EVERY_S)

    async def release_ports(self, lease: Lease) -> None:
        async with self.database.transaction() as session:
            await lease.guard(session)
            await repository.release_ports(session)

    async def refresh_nodes(self, name: str, lease: Lease) -> None:
        nodes = await self.engines.of(name).capacity()
        self.described(name, nodes)
        await self._described.ask(name, (nodes, lease))

    async def _write_nodes(
        self, described: Mapping[str, tuple[Sequence[NodeCapacity], Lease]]
    ) -> Mapping[str, None]:
        async with self.database.transaction() as session:
            await next(lease for _, lease in described.values()).guard(session)  # it is everybody's
            new = await replace_nodes_of(session, {name: nodes for name, (nodes, _) in described.items()})
            if new:  # At once: where one was paused or drained before anybody knew it, nothing is placed.
                await note_intakes(session, await nodes_of(session, new))
            for name in sorted(described):
                if self.engines.places(name):
                    await follow_intakes(session, name, described[name][0])
        return dict.fromkeys(described)

    async def _read_rows(self, engines: Mapping[str, None]) -> Mapping[str, _Rows]:
        async with self.database.reading() as session:
            replicas = await repository.replicas_by_engine_presence(session, engines)
            doubts = await list_doubts(session)
        return {
            name: _Rows(replicas[name], [one for one in doubts if one.engine == name]) for name in engines
        }

    async def _compare(self, name: str, lease: Lease) -> None:
        engine = self.engines.of(name)
        there = {observed.replica_id: observed for observed in await engine.list_replicas()}
        known = await self._rows.ask(name, None)
        rows = known.replicas
        strangers = there.keys() - {row.id for row in rows}
        removed_rows = await self._known(strangers) if strangers else set()
        ended = {
            row.container_id
            for row in rows
            if row.state in EXPECTED and not _runs(there.get(ReplicaId(row.id)))
        }
        for some in repository.batches(sorted(ended)):
            async with self.database.transaction() as session:
                await lease.guard(session)
                await mark_due(session, some)
        for replica_id, observed in there.items():
            # It may have gone between the list and the rows.
            if replica_id in removed_rows and await engine.inspect(replica_id) is not None:
                # Its row says removed: a start that was under way when its leader lost the lease, or its machine was lost.
                lease.check()
                await engine.remove(observed.engine_id)
                log.warning("stray_replica_removed", replica_id=replica_id, engine=name)
        await self.doubts.end(name, known.doubts, there.keys(), lease)
        await self._remove_unknown(
            name, [there[replica_id] for replica_id in sorted(strangers - removed_rows)], lease
        )

    async def _known(self, replica_ids: Collection[str]) -> set[str]:
        async with self.database.reading() as session:
            return await repository.known_replica_ids(session, replica_ids)

    async def _remove_unknown(self, name: str, unknown: list[ObservedReplica], lease: Lease) -> None:
        now_s, before = self.clock.monotonic(), self._unknown_since_s.get(name, {})
        since_s = {one.engine_id: before.get(one.engine_id, now_s) for one in unknown}
        self._unknown_since_s[name] = since_s
        for one in unknown:
            waited_s = now_s - since_s[one.engine_id]
            if waited_s >= REMOVE_UNKNOWN_AFTER.total_seconds():
                lease.check()
                await self.engines.of(name).remove(one.engine_id)
                log.warning("unknown_replica_removed", replica_id=one.replica_id)
            else:
                log.warning("unknown_replica_seen", replica_id=one.replica_id, waited_s=round(waited_s))


def _runs(observed: ObservedReplica | None) -> bool:
    return observed is not None and observed.phase is ReplicaPhase.RUNNING
