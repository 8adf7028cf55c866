"""SQL of what a pass over a container reads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import bindparam, func, select, true
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.catalog.capacity import InstanceType
from moorage.catalog.models import InstanceTypeRow
from moorage.catalog.repository import find_instance_type, find_sibling
from moorage.catalog.siblings import in_order_of_choice, price_range
from moorage.containers.attention import watched_since
from moorage.containers.caches.repository import caches_of
from moorage.containers.models import CacheRow, ContainerRow, GatewayRow, ReplicaRouteRow, ReplicaRow
from moorage.containers.paying import wanted
from moorage.containers.reconciler.canary_row import canary_row
from moorage.containers.replica_limits.approval import awaiting, refused
from moorage.containers.replica_limits.repository import newest_request_of
from moorage.containers.repository import GATEWAY_REPORTS
from moorage.containers.spec import ContainerSettings
from moorage.containers.start_limit import NOT_ITS_FAULT, WINDOW
from moorage.containers.states import LIVE, DesiredState, Reason, ReplicaState
from moorage.containers.unpaid_starts_repository import unpaid_starts_microusd
from moorage.containers.update_rule import Figures
from moorage.containers.verdict import Fix, Probe, ProbeFailure, Verdict
from moorage.containers.versions.repository import read_figures
from moorage.ledger.hours_repository import hours_from_json, live_hours
from moorage.ledger.repository import available_credit
from moorage.ledger.rules import Hour
from moorage.ledger.spending_repository import spendable_credit
from moorage.organizations.models import OrganizationRow, ProjectRow

RECENT = timedelta(minutes=10)
SLOW = timedelta(seconds=30)


@dataclass(frozen=True)
class RouteFacts:
    """What all gateways together say about one replica."""

    taking_requests: bool
    in_flight: int
    failing_since: datetime | None = None
    """Since when it fails its health checks at every gateway that sends it requests, and answers nothing else."""
    failing: Probe | None = None


NO_ROUTE = RouteFacts(taking_requests=False, in_flight=0)


@dataclass(frozen=True)
class Failure:
    slot: int
    ended_at: datetime
    verdict: Verdict


@dataclass(frozen=True)
class Loaded:
    container: ContainerRow
    organization_id: str
    suspended: bool
    """Its organization is; then nothing of it runs, whatever its row asks for."""
    instance_type: InstanceType
    replicas: Sequence[ReplicaRow]
    routes: dict[str, RouteFacts]
    failures: Sequence[Failure]
    """Of this generation, oldest first."""
    failed_starts: Sequence[tuple[int, datetime]]
    """(slot, when) of the last hour and any generation: those that never became ready."""
    approval: Verdict | None
    now: datetime
    hours: tuple[Hour, ...]
    """Its live ones, as they were when the pass began."""
    available_microusd: int
    """What its organization has."""
    spendable_microusd: int
    """Of that, what the spending limits leave for it."""
    unpaid_starts_microusd: int = 0
    """What starts of its organization that came to nothing used today; looked up where it starts something, or has
    been starting something for a while."""
    canary: ContainerRow | None = None
    """Its version on trial that gets a share of the requests, as a row of its own."""
    host: ContainerRow | None = None
    """Where this is what is loaded of a canary: the row of the container, with the version that serves."""
    first_slot: int = 0
    canary_failures: Sequence[Failure] = ()
    caches: Sequence[CacheRow] = ()
    """What it keeps on machines."""
    figures: Mapping[int, Figures] = field(default_factory=dict)
    """By version, of two that serve beside each other: what they answered since then."""
    sibling: InstanceType | None = None
    """Of its type, where it or its canary takes machines of either kind."""
    taken_types: Mapping[str, InstanceType] = field(default_factory=dict)
    """By name: the siblings that its replicas took."""

    @property
    def desired_state(self) -> DesiredState:
        row = self.container
        return wanted(row.desired_state, row.desired_replicas, suspended=self.suspended).desired_state

    @property
    def types(self) -> tuple[InstanceType, ...]:
        """Those that its next replica may take, in that order."""
        either = ContainerSettings.from_json(self.container.settings).takes_either
        return in_order_of_choice(self.instance_type, self.sibling if either else None)

    @property
    def held_price_microusd(self) -> int:
        """Of an hour, while it is not known which type a replica takes, of the version that serves or of its canary."""
        return price_range(in_order_of_choice(self.instance_type, self.sibling)).most_microusd

    def type_of(self, replica: ReplicaRow) -> InstanceType:
        if replica.sibling_type is None:
            return self.instance_type
        if self.sibling is not None and self.sibling.name == replica.sibling_type:
            return self.sibling
        return self.taken_types[replica.sibling_type]

    @property
    def serving(self) -> ContainerRow:
        """The version that serves."""
        return self.host or self.container

    @property
    def asleep(self) -> bool:
        return self.container.asleep_since is not None

    @property
    def watched_since(self) -> datetime | None:
        return watched_since(self.container.watched_since, self.container.next_look_at, self.now)

    @property
    def stop_reason(self) -> str | None:
        held_back = self.desired_state != self.container.desired_state
        return Reason.SUSPENDED if held_back else self.container.stop_reason


# Made once: to put together statements of this size takes longer than Postgres needs to answer them.
# One that failed its health check for good has failed from then on, not only once it has ended.
_failed_at = func.coalesce(ReplicaRow.ended_at, ReplicaRow.draining_at)
_FAILED_LATELY = (
    select(ReplicaRow, _failed_at)
    .where(
        ReplicaRow.container_id == bindparam("id"),
        ReplicaRow.ended_badly,
        # What is yet to come is of a clock that went back since. Nothing waits for that.
        _failed_at.between(func.now() - WINDOW, func.now()),
    )
    .order_by(_failed_at)
)
_CONTAINER = (
    select(
        ContainerRow,
        OrganizationRow.id,
        OrganizationRow.suspended_at.is_not(None),
        func.clock_timestamp(),
        ProjectRow.replica_limit,
        live_hours(ContainerRow.id),
        available_credit(ProjectRow.organization_id),
        spendable_credit(ProjectRow.organization_id, ProjectRow.id),
        _FAILED_LATELY.exists(),
        InstanceTypeRow,
    )
    .join(ProjectRow, ProjectRow.id == ContainerRow.project_id)
    .join(OrganizationRow, OrganizationRow.id == ProjectRow.organization_id)
    .join(InstanceTypeRow, InstanceTypeRow.name == ContainerRow.instance_type)
    .where(ContainerRow.id == bindparam("id"), ContainerRow.deleted_at.is_(None))
)
_alive = GATEWAY_REPORTS
"""Only their health checks say something; but what a silent one holds it may still serve."""
_said = (
    select(
        func.bool_or(~ReplicaRouteRow.draining),
        func.sum(ReplicaRouteRow.in_flight),
        func.max(ReplicaRouteRow.failing_since).filter(_alive),
        func.bool_and(ReplicaRouteRow.failure.is_not(None) | ReplicaRouteRow.draining).filter(_alive),
        func.max(ReplicaRouteRow.failure).filter(_alive),
        func.max(ReplicaRouteRow.failure_status).filter(_alive),
    )
    .join(GatewayRow, GatewayRow.id == ReplicaRouteRow.gateway_id)
    .where(ReplicaRouteRow.replica_id == ReplicaRow.id)
    .lateral()
)
_REPLICAS = (
    select(ReplicaRow, _said)
    .join(_said, true())
    .where(ReplicaRow.container_id == bindparam("id"), ReplicaRow.state != ReplicaState.REMOVED)
    .order_by(ReplicaRow.slot, ReplicaRow.created_at)
)


async def load(session: AsyncSession, container_id: str) -> Loaded | None:
    """The container's row comes first: whatever changes while the rest is read also changes its `changes`, and
    then this pass is followed by another."""
    found = (await session.execute(_CONTAINER, {"id": container_id})).one_or_none()
    if found is None:
        return None
    container, organization_id, suspended, now, replica_limit, hours, available, spendable, failed, _ = found
    # Already in the session, so this asks nobody.
    instance_type = await find_instance_type(session, container.instance_type)
    assert instance_type is not None, "a foreign key says so"
    replicas, routes = await _replicas(session, container_id)
    canary = canary_row(container)
    canary_failures = (await _failures(session, canary, now))[0] if failed and canary is not None else []
    # Before its image is known, a deployment has started nothing that could have failed.
    failed = failed and container.image_generation == container.generation
    failures, failed_starts = await _failures(session, container, now) if failed else ([], [])
    both = [one for one in (container, canary) if one is not None]
    starting = not suspended and any(_starts_something(one, replicas, now) for one in both)
    unpaid_starts = await unpaid_starts_microusd(session, organization_id) if starting else 0
    return Loaded(
        container=container,
        organization_id=organization_id,
        suspended=suspended,
        instance_type=instance_type,
        replicas=replicas,
        routes=routes,
        failures=failures,
        failed_starts=failed_starts,
        approval=await _approval(session, container, replica_limit),
        now=now,
        hours=hours_from_json(hours),
        available_microusd=available,
        spendable_microusd=spendable,
        unpaid_starts_microusd=unpaid_starts,
        canary=canary,
        canary_failures=canary_failures,
        caches=await caches_of(session, container_id) if _may_have_caches(container) else (),
        figures=await read_figures(session, container_id) if container.rollout is not None else {},
        sibling=await find_sibling(session, instance_type) if any(map(_takes_either, both)) else None,
        taken_types=await _taken_types(session, replicas),
    )


def _takes_either(container: ContainerRow) -> bool:
    return ContainerSettings.from_json(container.settings).takes_either


async def _taken_types(session: AsyncSession, replicas: Sequence[ReplicaRow]) -> dict[str, InstanceType]:
    names = {row.sibling_type for row in replicas if row.sibling_type is not None}
    found = {name: await find_instance_type(session, name) for name in sorted(names)}
    return {name: one for name, one in found.items() if one is not None}


def _may_have_caches(container: ContainerRow) -> bool:
    both = (container.settings, container.trial_settings or {})
    # One that is asked to go may have had some under settings from before.
    return any(one.get("cache_gib") for one in both) or container.desired_state == DesiredState.DELETED


def _starts_something(container: ContainerRow, replicas: Sequence[ReplicaRow], now: datetime) -> bool:
    """Most servers are up in a moment and are looked at often until then; a question to the rows can wait."""
    if container.desired_state != DesiredState.RUNNING or container.image_generation != container.generation:
        return False
    if container.asleep_since is not None:
        return False
    mine = [row for row in replicas if row.generation == container.generation and row.state in LIVE]
    slow = any(
        row.state == ReplicaState.STARTING and row.started_at is not None and now - row.started_at > SLOW
        for row in mine
    )
    return slow or len({row.slot for row in mine}) < container.desired_replicas


async def _replicas(
    session: AsyncSession, container_id: str
) -> tuple[list[ReplicaRow], dict[str, RouteFacts]]:
    """Those that are not removed, and what the gateways say about them."""
    rows, routes = [], {}
    for row, taking, in_flight, since, failing, failure, status in await session.execute(
        _REPLICAS, {"id": container_id}
    ):
        rows.append(row)
        if taking is not None:
            probe = Probe(ProbeFailure(failure), status) if failing and failure is not None else None
            routes[row.id] = RouteFacts(taking, int(in_flight), since if failing else None, probe)
    return rows, routes


async def _approval(session: AsyncSession, container: ContainerRow, limit: int) -> Verdict | None:
    replicas = ContainerSettings.from_json(container.settings).max_replicas
    if replicas <= limit:
        return None
    newest = await newest_request_of(session, container.id)
    if newest is not None and newest.state == "refused":
        return refused(newest.replicas, limit, newest.answer)
    return awaiting(replicas, limit)


async def _failures(
    session: AsyncSession, container: ContainerRow, now: datetime
) -> tuple[list[Failure], list[tuple[int, datetime]]]:
    """What of this generation ended badly in the last minutes, and what of any failed to start in the last hour."""
    found = await session.execute(_FAILED_LATELY, {"id": container.id})
    ended = [(row, at) for row, at in found if row.reason is not None]
    recent = [
        Failure(row.slot, at, Verdict(Reason(row.reason or ""), row.message or "", Fix.from_json(row.fix)))
        for row, at in ended
        if row.generation == container.generation and at > now - RECENT
    ]
    starts = [(row.slot, at) for row, at in ended if row.ready_at is None and row.reason not in NOT_ITS_FAULT]
    return recent, starts
