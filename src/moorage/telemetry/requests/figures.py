"""What is counted of every request of a container, in steps of 10 s. Pure."""

from dataclasses import dataclass, field

from moorage.kit.histogram import Histogram, add, bucket_of

STEP_S = 10
STATUS_CLASSES = ("none", "1xx", "2xx", "3xx", "4xx", "5xx")
MOST_KEYS = 200
"""That are told apart in one step: a project has 100 that last, and a few that a playground made."""


@dataclass
class Figures:
    statuses: list[int] = field(default_factory=lambda: [0] * len(STATUS_CLASSES))
    """By STATUS_CLASSES."""
    histogram: dict[int, int] = field(default_factory=dict)
    """Of the time to the answer's last byte."""
    first_bytes: dict[int, int] = field(default_factory=dict)
    """And to its first, of the requests that were answered."""
    keys: dict[str, int] = field(default_factory=dict)
    """Requests by the id of the key that they came with."""

    @property
    def requests(self) -> int:
        return sum(self.statuses)

    def count(self, status: int | None, total_ms: int, first_byte_ms: int | None, key_id: str = "") -> None:
        self.statuses[(status or 0) // 100] += 1
        add(self.histogram, {bucket_of(total_ms): 1})
        if first_byte_ms is not None:
            add(self.first_bytes, {bucket_of(first_byte_ms): 1})
        if key_id and (key_id in self.keys or len(self.keys) < MOST_KEYS):
            self.keys[key_id] = self.keys.get(key_id, 0) + 1

    def include(self, statuses: list[int], histogram: Histogram, first_bytes: Histogram) -> None:
        self.statuses = [ours + theirs for ours, theirs in zip(self.statuses, statuses, strict=True)]
        add(self.histogram, histogram)
        add(self.first_bytes, first_bytes)


def step_of(epoch_s: float) -> int:
    """When the step began that this moment is in."""
    return int(epoch_s) // STEP_S * STEP_S
