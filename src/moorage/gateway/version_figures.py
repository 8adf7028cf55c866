"""Reports every second what each of two versions that serve beside each other answered at this gateway.

Purpose: an update that answers errors is ended within seconds. Invariants: an answer is counted once; only containers with an
update under way are looked at. When it fails: what was counted and not stored is stored with the next look.
"""

import asyncio
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

import structlog

from moorage.gateway import version_figures_repository as repository
from moorage.gateway.answers_read import Growth
from moorage.gateway.dataplane import DataPlane
from moorage.gateway.request_log import LoggedRequest
from moorage.kit.clock import Clock
from moorage.kit.database import Database
from moorage.kit.histogram import bucket_of
from moorage.kit.ids import GatewayId, ReplicaId

log = structlog.get_logger()

EVERY_S = 1.0
_STORE_TIMEOUT_S = 5.0
_FIRST_ERROR = 500


@dataclass
class VersionFigures:
    gateway_id: GatewayId
    database: Database
    dataplane: DataPlane
    clock: Clock
    _growth: Growth = field(init=False, default_factory=Growth)
    _looked: bool = field(init=False, default=False)
    """What a new version's replicas answered before the first look of this process is not known to be uncounted."""
    _waiting: dict[ReplicaId, Counter[str]] = field(init=False, default_factory=dict)
    _watched: Collection[ReplicaId] = field(init=False, default_factory=frozenset)
    _took: dict[ReplicaId, Counter[int]] = field(init=False, default_factory=dict)
    """How long their answers took, of those that were no errors."""

    def note(self, request: LoggedRequest) -> None:
        """Of each request that the gateway logged; nearly always there is nobody to compare."""
        if not self._watched or (name := request.replica_id) is None or name not in self._watched:
            return
        if (status := request.status) is not None and status < _FIRST_ERROR:
            self._took.setdefault(ReplicaId(name), Counter())[bucket_of(request.total_ms)] += 1

    async def run(self) -> None:
        while True:
            await self.clock.sleep(EVERY_S)
            try:
                await self.report()
            except Exception as exc:  # noqa: BLE001 - logged, and tried again: what was counted is kept
                log.warning("version_figures_not_reported", error=repr(exc))

    async def report(self) -> None:
        async with asyncio.timeout(_STORE_TIMEOUT_S), self.database.reading() as session:
            watched = await repository.watched_replicas(session)
        self._watched = watched.keys()
        now = await self.dataplane.answers(watched.keys()) if watched else {}
        new = {one for one, is_new in watched.items() if is_new} if self._looked else set()
        self._looked = True
        for replica_id, growth in self._growth.look(now, new).items():
            if replica_id not in watched:
                continue  # It left the update, or never was in it.
            counted = self._waiting.setdefault(replica_id, Counter())
            counted.update(answers=growth.answers, errors=growth.errors)
        # What is logged while it is stored waits for the next time.
        took = {one: Counter(histogram) for one, histogram in self._took.items()}
        if self._waiting or took:
            async with asyncio.timeout(_STORE_TIMEOUT_S), self.database.transaction() as session:
                await repository.add_figures(session, self.gateway_id, self._waiting)
                await repository.add_response_times(session, self.gateway_id, took)
            self._waiting = {}
            for one, histogram in took.items():
                self._took[one] -= histogram
            self._took = {one: histogram for one, histogram in self._took.items() if histogram}
