"""Reads what was recorded and lets another policy have a go at it."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.autoscaling import repository
from moorage.autoscaling.decide import HISTORY_S, TICK_S, Policy, State
from moorage.autoscaling.demand import GatewayTime, level_at
from moorage.autoscaling.models import AutoscalingDecisionRow
from moorage.autoscaling.replay import Recorded, Replayed, as_it_was, replay
from moorage.containers.models import ContainerRow
from moorage.telemetry.metrics.repository import list_samples, list_steps
from moorage.telemetry.metrics.samples import KEEP_SECONDS, STEPS, Step

LONGEST = timedelta(days=7)


@dataclass(frozen=True)
class Comparison:
    since: datetime
    until: datetime
    startup_s: float | None
    as_it_was: Replayed
    replayed: Replayed


async def compare(
    session: AsyncSession, container: ContainerRow, policy: Policy, since: datetime, now: datetime
) -> Comparison:
    until_s = int(now.timestamp()) - TICK_S
    since_s = max(int(since.timestamp()), int(container.created_at.timestamp()))
    since_s = min(since_s, until_s)
    recorded = await _recorded(session, container.id, policy, since_s, until_s, now)
    before, after = await _decisions(session, container.id, since_s)
    startups_s = await repository.startup_times_s(session, [container.id])
    startup_s = startups_s.get(container.id)
    replicas = (
        before.replicas
        if before is not None
        else after[0].replicas_before
        if after
        else container.desired_replicas
    )
    risen_at = await _last_rise(session, container.id, since_s)
    state = State(replicas, risen_at)
    made = [(int(row.at.timestamp()), row.replicas) for row in after]
    current = repository.policy_of(container.settings)
    return Comparison(
        datetime.fromtimestamp(since_s, UTC),
        datetime.fromtimestamp(until_s, UTC),
        startup_s,
        as_it_was(current, recorded, replicas, made, since_s, until_s),
        replay(policy, recorded, state, startup_s, since_s, until_s),
    )


async def _recorded(
    session: AsyncSession, container_id: str, policy: Policy, since_s: int, until_s: int, now: datetime
) -> Recorded:
    """Seconds where they are kept, longer steps before."""
    begins_at = since_s - max(HISTORY_S, policy.scale_down_delay_s)
    gateways = await repository.gateway_times(session, _time(begins_at))
    levels = [0.0] * (until_s - begins_at + 1)
    seconds_from = max(begins_at, int((now - KEEP_SECONDS).timestamp()) + 1)
    tens_from = max(begins_at, int((now - STEPS[0][1]).timestamp()) + 1)
    for step_s, first, last in ((60, begins_at, tens_from), (10, tens_from, seconds_from)):
        if first < last:
            steps = await list_steps(session, step_s, _time(first), _time(last), container_id)
            _fill(levels, begins_at, steps, step_s, first, last)
    await _fill_seconds(session, container_id, levels, begins_at, seconds_from, until_s, gateways)
    return Recorded(begins_at, levels, gateways)


def _fill(
    levels: list[float], begins_at: int, steps: Iterable[Step], step_s: int, first: int, last: int
) -> None:
    for step in steps:
        at = int(step.at.timestamp())
        for second in range(max(at, first), min(at + step_s, last)):
            levels[second - begins_at] = step.in_flight_mean


async def _fill_seconds(
    session: AsyncSession,
    container_id: str,
    levels: list[float],
    begins_at: int,
    first: int,
    until_s: int,
    gateways: list[GatewayTime],
) -> None:
    samples = await list_samples(session, _time(first), _time(until_s + 1), [container_id])
    in_flight = {(one.gateway_id, int(one.at.timestamp())): one.in_flight for one in samples}
    for second in range(first, until_s + 1):
        levels[second - begins_at] = level_at(second, gateways, in_flight)


async def _decisions(
    session: AsyncSession, container_id: str, since_s: int
) -> tuple[AutoscalingDecisionRow | None, list[AutoscalingDecisionRow]]:
    """The one in force at that time, and those after."""
    row = AutoscalingDecisionRow
    mine = select(row).where(row.container_id == container_id)
    earlier = mine.where(row.at < _time(since_s)).order_by(row.at.desc()).limit(1)
    later = mine.where(row.at >= _time(since_s)).order_by(row.at)
    before = (await session.execute(earlier)).scalar_one_or_none()
    return before, list((await session.execute(later)).scalars())


async def _last_rise(session: AsyncSession, container_id: str, since_s: int) -> int | None:
    row = AutoscalingDecisionRow
    query = (
        select(row.at)
        .where(row.container_id == container_id, row.at < _time(since_s), row.replicas > row.replicas_before)
        .order_by(row.at.desc())
        .limit(1)
    )
    at = (await session.execute(query)).scalar_one_or_none()
    return int(at.timestamp()) if at is not None else None


def _time(second: int) -> datetime:
    return datetime.fromtimestamp(second, UTC)
