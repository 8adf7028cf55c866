"""`/metrics`, for the operator's Prometheus. What this process counted itself, and what the database says of all."""

from importlib.metadata import version

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.catalog.repository import list_nodes
from moorage.containers.repository import count_states, list_gateways
from moorage.containers.sleep.repository import count_asleep
from moorage.entrypoints import metric_list as names
from moorage.entrypoints.api_counts import ApiCounts
from moorage.identity.authentication import TheOperator
from moorage.kit.exposition import Family, Value, exposition
from moorage.kit.stalls.repository import list_stalls
from moorage.kit.web import TheSession
from moorage.reconcile.status import reconciler_statuses
from moorage.telemetry import operator_repository as watched
from moorage.telemetry.logs.budget.repository import list_largest

router = APIRouter(tags=["operator"])
LARGEST_LOGS = 20
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@router.get(
    "/metrics",
    summary="Read metrics for Prometheus",
    response_class=PlainTextResponse,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics(_: TheOperator, request: Request, session: TheSession) -> PlainTextResponse:
    """Returns the installation's figures in Prometheus' text format. Have Prometheus send the operator's key as its
    Bearer token."""
    counts: ApiCounts = request.app.state.api_counts
    build = names.BUILD_INFO.family([Value(1, {"version": version("moorage")})])
    families = [build, *counts.families(), *await _of_the_database(session)]
    return PlainTextResponse(exposition(families), media_type=CONTENT_TYPE)


async def _of_the_database(session: AsyncSession) -> list[Family]:
    statuses = await reconciler_statuses(session)
    gateways, nodes = await list_gateways(session), await list_nodes(session)
    stalls = await list_stalls(session)
    return [
        names.RECONCILER_AGE.by_label({s.name: s.age_s for s in statuses}),
        names.RECONCILER_FAILURES.by_label({s.name: s.consecutive_failures for s in statuses}),
        names.RECONCILER_OBJECTS_FAILING.by_label({s.name: s.objects_failing for s in statuses}),
        names.CONTAINERS_ASLEEP.by_label(await count_asleep(session)),
        names.LEASE_LEFT.by_label(await watched.leases(session)),
        names.LOOP_STALLS.family([Value(one.stalls, {"role": one.role, "host": one.host}) for one in stalls]),
        names.LOOP_STALL_LONGEST.family(
            [
                Value(one.longest_ms / 1000, {"role": one.role, "host": one.host, "where": one.longest_where})
                for one in stalls
            ]
        ),
        names.WAITING.by_label(await watched.waiting(session)),
        names.CONTAINERS.by_label(await count_states(session)),
        names.REPLICAS.by_label(await watched.replica_states(session)),
        names.GATEWAY_ALIVE.by_label({g.id: g.alive for g in gateways}),
        names.GATEWAY_SERVERS.by_label({g.id: g.servers for g in gateways}),
        names.GATEWAY_IN_FLIGHT.by_label(await watched.in_flight(session)),
        names.NODE_READY.by_label({n.name: n.ready for n in nodes}),
        names.NODE_CPU.by_label({n.name: n.cpu_millis for n in nodes}),
        names.NODE_MEMORY.by_label({n.name: n.memory_bytes for n in nodes}),
        names.NODE_GPUS.by_label({n.name: len(n.gpus) for n in nodes}),
        names.LOG_BYTES.by_label(
            {one.container_id: one.bytes for one in await list_largest(session, LARGEST_LOGS)}
        ),
        names.STORED_BYTES.by_label(await watched.sizes_bytes(session)),
    ]
