"""What is counted of every request of a container, in steps of 10 s. Pure."""

from dataclasses import dataclass, field

from moorage.telemetry.requests.histogram import Histogram, add, bucket_of

STEP_S = 10
STATUS_CLASSES = ("none", "1xx", "2xx", "3xx", "4xx", "5xx")


@dataclass
class Figures:
    statuses: list[int] = field(default_factory=lambda: [0] * len(STATUS_CLASSES))
    """By STATUS_CLASSES."""
    histogram: dict[int, int] = field(default_factory=dict)

    @property
    def requests(self) -> int:
        return sum(self.statuses)

    def count(self, status: int | None, total_ms: int) -> None:
        self.statuses[(status or 0) // 100] += 1
        bucket = bucket_of(total_ms)
        self.histogram[bucket] = self.histogram.get(bucket, 0) + 1

    def include(self, statuses: list[int], histogram: Histogram) -> None:
        self.statuses = [ours + theirs for ours, theirs in zip(self.statuses, statuses, strict=True)]
        add(self.histogram, histogram)


def step_of(epoch_s: float) -> int:
    """When the step began that this moment is in."""
    return int(epoch_s) // STEP_S * STEP_S
