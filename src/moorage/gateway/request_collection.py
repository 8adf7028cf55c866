"""Requests that were logged and are not stored yet: figures of all, records of some, and when each key was used last.
Bounded, and without I/O."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime

from moorage.gateway.request_log import LoggedRequest
from moorage.identity.api_keys.uses import KeyUse
from moorage.telemetry.requests.figures import STEP_S, Figures, step_of
from moorage.telemetry.requests.record import RequestRecord, is_error

MAX_RECORDS = 20_000
MAX_STEPS = 50_000
"""Of all containers together; either is reached only when Postgres does not answer for long."""
MAX_KEYS = 100_000
"""Whose last minute of use is remembered."""
_LATE_S = 2.0
"""A step is stored this long after its end, so that nearly always one row holds all of it."""


@dataclass(frozen=True)
class Batch:
    written_at: datetime
    """Names the batch: stored again after an answer was lost, it is recognized by this."""
    records: list[RequestRecord]
    figures: dict[tuple[str, int], Figures]
    uses: dict[str, KeyUse]
    """By the key's id: those that had not been used in the minute that they were used in now."""


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
    _uses: dict[str, KeyUse] = field(default_factory=dict)
    _used_in: dict[str, int] = field(default_factory=dict)
    """The minute in which each key was used last, so that a busy one is noted once in it."""

    def take(self, request: LoggedRequest) -> None:
        status, ended_at_s = request.status, request.ended_at_s
        if request.key_id:
            self._note_use(request, int(ended_at_s) // 60)
        if request.container_id is not None:
            self._count(request.container_id, request)
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
        # One that lies ahead was counted before the clock was set back, and is over.
        figures = {
            key: step
            for key, step in self._steps.items()
            if everything or key[1] <= over or key[1] > now.timestamp() + STEP_S
        }
        if not self._records and not figures and not self._uses:
            return None
        records, self._records = self._records, []
        uses, self._uses = self._uses, {}
        self._steps = {key: step for key, step in self._steps.items() if key not in figures}
        self._kept.clear()
        return Batch(now, records, figures, uses)

    def _note_use(self, request: LoggedRequest, minute: int) -> None:
        # Of the minute before, one may end late; any later minute was noted before the clock was set back.
        if 0 <= self._used_in.get(request.key_id, 0) - minute <= 1:
            return
        if len(self._used_in) >= MAX_KEYS:
            self._used_in.clear()
        self._used_in[request.key_id] = minute
        self._uses[request.key_id] = KeyUse(datetime.fromtimestamp(minute * 60, UTC), request.client_address)

    def _count(self, container_id: str, request: LoggedRequest) -> None:
        key = (container_id, step_of(request.ended_at_s))
        step = self._steps.get(key)
        if step is None:
            if len(self._steps) >= MAX_STEPS:
                self.dropped += 1
                return
            step = self._steps[key] = Figures()
        step.count(request.status, request.total_ms, request.first_byte_ms, request.key_id)
