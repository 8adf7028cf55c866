"""The gateway agent's SQL: what it should serve, and what it reports."""

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    String,
    and_,
    bindparam,
    case,
    cast,
    delete,
    func,
    literal,
    literal_column,
    select,
    text,
    true,
    union_all,
)
from sqlalchemy.dialects.postgresql import Insert, insert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute

from moorage.containers.door_authority_repository import certificates
from moorage.containers.models import ContainerRow, DoorAuthorityRow, GatewayRow, ReplicaRouteRow, ReplicaRow
from moorage.containers.repository import mark_due, marking_due
from moorage.containers.spec import ApiPath, Limits
from moorage.containers.states import ReplicaState
from moorage.containers.versions.repository import HAS_CANARY
from moorage.gateway import served_repository
from moorage.gateway.channels import GATEWAYS
from moorage.gateway.liveness import Health
from moorage.gateway.served_repository import begin_spans, end_all_spans, end_spans
from moorage.gateway.table import GatewayTable, KeyEntry, Route, Server, TrafficLimits
from moorage.identity.api_keys.models import ApiKeyRow
from moorage.identity.api_keys.repository import LIVE
from moorage.kit.database import notify, table_of
from moorage.kit.ids import ContainerId, GatewayId, ProjectId, ReplicaId
from moorage.organizations.models import ProjectRow

_AT_GATEWAY = and_(
    # Says nothing new, but lets Postgres use the small index of those that are not removed.
    text("replicas.state <> 'removed'"),
    ReplicaRow.state.in_((ReplicaState.READY, ReplicaState.ROUTED, ReplicaState.DRAINING)),
    # What has no address yet cannot be asked.
    ReplicaRow.host.is_not(None),
    ReplicaRow.host_port.is_not(None),
)
_SERVER_COLUMNS = (
    ReplicaRow.id,
    ReplicaRow.host,
    ReplicaRow.host_port,
    (ReplicaRow.state == ReplicaState.DRAINING).label("draining"),
    ReplicaRow.has_door,
    ReplicaRow.version,
)
_SERVED_SETTINGS = case(
    # Beside each other, both versions are served as the old one was: what the gateway has to know of them is the same, but for
    # limits, which are the new one's once it has taken over.
    (ContainerRow.rollout["from_generation"].as_integer().is_not(None), ContainerRow.fallback["settings"]),
    else_=ContainerRow.settings,
)
_ASLEEP, _WAKES = "asleep", "wakes"
"""Of both, requests are held while no server takes them. What falls asleep takes none: those that run end, and none begins."""
_ROUTE_COLUMNS = (
    ContainerRow.id,
    ContainerRow.project_id,
    _SERVED_SETTINGS["health_path"].astext,
    _SERVED_SETTINGS["limits"].astext,
    _SERVED_SETTINGS["api_path"].astext,
    case((ContainerRow.asleep_since.is_not(None), _ASLEEP), (ContainerRow.woken_at.is_not(None), _WAKES)),
    # Which version is a canary, and its share; null where there is none.
    case(
        (
            HAS_CANARY,
            func.concat(ContainerRow.rollout["version"].astext, ":", ContainerRow.rollout["share"].astext),
        ),
    ).label("canary"),
)
_ROUTE_VALUES = len(_ROUTE_COLUMNS) - 1
_LIVE_KEYS = (
    select(
        ApiKeyRow.key_hash,
        ApiKeyRow.project_id,
        ApiKeyRow.expires_at,
        ApiKeyRow.id,
        ProjectRow.organization_id,
        ApiKeyRow.requests_per_minute,
    )
    .join(ProjectRow, ProjectRow.id == ApiKeyRow.project_id)
    .where(LIVE)
)
_KEYS_AT_ONCE = 1000
KEYS, DOORS = "keys", "doors"
"""The buckets that are not of containers."""
Fingerprint = Mapping[str, list[Any]]
"""By bucket; equal buckets hold equal rows, and one without rows is not there."""
UNKNOWN: list[Any] = []
"""Of a bucket that is to be read again: like no fingerprint, and not like that of a bucket without rows either."""
_ServerValues = tuple[str, str, int, bool, bool, int]
"""The replica, its address, whether it drains, whether it has a door, and its version."""
_REPORTED = ("draining", "in_flight", "changed_at", "failure", "failure_status", "answered")
_RouteValues = Sequence[Any]
"""The project, the health path, the limits as they are stored, the API's path, whether it sleeps, and the canary."""
_ROWS_PER_STATEMENT = 1000
"""Postgres takes at most 32,767 values in one statement."""


@dataclass(frozen=True)
class RouteReport:
    """What this gateway says about one of its servers."""

    draining: bool
    in_flight: int
    health: Health | None = None
    """Of one that fails its health checks."""


