"""Looks every second at what each running replica of one engine uses, and stores it ten seconds at a time.

Purpose: charts of processor, memory and GPUs. Invariants: a value belongs to the second in which it was read; looking
takes at most a tenth of the time, however many replicas there are, and engines take turns where there are many of them: then
there are fewer values, not more work.
When it fails: seconds are missing, and nothing else depends on them.
"""

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

import structlog

from moorage.engines.base import LOCAL_ENGINE, Engine, GpuUsage, ReplicaUsage
from moorage.kit.clock import Clock
from moorage.kit.errors import EngineError
from moorage.reconcile.lease import Lease
from moorage.telemetry.metrics.samples import start_of
from moorage.telemetry.usage.blocks import CPU, MEMORY, RUNGS, Block, Values, gpu_figures
from moorage.telemetry.usage.book import UsageBook
from moorage.telemetry.usage.repository import RunningReplica

log = structlog.get_logger()

SECONDS = RUNGS[0]
PAUSE_PER_LOOK = 9.0


@dataclass
class UsageSampler:
    book: UsageBook
    engine: Engine
    clock: Clock
    name: str = LOCAL_ENGINE
    """Of the engine."""
    every_s: Callable[[], int] = lambda: 1
    """How often to look."""
    _replicas: dict[str, RunningReplica] = field(init=False, default_factory=dict)
    """By engine id."""
    _before: dict[str, ReplicaUsage] = field(init=False, default_factory=dict)
    _block_at: datetime | None = field(init=False, default=None)
    _figures: dict[str, dict[str, Values]] = field(init=False, default_factory=dict)
    """Of the block that is not over yet, by engine id."""

    async def run(self, lease: Lease) -> None:
        self._before, self._block_at, self._figures = {}, None, {}
        looked_at = None
        while True:
            await self.clock.sleep(self._until_its_turn_s())
            second = self.clock.now().replace(microsecond=0)
            if second == looked_at:
                continue  # the timer was a little early
            looked_at = second
            looked_for_s = await self.sample(second, lease)
            await self.clock.sleep(looked_for_s * PAUSE_PER_LOOK)

    def _until_its_turn_s(self) -> float:
        """With each second; engines that look less often have moments of their own, all over the time between two looks."""
        every_s = self.every_s()
        turn_s = zlib.crc32(self.name.encode()) / 1000 if every_s > 1 else 0.0
        return every_s - (self.clock.now().timestamp() - turn_s) % every_s

    async def sample(self, second: datetime, lease: Lease) -> float:
        """One look; for how long the engine was looked at."""
        block_at = start_of(second, SECONDS.block_s)
        if block_at != self._block_at:
            await self._begin(block_at, lease)
        began_s = self.clock.monotonic()
        await self._look(second)
        return self.clock.monotonic() - began_s

    async def _begin(self, block_at: datetime, lease: Lease) -> None:
        """Store the block before, and find out who runs now."""
        finished = [
            Block(replica.container_id, replica.replica_id, self._block_at, SECONDS.step_s, figures)
            for engine_id, replica in self._replicas.items()
            if self._block_at is not None and (figures := self._figures.get(engine_id))
        ]
        self._block_at, self._figures = block_at, {}
        running = await self.book.enter(self.name, finished, lease)
        self._replicas = {one.engine_id: one for one in running}

    async def _look(self, second: datetime) -> None:
        used = await self.engine.usage(self._replicas.keys())
        gpus = await self._look_at_gpus()
        for engine_id, usage in used.items():
            figures: dict[str, float] = {MEMORY: usage.memory_bytes}
            before = self._before.get(engine_id)
            if before is not None and usage.read_at_s > before.read_at_s:
                spent_s = usage.cpu_time_s - before.cpu_time_s
                figures[CPU] = round(spent_s / (usage.read_at_s - before.read_at_s) * 1000, 1)
            for device_id in self._replicas[engine_id].gpu_device_ids:
                if device_id in gpus:
                    figures |= gpu_figures(device_id, gpus[device_id])
            self._note(engine_id, second, figures)
        self._before = dict(used)

    async def _look_at_gpus(self) -> Mapping[str, GpuUsage]:
        """A GPU that hangs must not take the figures of everything else with it."""
        devices = {device for one in self._replicas.values() for device in one.gpu_device_ids}
        try:
            return await self.engine.gpu_usage(devices)
        except EngineError as exc:
            log.warning("gpus_not_seen", error=str(exc))
            return {}

    def _note(self, engine_id: str, second: datetime, figures: dict[str, float]) -> None:
        index = second.second % SECONDS.length
        block = self._figures.setdefault(engine_id, {})
        for name, value in figures.items():
            block.setdefault(name, [None] * SECONDS.length)[index] = value
