"""SQL of the autoscaler: what a tick reads, and the decisions it writes."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import delete, exists, func, select, tuple_, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.autoscaling.decide import Decision, Policy
from moorage.autoscaling.demand import GatewayTime
from moorage.autoscaling.models import AutoscalingDecisionRow
from moorage.catalog.models import InstanceTypeRow
from moorage.containers.activity import SYSTEM, record_activity
from moorage.containers.models import ContainerRow, GatewayRow, ReplicaRouteRow, ReplicaRow
from moorage.containers.prices import held_price
from moorage.containers.repository import mark_due
from moorage.containers.spec import ContainerSettings, ResourceMode
from moorage.containers.states import ContainerState, DesiredState, ReplicaState
from moorage.kit.database import delete_portion
from moorage.kit.pagination import PageRequest
from moorage.ledger.spending_repository import spendable_credit
from moorage.organizations.models import ProjectRow
from moorage.telemetry.metrics.repository import list_reports

KEEP_DECISIONS = timedelta(days=30)
LEARN_FROM_REPLICAS = 5
_RECENT = timedelta(minutes=2)


@dataclass(frozen=True)
class Scaled:
    """An autoscaling container that serves."""

    id: str
    project_id: str
    policy: Policy
    replicas: int
    """Asked for now."""
    generation: int


@dataclass(frozen=True)
class ReplicaFacts:
    ready: int = 0
    coming: int = 0
    failing: int = 0
    """Of those that are ready."""
    failed_lately: int = 0


async def list_scaled(session: AsyncSession) -> list[Scaled]:
    row = ContainerRow
    query = select(row.id, row.project_id, row.settings, row.desired_replicas, row.generation).where(
        row.desired_state == DesiredState.RUNNING,
        row.state == ContainerState.RUNNING,
        row.settings["resource_mode"].astext == ResourceMode.AUTOSCALING,
        row.deleted_at.is_(None),
        # What sleeps wants none, and what wakes begins with the least.
        row.asleep_since.is_(None),
        row.woken_at.is_(None),
    )
    return [
        Scaled(
            found.id, found.project_id, policy_of(found.settings), found.desired_replicas, found.generation
        )
        for found in await session.execute(query)
    ]


def policy_of(settings: dict[str, Any]) -> Policy:
    spec = ContainerSettings.from_json(settings)
    return Policy(spec.min_replicas, spec.max_replicas, spec.target_concurrency, spec.scale_down_delay_s)


async def gateway_times(session: AsyncSession, since: datetime) -> list[GatewayTime]:
    """Of the gateways that are registered: one that was taken out of service holds nothing any more."""
    registered = set((await session.execute(select(GatewayRow.id))).scalars())
    stretches: dict[str, list[tuple[int, int]]] = {}
    for report in await list_reports(session, since):
        if report.gateway_id in registered:
            begun, ended = int(report.since.timestamp()), int(report.until.timestamp())
            stretches.setdefault(report.gateway_id, []).append((begun, ended))
    return [GatewayTime(name, tuple(sorted(found))) for name, found in sorted(stretches.items())]


async def replica_facts(session: AsyncSession, container_ids: Sequence[str]) -> dict[str, ReplicaFacts]:
    row = ReplicaRow
    route = ReplicaRouteRow
    fails = exists().where(route.replica_id == row.id, route.failure.is_not(None))
    failed_at = func.coalesce(row.ended_at, row.draining_at)
    lately = row.ended_badly & failed_at.between(func.now() - _RECENT, func.now())
    query = (
        select(
            row.container_id,
            func.count().filter(row.state.in_((ReplicaState.READY, ReplicaState.ROUTED))),
            func.count().filter(row.state.in_((ReplicaState.REQUESTED, ReplicaState.STARTING))),
            func.count().filter(row.state == ReplicaState.ROUTED, fails),
            func.count().filter(lately),
        )
        .where(row.container_id.in_(container_ids), (row.state != ReplicaState.REMOVED) | lately)
        .group_by(row.container_id)
    )
    return {name: ReplicaFacts(*counts) for name, *counts in await session.execute(query)}


async def startup_times_s(session: AsyncSession, container_ids: Sequence[str]) -> dict[str, float]:
    """The median of what the newest replicas of each container took from their row to their first passed probe. What waited for
    another to fill its cache says how long a start takes from then on: the next one finds it full."""
    row = ReplicaRow
    took_s = func.extract("epoch", row.ready_at - func.coalesce(row.turn_at, row.created_at))
    place = func.row_number().over(partition_by=row.container_id, order_by=row.created_at.desc())
    newest = (
        select(row.container_id, took_s.label("took_s"), place.label("place"))
        .where(row.container_id.in_(container_ids), row.ready_at.is_not(None))
        .subquery()
    )
    median = func.percentile_cont(0.5).within_group(newest.c.took_s)
    query = select(newest.c.container_id, median).where(newest.c.place <= LEARN_FROM_REPLICAS)
    found = await session.execute(query.group_by(newest.c.container_id))
    return {name: float(seconds) for name, seconds in found}


async def without_credit(session: AsyncSession, container_ids: Sequence[str]) -> set[str]:
    """Containers whose organization cannot pay for an hour of one more replica, or may not within its limits."""
    query = (
        select(ContainerRow.id)
        .join(ProjectRow, ProjectRow.id == ContainerRow.project_id)
        .join(InstanceTypeRow, InstanceTypeRow.name == ContainerRow.instance_type)
        .where(
            ContainerRow.id.in_(container_ids),
            spendable_credit(ProjectRow.organization_id, ProjectRow.id) < held_price(),
        )
    )
    return set((await session.execute(query)).scalars())


async def last_decisions(session: AsyncSession, ids: Collection[str]) -> dict[str, AutoscalingDecisionRow]:
    row = AutoscalingDecisionRow
    times = select(row.container_id, func.max(row.at).label("at")).where(row.container_id.in_(ids))
    newest = times.group_by(row.container_id).subquery()
    query = select(row).join(newest, (newest.c.container_id == row.container_id) & (newest.c.at == row.at))
    return {found.container_id: found for found in (await session.execute(query)).scalars()}


async def last_rises(session: AsyncSession, ids: Collection[str]) -> dict[str, datetime]:
    """When each container's number last went up."""
    row = AutoscalingDecisionRow
    rises = select(row.container_id, func.max(row.at).label("at")).where(
        row.container_id.in_(ids), row.replicas > row.replicas_before
    )
    found = await session.execute(rises.group_by(row.container_id))
    return {one.container_id: one.at for one in found}