async def fingerprint(session: AsyncSession) -> Fingerprint:
    """Says what `read_table` would answer otherwise than before, for a fraction of its cost: Postgres adds up hashes
    of all that the table is made of. Of contents and not of times or counters, so that no late commit escapes it."""
    parts = [
        select(bucket.label("bucket"), func.count(), func.sum(_hash(*columns)))
        .where(condition)
        .group_by(text("bucket"))
        for bucket, columns, condition in (
            (_bucket(ReplicaRow.container_id), (ReplicaRow.container_id, *_SERVER_COLUMNS), _AT_GATEWAY),
            (_bucket(ContainerRow.id), _ROUTE_COLUMNS, ContainerRow.deleted_at.is_(None)),
            # Whatever makes a key live is in its row, or is that its time has come.
            (literal(KEYS), (literal_column("api_keys::text"), ApiKeyRow.expires_at <= func.now()), true()),
            (literal(DOORS), (DoorAuthorityRow.number, DoorAuthorityRow.certificate), true()),
        )
    ]
    found: dict[str, list[Any]] = {}
    for bucket, count, total in await session.execute(union_all(*parts)):
        found.setdefault(bucket, []).append((count, total))
    # Postgres may give the parts of a union in any order.
    return {bucket: sorted(values) for bucket, values in found.items()}


async def read_table(
    session: AsyncSession, before: GatewayTable | None = None, changed: Set[str] = frozenset()
) -> GatewayTable:
    """Every container, running or not: one that is stopped is answered 503, one that is not there 404. In a transaction.

    With the table from `before`, only the changed buckets are read, and of those too a route that is as it was is
    the same object: to read and check ten thousand routes because of one takes a fifth of a second."""
    replicas = select(ReplicaRow.container_id, *_SERVER_COLUMNS).where(_AT_GATEWAY)
    containers = select(*_ROUTE_COLUMNS).where(ContainerRow.deleted_at.is_(None))
    routes: dict[ContainerId, Route] = {}
    if before is not None:
        replicas = replicas.where(_bucket(ReplicaRow.container_id).in_(changed))
        containers = containers.where(_bucket(ContainerRow.id).in_(changed))
        routes = {name: route for name, route in before.routes.items() if bucket_of(name) not in changed}
    servers: dict[str, list[_ServerValues]] = {}
    for container_id, replica_id, host, port, draining, has_door, version in await session.execute(replicas):
        if host is not None and port is not None:
            servers.setdefault(container_id, []).append((replica_id, host, port, draining, has_door, version))
    settings: _RouteValues
    for container_id, *settings in await session.execute(containers):
        wanted = sorted(servers.get(container_id, ()))
        route = before.routes.get(container_id) if before is not None else None
        if route is None or not _says(route, settings, wanted):
            route = _route(container_id, settings, wanted)
        routes[route.container_id] = route
    authorities = await _authorities(session, routes, before, changed)
    if before is not None and KEYS not in changed:
        return GatewayTable(routes, before.keys, authorities)
    return GatewayTable(routes, await _keys(session, before.keys if before is not None else {}), authorities)


async def _authorities(
    session: AsyncSession, routes: Mapping[ContainerId, Route], before: GatewayTable | None, changed: Set[str]
) -> str:
    """Where no replica has a door nobody needs them, and HAProxy is not reloaded for their sake."""
    if before is not None and before.door_authorities and DOORS not in changed:
        return before.door_authorities
    if not any(server.has_door for route in routes.values() for server in route.servers):
        return ""
    return await certificates(session)


async def _keys(session: AsyncSession, before: Mapping[str, KeyEntry]) -> dict[str, KeyEntry]:
    """Some at a time, because tens of thousands at once would hold up everything else. One that is as it was is the same
    object: then to compare them takes next to nothing."""
    keys: dict[str, KeyEntry] = {}
    found = await session.stream(_LIVE_KEYS, execution_options={"yield_per": _KEYS_AT_ONCE})
    async for some in found.partitions():
        for row in some:
            entry = _entry(*row)
            known = before.get(entry.key_hash_hex)
            keys[entry.key_hash_hex] = known if known is not None and known == entry else entry
        await asyncio.sleep(0)
    return keys


def _entry(
    key_hash: bytes,
    project_id: str,
    expires_at: datetime | None,
    key_id: str,
    organization_id: str,
    requests_per_minute: int | None,
) -> KeyEntry:
    expires_at_epoch_s = int(expires_at.timestamp()) if expires_at is not None else 0
    return KeyEntry(
        key_hash.hex(),
        ProjectId(project_id),
        expires_at_epoch_s,
        key_id,
        organization_id,
        requests_per_minute or 0,
    )


