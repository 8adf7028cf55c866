"""From what was stored to what a chart shows: one value for each step, or None where nothing is known. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from moorage.telemetry.metrics.samples import Step
from moorage.telemetry.requests.figures import STATUS_CLASSES, Figures
from moorage.telemetry.requests.histogram import percentile
from moorage.telemetry.steps import Steps

Series = list[float | None]

_PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


@dataclass(frozen=True)
class ReadyTime:
    """When a replica could be given requests."""

    since: datetime
    until: datetime | None


def replica_count(steps: Steps, ready: Sequence[ReadyTime], now: datetime) -> Series:
    """At the end of each step, or now."""
    moments = [min(time + timedelta(seconds=steps.step_s), now) for time in steps.times]
    return [
        float(sum(one.since <= moment and (one.until is None or moment < one.until) for one in ready))
        for moment in moments
    ]


def of_samples(steps: Steps, rows: Iterable[Step], now: datetime) -> dict[str, Series]:
    """Rows of the length of a step; where there is none, nothing happened."""
    by_step = {steps.index_of(row.at): row for row in rows}
    found = [by_step.get(index) for index in range(steps.count)]
    return {
        "request_rate": [
            row.requests / seconds if row else 0.0
            for row, seconds in zip(found, _lengths_s(steps, now), strict=True)
        ],
        "in_flight": [row.in_flight_mean if row else 0.0 for row in found],
        "queued": [row.queued_mean if row else 0.0 for row in found],
    }


def of_requests(steps: Steps, figures: Mapping[datetime, Figures], now: datetime) -> dict[str, Series]:
    """Exact counts of requests by when they ended, and their response times."""
    merged: dict[int, Figures] = {}
    for time, one in figures.items():
        merged.setdefault(steps.index_of(time), Figures()).include(one.statuses, one.histogram)
    known = [merged.get(index, Figures()) for index in range(steps.count)]
    found: dict[str, Series] = {
        "request_rate": [
            one.requests / seconds for one, seconds in zip(known, _lengths_s(steps, now), strict=True)
        ]
    }
    for name, share in _PERCENTILES.items():
        found[f"response_time_{name}_ms"] = [percentile(one.histogram, share) for one in known]
    for position, name in enumerate(STATUS_CLASSES):
        found[f"responses_{name}"] = [float(one.statuses[position]) for one in known]
    return found


def _lengths_s(steps: Steps, now: datetime) -> list[float]:
    """The step that is not over yet is as long as it lasts so far."""
    return [min(float(steps.step_s), max((now - time).total_seconds(), 1.0)) for time in steps.times]
