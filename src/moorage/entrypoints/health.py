"""`/healthz` and `/readyz` (may this process serve?), and what there is, for the operator."""

import asyncio
from importlib.metadata import version
from typing import Literal

import structlog
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from moorage.catalog.repository import list_nodes
from moorage.containers.repository import GatewayStatus, count_states, list_gateways
from moorage.engines.base import NodeCapacity
from moorage.entrypoints.schema_repository import require_expected_schema
from moorage.identity.authentication import TheOperator
from moorage.kit.keys import require_same_keys
from moorage.kit.web import TheDatabase, TheSession
from moorage.reconcile.status import ReconcilerStatus, reconciler_statuses

log = structlog.get_logger()

root_router = APIRouter(tags=["health"])
operator_router = APIRouter(tags=["operator"])

DATABASE_ANSWERS_WITHIN_S = 3.0


class Alive(BaseModel):
    status: Literal["ok"] = "ok"


class Readiness(BaseModel):
    status: Literal["ready", "not_ready"]


class InstallationStatus(BaseModel):
    version: str
    reconcilers: list[ReconcilerStatus]
    gateways: list[GatewayStatus]
    nodes: list[NodeCapacity]
    containers: dict[str, int]
    """How many are in which state."""


@root_router.get("/healthz", summary="Check that the API process answers")
async def healthz() -> Alive:
    """Answers 200 as soon as the process runs, and checks nothing else. To learn whether it can serve, use
    `/readyz`."""
    return Alive()


@root_router.get("/readyz", summary="Check that the API can serve")
async def readyz(request: Request, response: Response, database: TheDatabase) -> Readiness:
    """Answers 200 when the database answers, has the tables this version was written for, and holds secrets
    sealed with this installation's keys; 503 otherwise. `/operator/health` says how every other part is
    doing."""
    try:
        async with asyncio.timeout(DATABASE_ANSWERS_WITHIN_S), database.reading() as session:
            await require_expected_schema(session)
            await require_same_keys(session, request.app.state.keyring)
    except Exception as exc:  # noqa: BLE001 - whatever it is, the answer is "not ready"; strangers are not told why
        log.warning("not_ready", error=repr(exc))
        response.status_code = 503
        return Readiness(status="not_ready")
    return Readiness(status="ready")


@operator_router.get("/operator/status", summary="Get the status of the installation")
async def operator_status(_: TheOperator, session: TheSession) -> InstallationStatus:
    """Returns the version, the reconcilers, gateways and machines, and the number of containers in each state."""
    return InstallationStatus(
        version=version("moorage"),
        reconcilers=await reconciler_statuses(session),
        gateways=await list_gateways(session),
        nodes=await list_nodes(session),
        containers=await count_states(session),
    )