_NAMED = (
    select(*_ROUTE_COLUMNS, *_SERVER_COLUMNS)
    .outerjoin(ReplicaRow, (ReplicaRow.container_id == ContainerRow.id) & _AT_GATEWAY)
    .where(ContainerRow.id.in_(bindparam("ids", expanding=True)), ContainerRow.deleted_at.is_(None))
)


async def read_named(session: AsyncSession, before: GatewayTable, named: Set[str]) -> GatewayTable:
    """The table with these containers read again, in one statement: a deployment waits for it."""
    found: dict[str, tuple[_RouteValues, list[_ServerValues]]] = {}
    settings: _RouteValues
    for container_id, *values in await session.execute(_NAMED, {"ids": sorted(named)}):
        settings, server = values[:_ROUTE_VALUES], values[_ROUTE_VALUES:]
        _, servers = found.setdefault(container_id, (settings, []))
        if server[0] is not None:
            servers.append((server[0], server[1], server[2], server[3], server[4], server[5]))
    routes = {name: route for name, route in before.routes.items() if name not in named}
    for container_id, (settings, listed) in found.items():
        routes[ContainerId(container_id)] = _route(container_id, settings, sorted(listed))
    return GatewayTable(routes, before.keys, await _authorities(session, routes, before, frozenset()))


