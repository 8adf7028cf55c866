"""How a range of time is divided for a chart: round steps, on round times. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from moorage.kit.errors import FieldError, InvalidInputError

ROUND_STEPS_S = (
    1, 2, 5, 10, 30, 60, 120, 300, 600, 900, 1800,
    3600, 7200, 10800, 21600, 43200, 86400, 7 * 86400, 28 * 86400,
)  # fmt: skip
LONGEST_RANGE = timedelta(days=400)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_YEAR = 9000
"""Beyond it, the end of a step may be a time that there is not."""


@dataclass(frozen=True)
class Steps:
    """`first` and everything up to `count` steps later; each begins at a multiple of the step."""

    first: datetime
    step_s: int
    count: int

    @property
    def times(self) -> Sequence[datetime]:
        return [self.first + timedelta(seconds=index * self.step_s) for index in range(self.count)]

    @property
    def end(self) -> datetime:
        return self.first + timedelta(seconds=self.count * self.step_s)

    def index_of(self, time: datetime) -> int:
        return (time - self.first) // timedelta(seconds=self.step_s)


def steps_for(from_time: datetime, to_time: datetime, at_most: int, shortest_s: int = 1) -> Steps:
    """The finest round step that cuts the range into no more than `at_most` pieces.

    From 12:00:07 to 13:00:07 in at most 60: steps of two minutes, the first from 12:00:00, the last to 13:02:00.
    """
    in_our_time = from_time.year >= _EPOCH.year and to_time.year < _LAST_YEAR
    if not in_our_time or not timedelta(0) < to_time - from_time <= LONGEST_RANGE:
        wrong = FieldError("to", f"must be after from, by {LONGEST_RANGE.days} days at most")
        raise InvalidInputError("That is no range of time that can be shown.", fields=(wrong,))
    for step_s in ROUND_STEPS_S:
        steps = _cut(from_time, to_time, step_s)
        if steps.count <= at_most and step_s >= shortest_s:
            break
    return steps


def _cut(from_time: datetime, to_time: datetime, step_s: int) -> Steps:
    step = timedelta(seconds=step_s)
    first = _EPOCH + (from_time - _EPOCH) // step * step
    return Steps(first, step_s, -((first - to_time) // step))
