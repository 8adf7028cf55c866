"""A live tail: the lines of a container or a project as they are stored, each once.

Lines of one replica come in the order of their arrival; those of several replicas that arrive together are
merged by time. Every line comes with the position behind it, from which the tail can go on later.
"""

import heapq
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.kit.database import Database
from moorage.telemetry.logs.reading import repository
from moorage.telemetry.logs.reading.positions import TailPosition
from moorage.telemetry.logs.reading.repository import LogFilter, LogScope, StoredLine, TailState

STEP_LINES = 500
"""Of one replica, in one step; what is behind comes with the next."""


@dataclass(frozen=True)
class TailedLine:
    line: StoredLine
    position: TailPosition


@dataclass
class Tail:
    database: Database
    scope: LogScope
    wanted: LogFilter
    _as_of: datetime | None = field(init=False, default=None)
    _next_sequences: dict[str, int] = field(init=False, default_factory=dict)

    async def begin(self, newest: int) -> list[TailedLine]:
        """From now on, with up to `newest` of the lines before."""
        async with self.database.transaction() as session:
            # Both reads see the same moment: a line is either among these, or comes with the first step.
            await session.connection(execution_options={"isolation_level": "REPEATABLE READ"})
            state = await repository.tail_state(session, self.scope, None, [])
            lines: list[StoredLine] = []
            if newest:
                lines = (await repository.list_lines(session, self.scope, self.wanted, newest)).items
        self._as_of = state.now
        self._next_sequences = {one.replica_id: one.next_sequence for one in state.replicas}
        return [TailedLine(line, self._position()) for line in reversed(lines)]

    def resume(self, position: TailPosition) -> None:
        self._as_of = position.as_of
        self._next_sequences = dict(position.next_sequences)

    async def step(self) -> AsyncIterator[TailedLine]:
        """Everything that was stored since; no transaction is open while a line is handed out."""
        more = True
        while more:
            async with self.database.transaction() as session:
                known = list(self._next_sequences)
                state = await repository.tail_state(session, self.scope, self._as_of, known)
                ranges = self._ranges(state)
                arrived = [await self._arrived(session, ranges, replica_id) for replica_id in list(ranges)]
            more = self._is_behind(state, ranges)
            for line in heapq.merge(*arrived, key=lambda line: line.time):
                self._next_sequences[line.replica_id] = line.sequence + 1
                yield TailedLine(line, self._position())
            self._settle(state, ranges)

    def _ranges(self, state: TailState) -> dict[str, range]:
        """What each replica has for us. One that we do not know has come since, so all of it."""
        ranges = {}
        for replica in state.replicas:
            first = self._next_sequences.setdefault(replica.replica_id, 0)
            ranges[replica.replica_id] = range(first, min(replica.next_sequence, first + STEP_LINES))
        return {replica_id: sequences for replica_id, sequences in ranges.items() if sequences}

    async def _arrived(
        self, session: AsyncSession, ranges: dict[str, range], replica_id: str
    ) -> Sequence[StoredLine]:
        """Of one replica, as much as is its part of a step; its range ends there."""
        if self.wanted.replica_id not in (None, replica_id):
            return []
        sequences, most_bytes = ranges[replica_id], repository.MOST_BYTES // len(ranges)
        lines = await repository.list_arrived(session, replica_id, sequences, self.wanted, most_bytes)
        if lines.more:
            ranges[replica_id] = range(sequences.start, lines.items[-1].sequence + 1)
        return lines.items

    def _is_behind(self, state: TailState, ranges: dict[str, range]) -> bool:
        ends = {replica.replica_id: replica.next_sequence for replica in state.replicas}
        return any(sequences.stop < ends[replica_id] for replica_id, sequences in ranges.items())

    def _settle(self, state: TailState, ranges: dict[str, range]) -> None:
        """Move on past lines that the filter left out, and forget replicas of which nothing is left."""
        for replica_id, sequences in ranges.items():
            self._next_sequences[replica_id] = sequences.stop
        self._as_of = state.now
        still_there = {replica.replica_id for replica in state.replicas}
        for replica_id in self._next_sequences.keys() - still_there:
            del self._next_sequences[replica_id]
        for replica in state.replicas:
            finished = replica.finished_at is not None and replica.finished_at < state.now
            if finished and self._next_sequences[replica.replica_id] >= replica.next_sequence:
                del self._next_sequences[replica.replica_id]

    def _position(self) -> TailPosition:
        assert self._as_of is not None, "a tail begins or resumes before it steps"
        return TailPosition(self._as_of, dict(self._next_sequences))
