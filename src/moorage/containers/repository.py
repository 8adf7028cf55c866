"""SQL of containers as the API and the layers above see them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import BindParameter, Select, bindparam, case, func, select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.catalog.models import InstanceTypeRow
from moorage.catalog.siblings import PriceRange
from moorage.containers.channels import CONTAINERS
from moorage.containers.models import ActivityRow, ContainerRow, GatewayRow, ReplicaRouteRow, ReplicaRow
from moorage.containers.paying import slots_that_serve
from moorage.containers.prices import prices_of
from moorage.containers.spec import ContainerSettings
from moorage.containers.start_limit import NOT_ITS_FAULT, PACE, WINDOW
from moorage.containers.states import LIVE, ReplicaState
from moorage.kit.database import table_of
from moorage.kit.pagination import PageRequest, Position
from moorage.ledger.rules import Occupied
from moorage.organizations.models import ProjectRow

SILENT_AFTER = timedelta(seconds=15)
GATEWAY_REPORTS = GatewayRow.seen_at.between(func.now() - SILENT_AFTER, func.now() + SILENT_AFTER)
"""One seen in times to come was seen before the clock was set back; whoever reports has been seen since."""


@dataclass(frozen=True)
class GatewayStatus:
    id: str
    seen_at: datetime
    alive: bool
    servers: int


def marking_due(container_ids: Select[str] | BindParameter[str]) -> Select[Any]:
    """A statement that asks for a pass over these containers as soon as its transaction commits. One, because a
    deployment waits for several of these. Several containers are locked in the order of their ids, whoever marks them:
    docs/locking.md."""
    containers = table_of(ContainerRow)
    locked = (
        select(containers.c.id)
        .where(containers.c.id.in_(container_ids), containers.c.deleted_at.is_(None))
        .order_by(containers.c.id)
        .with_for_update(key_share=True, of=containers)
        .cte("locked")
    )
    marked = (
        containers.update()
        .where(containers.c.id == locked.c.id)
        .values(changes=containers.c.changes + 1, reconcile_at=func.now())
        .returning(containers.c.id)
        .cte("marked")
    )
    only_one = case((func.count() == 1, func.max(marked.c.id)), else_="")
    return select(func.pg_notify(CONTAINERS, only_one)).select_from(marked)


_MARK_DUE = marking_due(bindparam("ids", expanding=True))


async def mark_due(session: AsyncSession, container_ids: Sequence[str]) -> None:
    await session.execute(_MARK_DUE, {"ids": list(container_ids)})


_FIND = select(ContainerRow).where(ContainerRow.id == bindparam("id"), ContainerRow.deleted_at.is_(None))


async def find_container(session: AsyncSession, container_id: str) -> ContainerRow | None:
    return (await session.execute(_FIND, {"id": container_id})).scalar_one_or_none()


async def lock_container(session: AsyncSession, container_id: str) -> ContainerRow:
    """For a change that depends on what the row says now."""
    query = select(ContainerRow).where(ContainerRow.id == container_id).with_for_update()
    return (await session.execute(query.execution_options(populate_existing=True))).scalar_one()


async def list_containers(session: AsyncSession, project_id: str, page: PageRequest) -> list[ContainerRow]:
    query = select(ContainerRow).where(
        ContainerRow.project_id == project_id, ContainerRow.deleted_at.is_(None)
    )
    if page.after is not None:
        query = query.where(
            tuple_(ContainerRow.created_at, ContainerRow.id) < (page.after.time, page.after.id)
        )
    newest_first = query.order_by(ContainerRow.created_at.desc(), ContainerRow.id.desc()).limit(
        page.limit + 1
    )
    return list((await session.execute(newest_first)).scalars())


async def mark_organization_due(session: AsyncSession, organization_id: str) -> None:
    projects = select(ProjectRow.id).where(ProjectRow.organization_id == organization_id)
    query = select(ContainerRow.id).where(
        ContainerRow.project_id.in_(projects), ContainerRow.deleted_at.is_(None)
    )
    await session.execute(marking_due(query))


async def current_nodes(session: AsyncSession, container_id: str) -> list[str]:
    """Where its replicas are; if none is there, where those of its last deployment were."""
    its = select(ReplicaRow.node).where(ReplicaRow.container_id == container_id).distinct()
    present = sorted((await session.execute(its.where(ReplicaRow.state.in_(LIVE)))).scalars())
    if present:
        return present
    newest = select(func.max(ReplicaRow.generation)).where(ReplicaRow.container_id == container_id)
    last = its.where(ReplicaRow.generation == newest.scalar_subquery())
    return sorted((await session.execute(last)).scalars())


async def occupied_slots(session: AsyncSession, row: ContainerRow) -> Occupied:
    """Of a container whose row is locked: which of its slots have replicas, and which of those have to be paid."""
    query = select(ReplicaRow).where(ReplicaRow.container_id == row.id, ReplicaRow.state.in_(LIVE))
    live = (await session.execute(query)).scalars().all()
    return Occupied(frozenset(one.slot for one in live), slots_that_serve(live, row.instance_type))


async def list_container_ids(session: AsyncSession, project_id: str) -> list[str]:
    query = select(ContainerRow.id).where(
        ContainerRow.project_id == project_id, ContainerRow.deleted_at.is_(None)
    )
    return sorted((await session.execute(query)).scalars())


async def ready_counts(session: AsyncSession, container_ids: Sequence[str]) -> dict[str, int]:
    query = (
        select(ReplicaRow.container_id, func.count())
        .where(
            ReplicaRow.container_id.in_(container_ids),
            ReplicaRow.state == ReplicaState.ROUTED,
            ReplicaRow.missing_since.is_(None),
        )
        .group_by(ReplicaRow.container_id)
    )
    return {row.container_id: row[1] for row in await session.execute(query)}


_routed = (
    (ReplicaRow.container_id == bindparam("id"))
    & (ReplicaRow.state == ReplicaState.ROUTED)
    & ReplicaRow.missing_since.is_(None)
)
_READY_AND_TYPE = select(
    select(func.count()).select_from(ReplicaRow).where(_routed).scalar_subquery(), InstanceTypeRow
).where(InstanceTypeRow.name == bindparam("type"))


async def ready_count_and_prices(session: AsyncSession, row: ContainerRow) -> tuple[int, PriceRange]:
    """What a container's answer says beside its own row."""
    ready, _kept = (await session.execute(_READY_AND_TYPE, {"id": row.id, "type": row.instance_type})).one()
    return int(ready), await prices_of(session, ContainerSettings.from_json(row.settings))


