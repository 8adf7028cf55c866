"""From what was stored to what a chart shows: one value for each step, or None where nothing is known. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from moorage.kit.histogram import percentile
from moorage.telemetry.metrics.samples import Step, start_of
from moorage.telemetry.requests.figures import STATUS_CLASSES, STEP_S, Figures
from moorage.telemetry.steps import Steps

Series = list[float | None]

_RESPONSE_TIMES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_FIRST_BYTES = {"p50": 0.5, "p95": 0.95}


@dataclass(frozen=True)
class ReadyTime:
    """When a replica could be given requests."""

    since: datetime
    until: datetime | None


def replica_count(steps: Steps, ready: Sequence[ReadyTime], now: datetime) -> Series:
    """At the end of each step, or now."""

    def at(moment: datetime) -> float:
        return float(sum(one.since <= moment and (one.until is None or moment < one.until) for one in ready))

    step = timedelta(seconds=steps.step_s)
    return [at(min(time + step, now)) if time <= now else None for time in steps.times]


def of_samples(steps: Steps, rows: Iterable[Step], known_until: datetime) -> dict[str, Series]:
    """Rows of the length of a step; where there is none, nothing happened, unless it is not known yet. The rest of a step
    that is known in part counts as what is known of it."""
    by_step = {steps.index_of(row.at): row for row in rows}
    known = [
        (by_step.get(index), seconds) for index, seconds in enumerate(_known_seconds(steps, known_until))
    ]
    return {
        "request_rate": [_per_second(row.requests if row else 0, seconds) for row, seconds in known],
        "in_flight": [_per_second(row.in_flight_mean * steps.step_s if row else 0, s) for row, s in known],
        "queued": [_per_second(row.queued_mean * steps.step_s if row else 0, s) for row, s in known],
    }


def of_requests(
    steps: Steps, figures: Mapping[datetime, Figures], known_until: datetime
) -> dict[str, Series]:
    """Response times by when requests ended; and in steps that figures are kept in, exact counts too. A shorter step has the
    times of the longer one that it lies in."""
    known_s = _known_seconds(steps, known_until)
    merged = _merged(steps, figures)
    found: dict[str, Series] = {}
    for name, share in _RESPONSE_TIMES.items():
        found[f"response_time_{name}_ms"] = [percentile(one.histogram, share) for one in merged]
    for name, share in _FIRST_BYTES.items():
        found[f"first_byte_{name}_ms"] = [percentile(one.first_bytes, share) for one in merged]
    if steps.step_s >= STEP_S:
        found["request_rate"] = [_per_second(one.requests, s) for one, s in zip(merged, known_s, strict=True)]
        for position, name in enumerate(STATUS_CLASSES):
            found[f"responses_{name}"] = [float(one.statuses[position]) for one in merged]
    return {
        name: [value if seconds else None for value, seconds in zip(series, known_s, strict=True)]
        for name, series in found.items()
    }


def _merged(steps: Steps, figures: Mapping[datetime, Figures]) -> list[Figures]:
    """What is known of each step, or of the longer one that it lies in."""
    if steps.step_s < STEP_S:
        nothing = Figures()
        return [figures.get(start_of(time, STEP_S), nothing) for time in steps.times]
    merged = [Figures() for _ in range(steps.count)]
    for time, one in figures.items():
        merged[steps.index_of(time)].include(one.statuses, one.histogram, one.first_bytes)
    return merged


def _known_seconds(steps: Steps, known_until: datetime) -> list[float]:
    """How much of each step is known; 0.0 for one that is not known yet."""
    return [min(float(steps.step_s), max((known_until - time).total_seconds(), 0.0)) for time in steps.times]


def _per_second(total: float, seconds: float) -> float | None:
    return total / seconds if seconds else None