async def store_decision(
    session: AsyncSession, scaled: Scaled, decision: Decision, second: int, inputs: dict[str, Any]
) -> None:
    values = {
        "container_id": scaled.id,
        "at": datetime.fromtimestamp(second, UTC),
        "replicas_before": scaled.replicas,
        "replicas": decision.replicas,
        "wanted": decision.wanted,
        "limited_by": decision.limit,
        "reason": decision.reason,
        "inputs": inputs,
    }
    upsert = insert(AutoscalingDecisionRow).values(values)
    # The same second comes again only when the clock was set back: what was decided last is what holds.
    again = upsert.on_conflict_do_update(index_elements=["container_id", "at"], set_=values)
    await session.execute(again)


async def scale(session: AsyncSession, scaled: Scaled, decision: Decision) -> bool:
    """Write the number that the containers reconciler reads. False when the container is another by now than the one
    that the decision was about."""
    row = ContainerRow
    changed = (
        update(row)
        .where(
            row.id == scaled.id,
            row.desired_state == DesiredState.RUNNING,
            row.generation == scaled.generation,
            row.desired_replicas == scaled.replicas,
            row.settings["min_replicas"].as_integer() <= decision.replicas,
            row.settings["max_replicas"].as_integer() >= decision.replicas,
        )
        .values(desired_replicas=decision.replicas)
        .returning(row.id)
    )
    if (await session.execute(changed)).scalar_one_or_none() is None:
        return False
    record_activity(
        session,
        project_id=scaled.project_id,
        container_id=scaled.id,
        actor=SYSTEM,
        kind="container.autoscale",
        reason=decision.limit,
        message=decision.reason,
        details={"from": scaled.replicas, "to": decision.replicas},
    )
    await session.flush()
    await mark_due(session, [scaled.id])
    return True


async def list_decisions(
    session: AsyncSession, container_id: str, page: PageRequest
) -> list[AutoscalingDecisionRow]:
    row = AutoscalingDecisionRow
    query = select(row).where(row.container_id == container_id)
    if page.after is not None:
        query = query.where(tuple_(row.at, row.container_id) < (page.after.time, page.after.id))
    newest_first = query.order_by(row.at.desc()).limit(page.limit + 1)
    return list((await session.execute(newest_first)).scalars())


async def purge_decisions(session: AsyncSession) -> None:
    row = AutoscalingDecisionRow
    await session.execute(delete(row).where(row.at < func.now() - KEEP_DECISIONS))


async def purge_decisions_of_deleted(session: AsyncSession, kept: timedelta) -> int:
    """Whatever their date is: they refer to containers that go."""
    gone = select(ContainerRow.id).where(ContainerRow.deleted_at < func.now() - kept)
    row = AutoscalingDecisionRow
    return await delete_portion(session, row, row.container_id.in_(gone))
