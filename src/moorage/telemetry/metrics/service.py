"""What a container did between two times, in the finest steps that are kept of them."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.telemetry.metrics import repository
from moorage.telemetry.metrics.samples import KEEP_SECONDS, STEPS, Step, steps_of_seconds
from moorage.telemetry.metrics.series import Series, of_requests, of_samples, replica_count
from moorage.telemetry.requests.figures import STEP_S as REQUESTS_STEP_S
from moorage.telemetry.requests.repository import list_merged_figures
from moorage.telemetry.steps import Steps, steps_for
from moorage.telemetry.usage.service import ReplicaFigures, read_usage

MOST_STEPS = 500
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
    rows = await _rows(session, wanted.container_id, steps, source_s)
    series = {"replica_count": replica_count(steps, ready, now), **of_samples(steps, rows, now)}
    if steps.step_s >= REQUESTS_STEP_S and steps.first >= now - requests_kept:
        series |= await _of_requests(session, wanted.container_id, steps, now)
    replicas = await read_usage(session, wanted.container_id, steps)
    return Found(steps, series, replicas)


async def _rows(session: AsyncSession, container_id: str, steps: Steps, source_s: int) -> list[Step]:
    """Of the length of a step, made of the finest rows that are kept: those are also the newest."""
    if source_s == 1:
        samples = await repository.list_samples(session, steps.first, steps.end, [container_id])
        return steps_of_seconds(samples, steps.step_s)
    return await repository.list_merged_steps(session, source_s, steps, container_id)


async def _of_requests(
    session: AsyncSession, container_id: str, steps: Steps, now: datetime
) -> dict[str, Series]:
    """Some steps at a time, so that others have their turn on the loop."""
    found: dict[str, Series] = {}
    for begin in range(0, steps.count, STEPS_AT_ONCE):
        first = steps.first + timedelta(seconds=begin * steps.step_s)
        some = Steps(first, steps.step_s, min(STEPS_AT_ONCE, steps.count - begin))
        figures = await list_merged_figures(session, container_id, some)
        for name, values in of_requests(some, figures, now).items():
            found.setdefault(name, []).extend(values)
    return found


def _finest_kept_s(age: timedelta) -> int:
    if age <= KEEP_SECONDS:
        return 1
    return next((step_s for step_s, kept in STEPS if age <= kept), STEPS[-1][0])
