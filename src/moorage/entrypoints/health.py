"""`/healthz` and `/readyz` (may this process serve?), and what there is, for the operator."""

import asyncio
from dataclasses import asdict
from importlib.metadata import version
from typing import Any, Literal

import structlog
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from moorage.catalog.repository import list_nodes
from moorage.containers.repository import count_states, list_gateways
from moorage.entrypoints.schema_repository import require_expected_schema
from moorage.identity.authentication import TheOperator
from moorage.kit.keys import require_same_keys
from moorage.kit.web import TheDatabase, TheSession
from moorage.reconcile.status import reconciler_statuses

log = structlog.get_logger()

root_router = APIRouter(tags=["health"])
operator_router = APIRouter(tags=["operator"])

DATABASE_ANSWERS_WITHIN_S = 3.0


class Readiness(BaseModel):
    status: Literal["ready", "not_ready"]


@root_router.get("/healthz")
async def healthz() -> dict[str, str]:
    """This process answers."""
    return {"status": "ok"}


@root_router.get("/readyz")
async def readyz(request: Request, response: Response, database: TheDatabase) -> Readiness:
    """200 when this process can serve: its database answers, with the tables that it was written for and secrets sealed with its keys. Whether all is well is another question: `/operator/health` answers it."""
    try:
        async with asyncio.timeout(DATABASE_ANSWERS_WITHIN_S), database.reading() as session:
            await require_expected_schema(session)
            await require_same_keys(session, request.app.state.keyring)
    except Exception as exc:  # noqa: BLE001 - whatever it is, the answer is "not ready"; strangers are not told why
        log.warning("not_ready", error=repr(exc))
        response.status_code = 503
        return Readiness(status="not_ready")
    return Readiness(status="ready")


@operator_router.get("/operator/status")
async def operator_status(_: TheOperator, session: TheSession) -> dict[str, Any]:
    return {
        "version": version("moorage"),
        "reconcilers": [asdict(status) for status in await reconciler_statuses(session)],
        "gateways": [asdict(gateway) for gateway in await list_gateways(session)],
        "nodes": [asdict(node) for node in await list_nodes(session)],
        "containers": await count_states(session),
    }
