"""`/healthz`, `/readyz`, and the operator's view of the same."""

from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, Response
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.catalog.repository import list_nodes
from moorage.containers.repository import count_states, list_gateways
from moorage.identity.authentication import TheOperator
from moorage.kit.web import TheDatabase, TheSession
from moorage.reconcile.status import reconciler_statuses

root_router = APIRouter(tags=["health"])
operator_router = APIRouter(tags=["operator"])

EXPECTED_RECONCILERS = (
    "alerts",
    "autoscaling",
    "capsules",
    "card-payments",
    "containers",
    "doctor",
    "housekeeping",
    "ledger",
    "logs",
    "metrics",
    "renewals",
    "top-ups",
)
SILENT_AFTER_S = 15.0


@dataclass(frozen=True)
class Check:
    ok: bool
    message: str


@root_router.get("/healthz")
async def healthz() -> dict[str, str]:
    """This process answers."""
    return {"status": "ok"}


@root_router.get("/readyz")
async def readyz(response: Response, database: TheDatabase) -> dict[str, Any]:
    """200 when a deployment would work: database, reconcilers, a gateway and a machine are there."""
    try:
        async with database.transaction() as session:
            checks = await _checks(session)
    except Exception as exc:  # noqa: BLE001 - whatever it is, the answer is "not ready, because"
        checks = {"database": Check(False, f"The database does not answer: {type(exc).__name__}.")}
    ready = all(check.ok for check in checks.values())
    response.status_code = 200 if ready else 503
    return {"ready": ready, "checks": {name: asdict(check) for name, check in checks.items()}}


@operator_router.get("/operator/status")
async def operator_status(_: TheOperator, session: TheSession) -> dict[str, Any]:
    return {
        "version": version("moorage"),
        "reconcilers": [asdict(status) for status in await reconciler_statuses(session)],
        "gateways": [asdict(gateway) for gateway in await list_gateways(session)],
        "nodes": [asdict(node) for node in await list_nodes(session)],
        "containers": await count_states(session),
    }


async def _checks(session: AsyncSession) -> dict[str, Check]:
    checks = {"database": Check(True, "answers")}
    statuses = {status.name: status for status in await reconciler_statuses(session)}
    for name in EXPECTED_RECONCILERS:
        status = statuses.get(name)
        if status is None:
            checks[f"reconciler {name}"] = Check(False, "has not run yet")
        elif status.age_s > SILENT_AFTER_S:
            checks[f"reconciler {name}"] = Check(False, f"last ran {status.age_s:.0f} s ago")
        elif status.last_error is not None:
            checks[f"reconciler {name}"] = Check(False, status.last_error)
        else:
            checks[f"reconciler {name}"] = Check(True, "runs")
    alive = [gateway for gateway in await list_gateways(session) if gateway.alive]
    checks["gateway"] = Check(bool(alive), f"{len(alive)} alive" if alive else "no gateway reports")
    nodes = await list_nodes(session)
    checks["engine"] = Check(bool(nodes), f"{len(nodes)} machine(s)" if nodes else "no machine reports")
    return checks
