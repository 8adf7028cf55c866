"""The gateway agent's SQL: what it should serve, and what it reports."""

from dataclasses import dataclass

from sqlalchemy import delete, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.containers.models import ContainerRow, GatewayRow, ReplicaRouteRow, ReplicaRow
from moorage.containers.repository import mark_due
from moorage.containers.spec import ContainerSettings
from moorage.containers.states import ReplicaState
from moorage.gateway.table import GatewayTable, KeyEntry, Route, Server
from moorage.identity.api_keys.repository import list_live_keys
from moorage.kit.ids import ContainerId, GatewayId, ProjectId, ReplicaId

_AT_GATEWAY = (ReplicaState.READY, ReplicaState.ROUTED, ReplicaState.DRAINING)


@dataclass(frozen=True)
class RouteReport:
    """What this gateway says about one of its servers."""

    draining: bool
    in_flight: int


async def read_table(session: AsyncSession) -> GatewayTable:
    """Every container, running or not: one that is stopped is answered 503, one that is not there 404."""
    servers: dict[str, list[Server]] = {}
    replicas = select(ReplicaRow).where(ReplicaRow.state.in_(_AT_GATEWAY)).order_by(ReplicaRow.id)
    for row in (await session.execute(replicas)).scalars():
        draining = row.state == ReplicaState.DRAINING
        servers.setdefault(row.container_id, []).append(
            Server(ReplicaId(row.id), row.host, row.host_port, draining=draining)
        )
    routes = {}
    containers = select(ContainerRow).where(ContainerRow.deleted_at.is_(None))
    for container in (await session.execute(containers)).scalars():
        container_id = ContainerId(container.id)
        routes[container_id] = Route(
            container_id,
            ProjectId(container.project_id),
            tuple(servers.get(container.id, ())),
            health_path=ContainerSettings.from_json(container.settings).health_path,
        )
    keys = {}
    for key in await list_live_keys(session):
        expires_at_epoch_s = int(key.expires_at.timestamp()) if key.expires_at is not None else 0
        key_hash = key.key_hash.hex()
        keys[key_hash] = KeyEntry(key_hash, ProjectId(key.project_id), expires_at_epoch_s)
    return GatewayTable(routes, keys)


async def register_gateway(session: AsyncSession, gateway_id: GatewayId) -> None:
    values = {"id": gateway_id, "started_at": func.now(), "seen_at": func.now()}
    upsert = (
        insert(GatewayRow).values(values).on_conflict_do_update(index_elements=[GatewayRow.id], set_=values)
    )
    await session.execute(upsert)


async def forget_gateway(session: AsyncSession, gateway_id: GatewayId) -> None:
    """Its HAProxy has ended: it holds nothing any more."""
    routed = (
        select(ReplicaRow.container_id).join(ReplicaRouteRow).where(ReplicaRouteRow.gateway_id == gateway_id)
    )
    containers = list((await session.execute(routed)).scalars())
    await session.execute(delete(GatewayRow).where(GatewayRow.id == gateway_id))
    await mark_due(session, containers)


async def report(session: AsyncSession, gateway_id: GatewayId, held: dict[str, RouteReport]) -> None:
    """Make our rows say what HAProxy holds; wake the containers for which something changed."""
    query = select(ReplicaRouteRow).where(ReplicaRouteRow.gateway_id == gateway_id)
    before = {row.replica_id: row for row in (await session.execute(query)).scalars()}
    gone = before.keys() - held.keys()
    changed = {
        replica_id: said
        for replica_id, said in held.items()
        if replica_id not in before
        or (before[replica_id].draining, before[replica_id].in_flight) != (said.draining, said.in_flight)
    }
    await session.execute(update(GatewayRow).where(GatewayRow.id == gateway_id).values(seen_at=func.now()))
    if not gone and not changed:
        return
    ours = ReplicaRouteRow.gateway_id == gateway_id
    if gone:
        await session.execute(delete(ReplicaRouteRow).where(ours, ReplicaRouteRow.replica_id.in_(gone)))
    for replica_id, said in changed.items():
        values = {"draining": said.draining, "in_flight": said.in_flight, "changed_at": func.now()}
        upsert = insert(ReplicaRouteRow).values(gateway_id=gateway_id, replica_id=replica_id, **values)
        keys = [ReplicaRouteRow.gateway_id, ReplicaRouteRow.replica_id]
        await session.execute(upsert.on_conflict_do_update(index_elements=keys, set_=values))
    touched = select(ReplicaRow.container_id).where(ReplicaRow.id.in_([*gone, *changed])).distinct()
    await mark_due(session, list((await session.execute(touched)).scalars()))