async def list_replicas(session: AsyncSession, container_id: str, page: PageRequest) -> list[ReplicaRow]:
    """Live ones first, then those that ended; of each kind the newest first."""
    live = ReplicaRow.state.in_(LIVE)
    query = select(ReplicaRow).where(ReplicaRow.container_id == container_id)
    if page.after is not None:
        group, _, last_id = page.after.id.partition(" ")
        older = tuple_(live, ReplicaRow.created_at, ReplicaRow.id) < (
            group == _LIVE_GROUP,
            page.after.time,
            last_id,
        )
        query = query.where(older)
    ordered = query.order_by(live.desc(), ReplicaRow.created_at.desc(), ReplicaRow.id.desc())
    return list((await session.execute(ordered.limit(page.limit + 1))).scalars())


def replica_position(row: ReplicaRow) -> Position:
    """With the group it was listed in: by the next page it may have ended, and the rest of the live ones still follow."""
    group = _LIVE_GROUP if row.state in LIVE else "ended"
    return Position(row.created_at, f"{group} {row.id}")


_LIVE_GROUP = "live"


async def list_activities(session: AsyncSession, container_id: str, page: PageRequest) -> list[ActivityRow]:
    query = select(ActivityRow).where(ActivityRow.container_id == container_id)
    if page.after is not None:
        query = query.where(tuple_(ActivityRow.at, ActivityRow.id) < (page.after.time, page.after.id))
    newest_first = query.order_by(ActivityRow.at.desc(), ActivityRow.id.desc()).limit(page.limit + 1)
    return list((await session.execute(newest_first)).scalars())


async def count_containers(session: AsyncSession, project_id: str) -> int:
    there = (ContainerRow.project_id == project_id) & ContainerRow.deleted_at.is_(None)
    return (await session.execute(select(func.count()).where(there))).scalar_one()


async def count_states(session: AsyncSession) -> dict[str, int]:
    query = select(ContainerRow.state, func.count()).where(ContainerRow.deleted_at.is_(None))
    return {row.state: row[1] for row in await session.execute(query.group_by(ContainerRow.state))}


async def list_gateways(session: AsyncSession) -> list[GatewayStatus]:
    query = (
        select(GatewayRow.id, GatewayRow.seen_at, GATEWAY_REPORTS, func.count(ReplicaRouteRow.replica_id))
        .outerjoin(ReplicaRouteRow, ReplicaRouteRow.gateway_id == GatewayRow.id)
        .group_by(GatewayRow.id)
        .order_by(GatewayRow.id)
    )
    return [GatewayStatus(*row) for row in await session.execute(query)]


_ASKED_STARTS = (
    "container.start",
    "container.restart",
    "container.fix",
    "container.draft_apply",
    "container.rollback",
)


async def ages_of_asked_starts_s(session: AsyncSession, container_id: str) -> list[float]:
    """Of those that people and keys asked for within the last minute."""
    age_s = func.extract("epoch", func.now() - ActivityRow.at)
    query = select(age_s).where(
        ActivityRow.container_id == container_id,
        ActivityRow.at.between(func.now() - PACE, func.now()),
        ActivityRow.kind.in_(_ASKED_STARTS),
    )
    return [float(age) for age in (await session.execute(query)).scalars()]


async def failed_starts(session: AsyncSession, container_id: str) -> list[tuple[int, datetime]]:
    """(slot, when) of the last hour's replicas that ended badly before they were ever ready, of any generation."""
    failed_at = func.coalesce(ReplicaRow.ended_at, ReplicaRow.draining_at)
    query = select(ReplicaRow.slot, failed_at).where(
        ReplicaRow.container_id == container_id,
        ReplicaRow.ended_badly,
        ReplicaRow.ready_at.is_(None),
        ReplicaRow.reason.not_in(NOT_ITS_FAULT),
        failed_at.between(func.now() - WINDOW, func.now()),
    )
    return [(slot, at) for slot, at in await session.execute(query)]
