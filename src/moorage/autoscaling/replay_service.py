"""Reads what was recorded, so that another policy can have a go at it."""

from datetime import UTC, datetime, timedelta

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.autoscaling import replay_repository, repository
from moorage.autoscaling.comparison import Question, Stretch
from moorage.autoscaling.decide import HISTORY_S, TICK_S, Policy, State
from moorage.autoscaling.history_repository import read_minutes
from moorage.autoscaling.pattern import LEARN_FROM, MINUTE_S
from moorage.containers.models import ContainerRow
from moorage.telemetry.metrics.repository import list_samples
from moorage.telemetry.metrics.samples import KEEP_SECONDS, STEPS

LONGEST = timedelta(days=7)


async def read_question(
    session: AsyncSession,
    container: ContainerRow,
    policy: Policy,
    since: datetime,
    now: datetime,
    *,
    forecast: bool = True,
) -> Question:
    until_s = int(now.timestamp()) - TICK_S
    since_s = max(int(since.timestamp()), int(container.created_at.timestamp()))
    since_s = min(since_s, until_s)
    begins_at = since_s - max(HISTORY_S, policy.scale_down_delay_s)
    seconds_from = max(begins_at, int((now - KEEP_SECONDS).timestamp()) + 1)
    samples = await list_samples(session, _time(seconds_from), _time(until_s + 1), [container.id])
    decisions = [one async for one in replay_repository.read_decisions(session, container.id, _time(since_s))]
    replicas = await replay_repository.replicas_before(session, container.id, _time(since_s))
    if replicas is None:
        replicas = decisions[0][1] if decisions else container.desired_replicas
    first, last = since_s // MINUTE_S - LEARN_FROM, until_s // MINUTE_S
    minutes = await read_minutes(session, container.id, first, last) if forecast else None
    return Question(
        policy=policy,
        current=repository.policy_of(container.settings),
        since=since_s,
        until=until_s,
        begins_at=begins_at,
        stretches=await _stretches(session, container.id, begins_at, seconds_from, now),
        seconds_from=seconds_from,
        in_flight={(one.gateway_id, int(one.at.timestamp())): one.in_flight for one in samples},
        gateways=tuple(await repository.gateway_times(session, _time(begins_at))),
        state=State(
            replicas, await replay_repository.last_rise_before(session, container.id, _time(since_s))
        ),
        made=tuple((at, after) for at, _, after in decisions),
        startup_s=(await repository.startup_times_s(session, [container.id])).get(container.id),
        minutes=minutes,
    )


async def _stretches(
    session: AsyncSession, container_id: str, begins_at: int, seconds_from: int, now: datetime
) -> tuple[Stretch, ...]:
    """Before the seconds that are kept one by one: steps of ten, and of a minute before those."""
    tens_from = max(begins_at, int((now - STEPS[0][1]).timestamp()) + 1)
    stretches = []
    for step_s, first, last in ((60, begins_at, tens_from), (10, tens_from, seconds_from)):
        async for step in replay_repository.read_steps(
            session, container_id, step_s, _time(first), _time(last)
        ):
            at = int(step.at.timestamp())
            stretches.append(Stretch(max(at, first), min(at + step_s, last), step.in_flight_mean))
    return tuple(stretches)


def _time(second: int) -> datetime:
    return datetime.fromtimestamp(second, UTC)
