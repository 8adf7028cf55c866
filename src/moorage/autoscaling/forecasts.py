"""The patterns of the containers that scale: read from their minutes, learnt beside the loop, and kept for six hours.

A history is read once in that time and container, as two arrays of one row; between, a tick costs no question to the
database. What is learnt follows from the minutes before the six hours began, so a replay finds the same.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from moorage.autoscaling import history_repository, repository
from moorage.autoscaling.demand import SECONDS_KEPT, History
from moorage.autoscaling.outlook import Outlook, look_ahead
from moorage.autoscaling.pattern import (
    LEARN_EVERY_S,
    LEARN_FROM,
    LEAST_HISTORY,
    MINUTE_S,
    RECENT,
    Pattern,
    learn,
)
from moorage.autoscaling.repository import Scaled
from moorage.kit.database import Database

AT_ONCE = 2
"""Containers learnt about in one tick: a tenth of a second of work each."""


@dataclass
class _Known:
    period: int
    """Which six hours it is for."""
    target: int
    pattern: Pattern | None
    recent: dict[int, float]
    """By minute: what was asked for in those that are over."""
    until: int
    """The first minute that is not among them."""


@dataclass
class Forecasts:
    database: Database
    _known: dict[str, _Known] = field(init=False, default_factory=dict)

    def forget(self) -> None:
        self._known = {}

    async def keep_up(self, scaled: Sequence[Scaled], histories: Mapping[str, History], second: int) -> None:
        """What is known of the containers that are scaled, and of no others."""
        ids = {one.id for one in scaled}
        self._known = {name: known for name, known in self._known.items() if name in ids}
        period = second // LEARN_EVERY_S
        stale = [
            one
            for one in scaled
            if one.policy.min_replicas < one.policy.max_replicas and not self._is_known(one, period)
        ]
        for one in stale[:AT_ONCE]:
            self._known[one.id] = await self._learnt(one, period, second)
        now = second // MINUTE_S
        for name, known in self._known.items():
            if known.pattern is not None and known.until < now:
                _add_minutes(known, histories.get(name), now)

    def has_pattern(self, container_id: str) -> bool:
        known = self._known.get(container_id)
        return known is not None and known.pattern is not None

    def outlook(self, container_id: str, second: int, startup_s: float | None) -> Outlook | None:
        known = self._known.get(container_id)
        if known is None or known.pattern is None:
            return None
        now = second // MINUTE_S
        minutes = [known.recent.get(minute, 0.0) for minute in range(now - RECENT, now)]
        return look_ahead(known.pattern, minutes, second, startup_s)

    def _is_known(self, one: Scaled, period: int) -> bool:
        known = self._known.get(one.id)
        return known is not None and (known.period, known.target) == (period, one.policy.target_concurrency)

    async def _learnt(self, one: Scaled, period: int, second: int) -> _Known:
        begun, now = period * LEARN_EVERY_S // MINUTE_S, second // MINUTE_S
        target = one.policy.target_concurrency
        async with self.database.reading() as session:
            startup_s = (await repository.startup_times_s(session, [one.id])).get(one.id)
            demand = await history_repository.read_minutes(session, one.id, begun - LEARN_FROM, now)
        pattern, before = None, demand.before(begun) if demand is not None else None
        if startup_s is not None and before is not None and len(before.levels) >= LEAST_HISTORY:
            # In a thread: it computes for a tenth of a second, and the loop is everybody's.
            pattern = await asyncio.to_thread(learn, before, startup_s, target)
        recent = (
            {minute: demand.at(minute) for minute in range(now - RECENT, now)} if demand is not None else {}
        )
        # The newest minutes may not be whole in the database yet: they come from the seconds.
        return _Known(period, target, pattern, recent, now - SECONDS_KEPT // MINUTE_S + 1)


def _add_minutes(known: _Known, history: History | None, now: int) -> None:
    for minute in range(max(known.until, now - RECENT), now):
        mean = history.mean_of(minute * MINUTE_S, MINUTE_S) if history is not None else 0.0
        if mean is not None:
            known.recent[minute] = mean
    known.recent = {minute: level for minute, level in known.recent.items() if minute >= now - RECENT}
    known.until = now
