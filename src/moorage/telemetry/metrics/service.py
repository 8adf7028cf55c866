"""What a container did between two times, in the finest steps that are kept of them."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.telemetry.metrics import repository
from moorage.telemetry.metrics.samples import (
    KEEP_SECONDS,
    STEPS,
    Step,
    longer_steps,
    start_of,
    steps_of_seconds,
)
from moorage.telemetry.metrics.series import Series, of_requests, of_samples, replica_count
from moorage.telemetry.requests.figures import STEP_S as REQUESTS_STEP_S
from moorage.telemetry.requests.figures import Figures
from moorage.telemetry.requests.repository import list_figures
from moorage.telemetry.steps import Steps, steps_for
from moorage.telemetry.usage.service import ReplicaFigures, read_usage

MOST_STEPS = 500
REQUESTS_LATE = timedelta(seconds=4)
"""A gateway stores figures so long after their step has ended, at most, while it reports every second."""


@dataclass(frozen=True)
class Wanted:
    container_id: str
    from_time: datetime
    to_time: datetime
    step_s: int
    """No finer than this."""


@dataclass(frozen=True)
class Found:
    steps: Steps
    series: dict[str, Series]
    replicas: list[ReplicaFigures]


async def read_metrics(
    session: AsyncSession, wanted: Wanted, now: datetime, requests_kept: timedelta
) -> Found:
    source_s = _finest_kept_s(now - wanted.from_time)
    steps = steps_for(wanted.from_time, wanted.to_time, MOST_STEPS, max(wanted.step_s, source_s))
    ready = await repository.list_ready_times(session, wanted.container_id, steps.first, steps.end)
    known_until = min(await repository.known_until(session), now)
    rows = await _rows(session, wanted.container_id, steps, source_s, known_until)
    figures: dict[datetime, Figures] = {}
    requests_known_until = start_of(known_until - REQUESTS_LATE, REQUESTS_STEP_S)
    if steps.first >= now - requests_kept:
        since = start_of(steps.first, REQUESTS_STEP_S)
        figures = await list_figures(session, wanted.container_id, since, steps.end)
        series = of_requests(steps, figures, requests_known_until)
    else:
        # Of so long ago response times are kept no more; the seconds' own rate is.
        series = {
            name: [None] * steps.count
            for name in of_requests(steps, figures, requests_known_until)
            if name != "request_rate"
        }
    series = {
        "replica_count": replica_count(steps, ready, now),
        **of_samples(steps, rows, known_until),
        **series,
    }
    replicas = await read_usage(session, wanted.container_id, steps)
    return Found(steps, series, replicas)


async def _rows(
    session: AsyncSession, container_id: str, steps: Steps, source_s: int, known_until: datetime
) -> list[Step]:
    """Of the length of a step, made of the finest rows that are kept. Of the last minutes these are always the seconds:
    longer rows are made of them a while later."""
    newest = start_of(known_until - KEEP_SECONDS, STEPS[-1][0]) + timedelta(seconds=STEPS[-1][0])
    newest = min(max(newest, steps.first), steps.end) if source_s > 1 else steps.first
    # Of what comes after, only some gateways have spoken.
    samples = await repository.list_samples(session, newest, min(steps.end, known_until), [container_id])
    rows = steps_of_seconds(samples, source_s)
    if source_s > 1:
        rows += await repository.list_steps(session, source_s, steps.first, newest, container_id)
    return longer_steps(rows, source_s, steps.step_s)


def _finest_kept_s(age: timedelta) -> int:
    if age <= KEEP_SECONDS:
        return 1
    return next((step_s for step_s, kept in STEPS if age <= kept), STEPS[-1][0])
