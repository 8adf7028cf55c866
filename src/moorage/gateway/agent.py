"""Keeps one HAProxy in step with Postgres, and tells Postgres what that HAProxy holds.

Purpose: routes, keys and servers at this gateway are what the rows say; the rows say what it serves.
Invariants: HAProxy is changed only through `DataPlane`; without Postgres nothing is changed and HAProxy goes on.
When it fails: it tries again in a moment. When HAProxy dies it is started again, from its files if need be.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from moorage.containers.channels import ROUTES
from moorage.gateway import repository
from moorage.gateway.dataplane import Applied, DataPlane
from moorage.gateway.liveness import Health
from moorage.gateway.repository import Fingerprint, RouteReport
from moorage.gateway.table import GatewayTable
from moorage.identity.api_keys.channels import API_KEYS
from moorage.kit.clock import Clock
from moorage.kit.database import Database, Listener
from moorage.kit.errors import MoorageError
from moorage.kit.ids import GatewayId, ReplicaId, new_gateway_id
from moorage.kit.whole_files import write_whole

log = structlog.get_logger()

COMPARE_EVERY_S = 2.0
"""In case a notification was lost; also how often HAProxy is looked at and the gateway is seen alive."""
REPORT_ALL_EVERY_S = 15.0
"""Between these, only differences are reported: only this process writes those rows, so it knows what they say."""
DRAIN_POLL_S = 0.1


class ForgottenError(MoorageError):
    code = "gateway_forgotten"


async def _nothing() -> None:
    pass


@dataclass
class GatewayAgent:
    gateway_id: GatewayId
    database: Database
    listener: Listener
    dataplane: DataPlane
    clock: Clock
    on_applied: Callable[[GatewayTable, Applied], None] = lambda _table, _applied: None
    """Told what HAProxy serves from now on."""
    on_registered: Callable[[], Awaitable[None]] = _nothing
    """Before anything is read: what has to be said of a gateway that was not there before."""
    _changed: asyncio.Event = field(init=False, default_factory=asyncio.Event)
    _named: set[str] = field(init=False, default_factory=set)
    """Containers that are said to have changed."""
    _compare_at_s: float = field(init=False, default=float("-inf"))
    """When everything is to be compared again; at once when anything may have changed."""
    _registered: bool = field(init=False, default=False)
    _read: tuple[Fingerprint, GatewayTable] | None = field(init=False, default=None)
    """The table as it was read last, and its fingerprint."""
    _said: tuple[Applied, Mapping[ReplicaId, Health], dict[str, RouteReport]] | None = field(
        init=False, default=None
    )
    """The last report, once it was committed, and what it was about."""
    _reported_all_at_s: float = field(init=False, default=float("-inf"))

    def __post_init__(self) -> None:
        self.listener.hear(ROUTES, self._hear)
        self.listener.hear(API_KEYS, lambda _: self._hear(""))

    def _hear(self, container_id: str) -> None:
        if container_id:
            self._named.add(container_id)
        else:
            self._compare_at_s = float("-inf")
        self._changed.set()

    async def run(self) -> None:
        await self.dataplane.start()
        while True:
            self._changed.clear()
            try:
                draining = await self._step()
            except Exception as exc:  # noqa: BLE001 - logged, and tried again: the endpoints must not depend on us
                log.warning("gateway_step_failed", error=repr(exc))
                self._compare_at_s = float("-inf")  # What was named may not have been looked at.
                await self._keep_haproxy_alive()
                draining = False
                await self.clock.sleep(0.5)
            until_comparison_s = max(self._compare_at_s - self.clock.monotonic(), 0.0)
            with contextlib.suppress(TimeoutError):
                # Not `wait_for`: in Python 3.11 it can lose a cancellation that comes with the event.
                async with asyncio.timeout(DRAIN_POLL_S if draining else until_comparison_s):
                    await self._changed.wait()

    async def _step(self) -> bool:
        """Read, apply, report. Returns whether something still drains."""
        named, self._named = self._named, set()
        now_s = self.clock.monotonic()
        only_named = self._read is not None and now_s < self._compare_at_s
        if only_named:
            table = await self._table_with(named)
        else:
            self._compare_at_s = now_s + COMPARE_EVERY_S
            table = await self._table()
        applied = await self.dataplane.apply(table)
        self.on_applied(table, applied)
        health = await self.dataplane.health()
        await self._report(applied, health, alive=not only_named)
        if applied.changes:
            log.info("gateway_applied", changes=applied.changes, servers=len(applied.enabled))
        return bool(applied.draining)

    async def _table(self) -> GatewayTable:
        if not self._registered:
            async with self.database.transaction() as session:
                await repository.register_gateway(session, self.gateway_id)
            await self.on_registered()
            self._registered = True
        async with self.database.transaction() as session:
            # One picture for all reads: the fingerprint must be that of the table beside it, else a change that is
            # taken back later could stay unseen.
            await session.connection(execution_options={"isolation_level": "REPEATABLE READ"})
            fingerprint = await repository.fingerprint(session)
            if self._read is None:
                self._read = fingerprint, await repository.read_table(session)
            elif changed := repository.changed_buckets(self._read[0], fingerprint):
                self._read = fingerprint, await repository.read_table(session, self._read[1], changed)
        return self._read[1]

    async def _table_with(self, named: Set[str]) -> GatewayTable:
        """The table with these containers as they are now. The next comparison reads their buckets again: they may have
        changed back by then, or hold nothing any more."""
        assert self._read is not None, "the first table is read whole"
        fingerprint, table = self._read
        if not named:
            return table  # Something drains, and only HAProxy knows how far it is.
        async with self.database.reading() as session:
            table = await repository.read_named(session, table, named)
        looked_at = {repository.bucket_of(name): repository.UNKNOWN for name in named}
        self._read = {**fingerprint, **looked_at}, table
        return table

    async def _report(self, applied: Applied, health: Mapping[ReplicaId, Health], *, alive: bool) -> None:
        """In full now and then; in between, what differs from the last report. `alive`: and that we are."""
        now_s = self.clock.monotonic()
        # A settled gateway answers with the same object again, and then there is nothing to compare.
        if self._said is not None and self._said[0] is applied and self._said[1] is health:
            held = self._said[2]
        else:
            held = _held(applied, health)
        full = now_s - self._reported_all_at_s >= REPORT_ALL_EVERY_S
        said, self._said = self._said, None  # Until the commit nobody knows what the rows say.
        async with self.database.transaction() as session:
            if alive and not await repository.note_seen(session, self.gateway_id, held):
                # Somebody took us for gone and said so. What is read before we are registered may change without
                # anybody waiting for our word, so all of it is read and reported anew.
                self._registered, self._read = False, None
                raise ForgottenError("This gateway was forgotten; it registers anew.")
            await repository.report(session, self.gateway_id, held, said[2] if said and not full else None)
        self._said = applied, health, held
        if full or said is None:
            self._reported_all_at_s = now_s

    async def _keep_haproxy_alive(self) -> None:
        if not self.dataplane.alive():
            try:
                await self.dataplane.start()
                log.warning("haproxy_started_from_files")
            except Exception as exc:  # noqa: BLE001 - the next round tries again
                log.error("haproxy_not_started", error=repr(exc))


def _held(applied: Applied, health: Mapping[ReplicaId, Health]) -> dict[str, RouteReport]:
    held = {
        str(replica_id): RouteReport(draining=False, in_flight=0, health=health.get(replica_id))
        for replica_id in applied.enabled
    }
    draining = {
        str(replica_id): RouteReport(draining=True, in_flight=in_flight)
        for replica_id, in_flight in applied.draining.items()
    }
    return held | draining


def stable_gateway_id(home: Path) -> GatewayId:
    """The same across restarts, because the HAProxy that it speaks for lives on across them."""
    path = home / "gateway-id"
    if not path.exists() or not path.read_text().strip():
        write_whole(path, new_gateway_id(), 0o644)
    return GatewayId(path.read_text().strip())
