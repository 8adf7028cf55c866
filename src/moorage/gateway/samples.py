"""Reports every second what each container did at this gateway.

Purpose: the autoscaler and the charts know demand second by second. Invariants: a request is counted in one sample;
what could not be stored is kept and stored later; a second is the database's, by which others ask, however wrong the clock of
this machine is. When it fails: HAProxy's counters go on, and so does the next look.
"""

import asyncio
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import structlog

from moorage.gateway.dataplane import DataPlane
from moorage.kit.clock import Clock
from moorage.kit.database import Database, database_now
from moorage.kit.ids import GatewayId
from moorage.telemetry.metrics.repository import CONTINUES_WITHIN, store_samples
from moorage.telemetry.metrics.samples import Sample

log = structlog.get_logger()

EVERY_S = 1.0
MAX_WAITING = 100_000
"""Samples that Postgres has not taken yet; beyond them the oldest lose their place in time, not their requests."""
_STORE_TIMEOUT_S = 5.0
_TOLERATED = timedelta(seconds=2)
"""Between the database's clock and ours; what is less may be the time of an answer."""


@dataclass
class SampleReporter:
    gateway_id: GatewayId
    database: Database
    dataplane: DataPlane
    clock: Clock
    _waiting: list[Sample] = field(init=False, default_factory=list)
    _unsaid_since: datetime | None = field(init=False, default=None)
    _last: datetime | None = field(init=False, default=None)
    _off_by: timedelta = field(init=False, default=timedelta())
    """So much earlier than the database's is our clock."""
    _begins: bool = field(init=False, default=True)
    """Nothing was stored yet. What was asked between the last word of the process before us and our first look is in no sample."""

    async def run(self) -> None:
        while True:
            now = self.clock.now()
            await self.clock.sleep(EVERY_S - now.microsecond / 1e6)
            try:
                await self.report()
            except Exception as exc:  # noqa: BLE001 - logged, and tried again: what was counted is kept
                log.warning("samples_not_reported", error=repr(exc), waiting=len(self._waiting))

    async def report(self) -> None:
        """Look, and store this second with all that could not be stored before."""
        second = (self.clock.now() + self._off_by).replace(microsecond=0)
        if self._last is not None and second < self._last - CONTINUES_WITHIN:
            # The clock was set back, and this time comes a second time. What was not stored of it yet goes with the rest
            # of what was said of it.
            log.warning(
                "clock_set_back", by_s=(self._last - second).total_seconds(), waiting=len(self._waiting)
            )
            self._waiting, self._unsaid_since = [], None
        elif self._last is not None:
            # A second belongs to one report, also where a timer woke us a little early.
            second = max(second, self._last + timedelta(seconds=1))
        self._last = second
        used = await self.dataplane.usage()
        self._waiting += [
            Sample(
                container_id=container_id,
                gateway_id=self.gateway_id,
                at=second,
                in_flight=use.in_flight,
                queued=use.queued,
                requests=use.requests,
                errors=use.errors,
                response_ms=use.response_ms,
            )
            for container_id, use in used.items()
        ]
        self._waiting = _bounded(self._waiting)
        first = self._unsaid_since or second
        self._unsaid_since = first
        async with asyncio.timeout(_STORE_TIMEOUT_S), self.database.transaction() as session:
            self._set_clock(await database_now(session))
            await store_samples(session, self.gateway_id, self._waiting, first, second, begins=self._begins)
        self._waiting, self._unsaid_since, self._begins = [], None, False
        if second - first > timedelta(seconds=2):
            log.info("samples_caught_up", seconds=(second - first).total_seconds())

    def _set_clock(self, now: datetime) -> None:
        """From the next second on."""
        off_by = now - self.clock.now()
        if abs(off_by - self._off_by) > _TOLERATED:
            log.warning("clock_is_wrong", by_s=round(off_by.total_seconds()))
            self._off_by = off_by


def _bounded(samples: list[Sample]) -> list[Sample]:
    if len(samples) <= MAX_WAITING:
        return samples
    kept = {sample.container_id: index for index, sample in enumerate(samples[-MAX_WAITING:])}
    bounded = samples[-MAX_WAITING:]
    for old in samples[:-MAX_WAITING]:
        if old.container_id in kept:
            index = kept[old.container_id]
            bounded[index] = _with_counts_of(bounded[index], old)
    return bounded


def _with_counts_of(sample: Sample, other: Sample) -> Sample:
    return replace(sample, requests=sample.requests + other.requests, errors=sample.errors + other.errors)
