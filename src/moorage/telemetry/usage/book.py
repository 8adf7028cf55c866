"""Where what replicas use is written down, of all engines together: their blocks of ten seconds end at the same moment."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from moorage.kit.clock import Clock
from moorage.kit.database import Database
from moorage.kit.together import Together
from moorage.reconcile.lease import Lease
from moorage.telemetry.usage import repository
from moorage.telemetry.usage.blocks import Block
from moorage.telemetry.usage.repository import RunningReplica


@dataclass
class UsageBook:
    database: Database
    clock: Clock
    pause_s: Callable[[], float] = lambda: 0.0
    """How long engines wait for each other."""
    _entries: Together[str, tuple[Sequence[Block], Lease], list[RunningReplica]] = field(init=False)

    def __post_init__(self) -> None:
        self._entries = Together(self._write, self.clock, self.pause_s)

    async def enter(self, engine: str, finished: Sequence[Block], lease: Lease) -> list[RunningReplica]:
        """Store what an engine's replicas used, and say which run there now."""
        return await self._entries.ask(engine, (finished, lease))

    async def _write(
        self, entries: Mapping[str, tuple[Sequence[Block], Lease]]
    ) -> Mapping[str, list[RunningReplica]]:
        blocks = [block for finished, _ in entries.values() for block in finished]
        async with self.database.transaction() as session:
            await next(lease for _, lease in entries.values()).guard(session)  # it is everybody's
            if blocks:
                await repository.store_blocks(session, blocks)
            return await repository.list_running_replicas(session, entries)
