"""SQL of what falls asleep."""

from datetime import timedelta

from sqlalchemy import Integer, exists, func, select, true
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.autoscaling.sleep.idle import Known, Reporting
from moorage.containers.models import ContainerRow, GatewayRow, ReplicaRouteRow, ReplicaRow
from moorage.containers.states import LIVE, ContainerState, DesiredState, ReplicaState
from moorage.telemetry.metrics.models import ContainerSampleRow, ContainerStepRow, GatewayReportRow

_STEP_S = 10
"""Kept for a day, which is the longest idleness that anybody can ask for; the seconds are not."""
AT_ONCE = 100


async def gateways_reporting(session: AsyncSession) -> list[Reporting]:
    """Of every gateway that is registered: one that never reported holds up as much as one that fell silent."""
    last = (
        select(GatewayReportRow.since, GatewayReportRow.until)
        .where(GatewayReportRow.gateway_id == GatewayRow.id)
        .order_by(GatewayReportRow.since.desc())
        .limit(1)
        .lateral()
    )
    found = await session.execute(
        select(last.c.since, last.c.until).select_from(GatewayRow).outerjoin(last, true())
    )
    return [Reporting(since, until) for since, until in found]


async def list_idle(session: AsyncSession, known: Known) -> list[tuple[str, int]]:
    """Containers of which nothing was asked for as long as they want before they sleep, and that time. From when they last began
    to serve, or to serve with one more."""
    row, replica = ContainerRow, ReplicaRow
    after_s = row.settings["sleep_after_s"].astext.cast(Integer)
    since = known.until - func.make_interval(0, 0, 0, 0, 0, 0, after_s)
    sample, step = ContainerSampleRow, ContainerStepRow
    asked = exists().where(sample.container_id == row.id, sample.at > since)
    asked_before = exists().where(
        step.container_id == row.id, step.step_s == _STEP_S, step.at > since - timedelta(seconds=_STEP_S)
    )
    comes_up = exists().where(
        replica.container_id == row.id,
        replica.state.in_(LIVE),
        func.coalesce(replica.routed_at, func.now()) > since,
    )
    query = select(row.id, after_s).where(
        row.settings["sleep_after_s"].astext.is_not(None),
        row.desired_state == DesiredState.RUNNING,
        row.state == ContainerState.RUNNING,
        row.deleted_at.is_(None),
        row.failed_generation != row.generation,
        row.asleep_since.is_(None),
        row.woken_at.is_(None),
        row.trial_settings.is_(None),
        row.fallback.is_(None),
        row.state_since <= since,
        since >= known.since,
        ~comes_up,
        ~asked,
        ~asked_before,
    )
    return [(found[0], found[1]) for found in await session.execute(query.order_by(row.id).limit(AT_ONCE))]


async def list_asleep_in_use(session: AsyncSession) -> list[str]:
    """Containers that fall asleep and yet have requests: those arrived when all said that there were none."""
    row, replica, route = ContainerRow, ReplicaRow, ReplicaRouteRow
    query = (
        select(row.id)
        .join(replica, (replica.container_id == row.id) & (replica.state == ReplicaState.ROUTED))
        .join(route, (route.replica_id == replica.id) & (route.in_flight > 0))
        .where(row.asleep_since.is_not(None), row.desired_state == DesiredState.RUNNING)
        .distinct()
    )
    return list((await session.execute(query.order_by(row.id).limit(AT_ONCE))).scalars())
