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
from moorage.telemetry.requests.repository import list_merged_figures
from moorage.telemetry.steps import Steps, steps_for
from moorage.telemetry.usage.service import ReplicaFigures, read_usage

MOST_STEPS = 500
REQUESTS_LATE = timedelta(seconds=4)
"""A gateway stores figures so long after their step has ended, at most, while it reports every second."""
STEPS_AT_ONCE = 50


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
    requests_known_until = start_of(known_until - REQUESTS_LATE, REQUESTS_STEP_S)
    if steps.first >= now - requests_kept:
        requests = await _of_requests(session, wanted.container_id, steps, requests_known_until)
    else:
        # Of so long ago response times are kept no more; the seconds' own rate is.
        names = of_requests(steps, {}, requests_known_until)
        requests = {name: [None] * steps.count for name in names if name != "request_rate"}
    series = {
        "replica_count": replica_count(steps, ready, now),
        **of_samples(steps, rows, known_until),
        **requests,
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
    rows = steps_of_seconds(samples, steps.step_s)
    if source_s > 1:
        rows += await repository.list_merged_steps(session, source_s, steps, newest, container_id)
    # The step in which the one source ends and the other begins has a part of each.
    return longer_steps(rows, steps.step_s, steps.step_s)


async def _of_requests(
    session: AsyncSession, container_id: str, steps: Steps, known_until: datetime
) -> dict[str, Series]:
    """Some steps at a time, so that others have their turn on the loop."""
    found: dict[str, Series] = {}
    for begin in range(0, steps.count, STEPS_AT_ONCE):
        first = steps.first + timedelta(seconds=begin * steps.step_s)
        some = Steps(first, steps.step_s, min(STEPS_AT_ONCE, steps.count - begin))
        # In shorter steps nothing is counted; those show what is known of the longer one that they lie in.
        counted = (
            some if some.step_s >= REQUESTS_STEP_S else steps_for(some.first, some.end, 1000, REQUESTS_STEP_S)
        )
        figures = await list_merged_figures(session, container_id, counted)
        for name, values in of_requests(some, figures, known_until).items():
            found.setdefault(name, []).extend(values)
    return found


def _finest_kept_s(age: timedelta) -> int:
    if age <= KEEP_SECONDS:
        return 1
    return next((step_s for step_s, kept in STEPS if age <= kept), STEPS[-1][0])
