"""What containers did, second by second, and how seconds become longer steps. Pure.

Nothing is stored of a container that did nothing: where a gateway reports, a missing second is a second of zeros.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

KEEP_SECONDS = timedelta(minutes=15)
STEPS: tuple[tuple[int, timedelta], ...] = ((10, timedelta(days=1)), (60, timedelta(days=30)))
"""The lengths of longer steps in seconds, each made from the one before, and how long they are kept."""


@dataclass(frozen=True)
class Sample:
    """One container at one gateway in one second."""

    container_id: str
    gateway_id: str
    at: datetime
    in_flight: int
    """Requests, those that wait included, at the moment of looking."""
    queued: int
    requests: int
    """That arrived since the sample before."""
    errors: int
    response_ms: int


@dataclass(frozen=True)
class Step:
    """One container over all gateways for some seconds."""

    container_id: str
    at: datetime
    """When it began."""
    in_flight_mean: float
    in_flight_max: int
    queued_mean: float
    requests: int
    errors: int
    response_ms: float
    """Weighted by requests."""


def steps_of_seconds(samples: Iterable[Sample], step_s: int) -> list[Step]:
    """Sums over gateways, means over the whole step: seconds without a sample were idle."""
    by_second: dict[tuple[str, datetime], list[Sample]] = {}
    for sample in samples:
        by_second.setdefault((sample.container_id, sample.at), []).append(sample)
    seconds = [
        Step(
            container_id,
            at,
            in_flight_mean=float(sum(one.in_flight for one in some)),
            in_flight_max=sum(one.in_flight for one in some),
            queued_mean=float(sum(one.queued for one in some)),
            requests=sum(one.requests for one in some),
            errors=sum(one.errors for one in some),
            response_ms=_weighted((one.response_ms, one.requests) for one in some),
        )
        for (container_id, at), some in by_second.items()
    ]
    return longer_steps(seconds, 1, step_s)


def longer_steps(steps: Iterable[Step], from_s: int, to_s: int) -> list[Step]:
    grouped: dict[tuple[str, datetime], list[Step]] = {}
    for step in steps:
        grouped.setdefault((step.container_id, start_of(step.at, to_s)), []).append(step)
    share = from_s / to_s
    return [
        Step(
            container_id,
            at,
            in_flight_mean=sum(one.in_flight_mean for one in some) * share,
            in_flight_max=max(one.in_flight_max for one in some),
            queued_mean=sum(one.queued_mean for one in some) * share,
            requests=sum(one.requests for one in some),
            errors=sum(one.errors for one in some),
            response_ms=_weighted((one.response_ms, one.requests) for one in some),
        )
        for (container_id, at), some in sorted(grouped.items())
    ]


def start_of(moment: datetime, step_s: int) -> datetime:
    seconds = int(moment.timestamp())
    return datetime.fromtimestamp(seconds - seconds % step_s, UTC)


def _weighted(values: Iterable[tuple[float, int]]) -> float:
    pairs = list(values)
    weight = sum(requests for _, requests in pairs)
    return sum(value * requests for value, requests in pairs) / weight if weight else 0.0
