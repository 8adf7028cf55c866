"""`/metrics`, for the operator's Prometheus. What this process counted itself, and what the database says of all."""

from collections.abc import Mapping
from importlib.metadata import version

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.catalog.repository import list_nodes
from moorage.containers.repository import count_states, list_gateways
from moorage.containers.sleep.repository import count_asleep
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
    response_class=PlainTextResponse,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics(_: TheOperator, request: Request, session: TheSession) -> PlainTextResponse:
    """In Prometheus' text format; the operator's key is the Bearer token."""
    counts: ApiCounts = request.app.state.api_counts
    build = Family(
        "moorage_build_info", "gauge", "The version that runs.", [Value(1, {"version": version("moorage")})]
    )
    families = [build, *counts.families(), *await _of_the_database(session)]
    return PlainTextResponse(exposition(families), media_type=CONTENT_TYPE)


async def _of_the_database(session: AsyncSession) -> list[Family]:
    statuses = await reconciler_statuses(session)
    gateways, nodes = await list_gateways(session), await list_nodes(session)
    stalls = await list_stalls(session)
    return [
        _gauge(
            "reconciler_age_seconds",
            "Since a reconciler last ran.",
            "reconciler",
            {s.name: s.age_s for s in statuses},
        ),
        _gauge(
            "reconciler_failures",
            "Rounds of a reconciler that failed one after another.",
            "reconciler",
            {s.name: s.consecutive_failures for s in statuses},
        ),
        _gauge(
            "reconciler_objects_failing",
            "Objects whose last pass failed.",
            "reconciler",
            {s.name: s.objects_failing for s in statuses},
        ),
        _gauge(
            "containers_asleep",
            "Containers that sleep, and those that were woken and do not serve yet.",
            "is",
            await count_asleep(session),
        ),
        _gauge(
            "lease_left_seconds", "How long a lease is still held.", "lease", await watched.leases(session)
        ),
        Family(
            "moorage_loop_stalls_total",
            "counter",
            "Times that an event loop computed for more than 50 ms at a stretch.",
            [Value(one.stalls, {"role": one.role, "host": one.host}) for one in stalls],
        ),
        Family(
            "moorage_loop_stall_longest_seconds",
            "gauge",
            "Processor time of the longest of them, and where it was.",
            [
                Value(one.longest_ms / 1000, {"role": one.role, "host": one.host, "where": one.longest_where})
                for one in stalls
            ],
        ),
        _gauge("waiting", "What is due and not done yet.", "queue", await watched.waiting(session)),
        _gauge("containers", "Containers by state.", "state", await count_states(session)),
        _gauge("replicas", "Replicas by state.", "state", await watched.replica_states(session)),
        _gauge("gateway_alive", "Whether a gateway reports.", "gateway", {g.id: g.alive for g in gateways}),
        _gauge("gateway_servers", "Replicas at a gateway.", "gateway", {g.id: g.servers for g in gateways}),
        _gauge("gateway_in_flight", "Requests at a gateway.", "gateway", await watched.in_flight(session)),
        _gauge("node_cpu_millis", "What a machine has.", "node", {n.name: n.cpu_millis for n in nodes}),
        _gauge("node_memory_bytes", "What a machine has.", "node", {n.name: n.memory_bytes for n in nodes}),
        _gauge("node_gpus", "What a machine has.", "node", {n.name: len(n.gpus) for n in nodes}),
        _gauge(
            "log_bytes",
            "Of the containers whose output takes most.",
            "container",
            {one.container_id: one.bytes for one in await list_largest(session, LARGEST_LOGS)},
        ),
        _gauge("stored_bytes", "Size in the database.", "table", await watched.sizes_bytes(session)),
    ]


def _gauge(name: str, help_text: str, label: str, numbers: Mapping[str, float]) -> Family:
    values = [Value(number, {label: key}) for key, number in sorted(numbers.items())]
    return Family(f"moorage_{name}", "gauge", help_text, values)
