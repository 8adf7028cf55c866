"""Requests that were logged and are not stored yet: figures of all, records of some. Bounded, and without I/O."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime

from moorage.gateway.request_log import LoggedRequest
from moorage.telemetry.requests.figures import STEP_S, Figures, step_of
from moorage.telemetry.requests.record import RequestRecord, is_error

MAX_RECORDS = 20_000
MAX_STEPS = 50_000
"""Of all containers together; either is reached only when Postgres does not answer for long."""
_LATE_S = 2.0
"""A step is stored this long after its end, so that nearly always one row holds all of it."""


@dataclass(frozen=True)
class Batch:
    written_at: datetime
    """Names the batch: stored again after an answer was lost, it is recognized by this."""
    records: list[RequestRecord]
    figures: dict[tuple[str, int], Figures]


@dataclass
class RequestCollection:
    records_per_s: int
    """Of one container, of those that went well. What failed is always kept."""
    dropped: int = 0
    """Records or figures that found no room, since somebody last looked."""
    _records: list[RequestRecord] = field(default_factory=list)
    _steps: dict[tuple[str, int], Figures] = field(default_factory=dict)
    _kept: Counter[tuple[str | None, int]] = field(default_factory=Counter)
    """Records of a container and second since the last batch."""

    def take(self, request: LoggedRequest) -> None:
        status, ended_at_s = request.status, request.ended_at_s
        if request.container_id is not None:
            self._count(request.container_id, ended_at_s, status, request.total_ms)
        if not is_error(status, request.ended):
            second = (request.container_id, int(ended_at_s))
            self._kept[second] += 1
            if self._kept[second] > self.records_per_s:
                return
        if len(self._records) < MAX_RECORDS:
            self._records.append(request.record())
        else:
            self.dropped += 1

    def batch(self, now: datetime, *, everything: bool = False) -> Batch | None:
        """What can be stored now; the last call of a process takes the steps that are not over, too."""
        over = now.timestamp() - STEP_S - _LATE_S
        figures = {key: step for key, step in self._steps.items() if everything or key[1] <= over}
        if not self._records and not figures:
            return None
        records, self._records = self._records, []
        self._steps = {key: step for key, step in self._steps.items() if key not in figures}
        self._kept.clear()
        return Batch(now, records, figures)

    def _count(self, container_id: str, ended_at_s: float, status: int | None, total_ms: int) -> None:
        key = (container_id, step_of(ended_at_s))
        step = self._steps.get(key)
        if step is None:
            if len(self._steps) >= MAX_STEPS:
                self.dropped += 1
                return
            step = self._steps[key] = Figures()
        step.count(status, total_ms)
