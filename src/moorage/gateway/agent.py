"""Keeps one HAProxy in step with Postgres, and tells Postgres what that HAProxy holds.

Purpose: routes, keys and servers at this gateway are what the rows say; the rows say what it serves.
Invariants: HAProxy is changed only through `DataPlane`; without Postgres nothing is changed and HAProxy goes on.
When it fails: it tries again in a moment. When HAProxy dies it is started again, from its files if need be.
"""

import asyncio
import contextlib
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from moorage.containers.channels import ROUTES
from moorage.gateway import repository
from moorage.gateway.dataplane import Applied, DataPlane
from moorage.gateway.repository import RouteReport
from moorage.identity.api_keys.channels import API_KEYS
from moorage.kit.clock import Clock
from moorage.kit.database import Database, Listener
from moorage.kit.ids import GatewayId, new_gateway_id

log = structlog.get_logger()

COMPARE_EVERY_S = 2.0
"""In case a notification was lost; also how often HAProxy is looked at and the gateway is seen alive."""
DRAIN_POLL_S = 0.1


@dataclass
class GatewayAgent:
    gateway_id: GatewayId
    database: Database
    listener: Listener
    dataplane: DataPlane
    clock: Clock
    _changed: asyncio.Event = field(init=False)
    _registered: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self._changed = self.listener.subscribe(ROUTES, API_KEYS)

    async def run(self) -> None:
        await self.dataplane.start()
        while True:
            self._changed.clear()
            try:
                draining = await self._step()
            except Exception as exc:  # noqa: BLE001 - logged, and tried again: the endpoints must not depend on us
                log.warning("gateway_step_failed", error=repr(exc))
                await self._keep_haproxy_alive()
                draining = False
                await self.clock.sleep(0.5)
            with contextlib.suppress(TimeoutError):
                wait_s = DRAIN_POLL_S if draining else COMPARE_EVERY_S
                await asyncio.wait_for(self._changed.wait(), timeout=wait_s)

    async def _step(self) -> bool:
        """Read, apply, report. Returns whether something still drains."""
        async with self.database.transaction() as session:
            if not self._registered:
                await repository.register_gateway(session, self.gateway_id)
            table = await repository.read_table(session)
        self._registered = True
        applied = await self.dataplane.apply(table)
        async with self.database.transaction() as session:
            await repository.report(session, self.gateway_id, _held(applied))
        if applied.changes:
            log.info("gateway_applied", changes=applied.changes, servers=len(applied.enabled))
        return bool(applied.draining)

    async def _keep_haproxy_alive(self) -> None:
        if not self.dataplane.alive():
            try:
                await self.dataplane.start()
                log.warning("haproxy_started_from_files")
            except Exception as exc:  # noqa: BLE001 - the next round tries again
                log.error("haproxy_not_started", error=repr(exc))


def _held(applied: Applied) -> dict[str, RouteReport]:
    held = {str(replica_id): RouteReport(draining=False, in_flight=0) for replica_id in applied.enabled}
    draining = {
        str(replica_id): RouteReport(draining=True, in_flight=in_flight)
        for replica_id, in_flight in applied.draining.items()
    }
    return held | draining


def stable_gateway_id(home: Path) -> GatewayId:
    """The same across restarts, because the HAProxy that it speaks for lives on across them."""
    path = home / "gateway-id"
    if not path.exists():
        path.write_text(new_gateway_id())
    return GatewayId(path.read_text().strip())