def changed_buckets(before: Fingerprint, after: Fingerprint) -> frozenset[str]:
    return frozenset(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


def bucket_of(container_id: str) -> str:
    """Ids are random: their first character divides them into 32 parts of about the same size."""
    return container_id[4]


async def register_gateway(session: AsyncSession, gateway_id: GatewayId) -> None:
    """One that is known is seen again only with its first report: until then nobody knows what its HAProxy holds."""
    started = {"started_at": func.now()}
    new = insert(GatewayRow).values(id=gateway_id, seen_at=func.now(), **started)
    await session.execute(new.on_conflict_do_update(index_elements=[GatewayRow.id], set_=started))
    await notify(session, GATEWAYS)


async def forget_gateway(session: AsyncSession, gateway_id: GatewayId) -> None:
    """Its HAProxy has ended: it holds nothing any more."""
    routed = (
        select(ReplicaRow.container_id).join(ReplicaRouteRow).where(ReplicaRouteRow.gateway_id == gateway_id)
    )
    containers = list((await session.execute(routed)).scalars())
    await end_all_spans(session, gateway_id)
    await session.execute(delete(GatewayRow).where(GatewayRow.id == gateway_id))
    for some in _batched(containers):
        await mark_due(session, some)
    await notify(session, GATEWAYS)


def _reporting() -> Insert:
    fails = bindparam("fails", type_=String)
    said = insert(table_of(ReplicaRouteRow)).values(
        gateway_id=bindparam("gateway"),
        replica_id=bindparam("replica"),
        draining=bindparam("drains"),
        in_flight=bindparam("requests"),
        changed_at=func.now(),
        failure=fails,
        failure_status=bindparam("with_status"),
        answered=bindparam("answers"),
        failing_since=case((fails.is_not(None), func.now())),
    )
    values: dict[str, Any] = {name: said.excluded[name] for name in _REPORTED}
    # By the database's clock: from the report that said so first, and anew whenever it answered a request since.
    goes_on = ReplicaRouteRow.failure.is_not(None) & (ReplicaRouteRow.answered == said.excluded.answered)
    still_failing = said.excluded.failure.is_not(None) & goes_on
    values["failing_since"] = case(
        (still_failing, ReplicaRouteRow.failing_since), else_=said.excluded.failing_since
    )
    keys = [ReplicaRouteRow.gateway_id, ReplicaRouteRow.replica_id]
    return said.on_conflict_do_update(index_elements=keys, set_=values)


# Made once: a deployment waits for both.
_REPORT = _reporting()
_MARK_OWNERS_DUE = marking_due(
    select(ReplicaRow.container_id).where(ReplicaRow.id.in_(bindparam("replicas", expanding=True)))
).add_columns(func.set_config("synchronous_commit", "off", True))


async def report(
    session: AsyncSession,
    gateway_id: GatewayId,
    held: dict[str, RouteReport],
    before: dict[str, RouteReport] | None = None,
) -> None:
    """Make our rows say what HAProxy holds; wake the containers for which something changed. `before` is what the
    rows say, where the caller knows it. Without a wait for the disk: what a crash of Postgres takes of it, the next
    full report says again."""
    ours = ReplicaRouteRow.gateway_id == gateway_id
    if before is None:
        rows = (await session.execute(select(ReplicaRouteRow).where(ours))).scalars()
        before = {row.replica_id: RouteReport(row.draining, row.in_flight, _health_in(row)) for row in rows}
    if before is held:
        return
    # In one order for all gateways: what HAProxy holds comes as a set.
    gone = sorted(before.keys() - held.keys())
    changed = sorted(replica_id for replica_id, said in held.items() if before.get(replica_id) != said)
    for some in _batched(gone):
        await session.execute(delete(ReplicaRouteRow).where(ours, ReplicaRouteRow.replica_id.in_(some)))
    if changed:
        said_now = [_values(gateway_id, replica_id, held[replica_id]) for replica_id in changed]
        await session.execute(_REPORT, said_now)
    for some in _batched(sorted([*gone, *changed])):
        await session.execute(_MARK_OWNERS_DUE, {"replicas": list(some)})
    serving = _serving(held)
    await end_spans(session, gateway_id, [*gone, *(one for one in changed if one not in serving)])
    await begin_spans(session, gateway_id, [one for one in changed if one in serving])


async def note_seen(session: AsyncSession, gateway_id: GatewayId, held: dict[str, RouteReport]) -> bool:
    """False when it is not registered, or not any more. `held` is what it serves now: one that was silent says it anew."""
    was_silent = await served_repository.note_seen(session, gateway_id)
    if was_silent:
        await begin_spans(session, gateway_id, _serving(held))
    return was_silent is not None


def _serving(held: dict[str, RouteReport]) -> set[str]:
    """Those that take requests: what owners of machines are paid for."""
    return {replica_id for replica_id, said in held.items() if not said.draining and said.health is None}


def _health_in(row: ReplicaRouteRow) -> Health | None:
    return None if row.failure is None else Health(row.failure, row.failure_status, row.answered)


def _values(gateway_id: GatewayId, replica_id: str, said: RouteReport) -> dict[str, Any]:
    health = said.health
    return {
        "gateway": gateway_id,
        "replica": replica_id,
        "drains": said.draining,
        "requests": said.in_flight,
        "fails": health.failure if health else None,
        "with_status": health.status if health else None,
        "answers": health.answered if health else 0,
    }


def _bucket(container_id: InstrumentedAttribute[str]) -> ColumnElement[str]:
    return func.substr(container_id, 5, 1)


def _hash(*columns: ColumnElement[Any]) -> ColumnElement[int]:
    # A row of text and not one text: ('a', 'bc') must differ from ('ab', 'c').
    return func.hash_record_extended(func.row(*(cast(column, String) for column in columns)), 0)


def _says(route: Route, settings: _RouteValues, wanted: list[_ServerValues]) -> bool:
    project_id, health_path, limits, api_path, sleep, canary = settings
    same = (route.project_id, route.health_path, route.serves_v1, route.asleep, route.canary_percent) == (
        project_id,
        health_path,
        api_path == ApiPath.V1,
        sleep is not None,
        _canary(canary)[1],
    )
    servers = _servers(_unless_asleep(wanted, sleep), canary)
    return same and route.servers == servers and (route.max_concurrency, route.limits) == _limits(limits)


def _route(container_id: str, settings: _RouteValues, wanted: list[_ServerValues]) -> Route:
    project_id, health_path, limits, api_path, sleep, canary = settings
    return Route(
        ContainerId(container_id),
        ProjectId(project_id),
        _servers(_unless_asleep(wanted, sleep), canary),
        health_path,
        *_limits(limits),
        serves_v1=api_path == ApiPath.V1,
        asleep=sleep is not None,
        canary_percent=_canary(canary)[1],
    )


def _unless_asleep(wanted: list[_ServerValues], sleep: str | None) -> list[_ServerValues]:
    if sleep != _ASLEEP:
        return wanted
    return [(name, host, port, True, has_door, version) for name, host, port, _, has_door, version in wanted]


def _servers(wanted: list[_ServerValues], canary: str | None) -> tuple[Server, ...]:
    on_trial, _ = _canary(canary)
    return tuple(
        Server(ReplicaId(replica_id), host, port, draining, has_door, version == on_trial)
        for replica_id, host, port, draining, has_door, version in wanted
    )


def _canary(said: str | None) -> tuple[int | None, int]:
    """The version, and its share; none and 0 where there is no canary."""
    if said is None:
        return None, 0
    version, _, percent = said.partition(":")
    return int(version), int(percent)


@lru_cache(maxsize=1000)
def _limits(stored: str | None) -> tuple[int, TrafficLimits]:
    """Of one replica at a time, and of each request. Most containers have the same."""
    limits = Limits(**json.loads(stored)) if stored is not None else Limits()
    return limits.max_concurrency, TrafficLimits(
        limits.max_body_bytes, limits.request_timeout_s, limits.idle_timeout_s, limits.retry_unanswered
    )


def _batched(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for first in range(0, len(ids), _ROWS_PER_STATEMENT):
        yield ids[first : first + _ROWS_PER_STATEMENT]
