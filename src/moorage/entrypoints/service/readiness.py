"""Whether a role of this version does its work: what `moor upgrade` asks of the version that it started, which knows what that takes."""

import asyncio
from datetime import timedelta

import httpx
from sqlalchemy import func, select

from moorage.containers.repository import list_gateways
from moorage.entrypoints.announcement import operator_client
from moorage.entrypoints.foundation import running_pid
from moorage.entrypoints.gateway_role import create_dataplane
from moorage.entrypoints.health_parts import State
from moorage.entrypoints.reconcilers import RECONCILERS
from moorage.entrypoints.schema_repository import require_expected_schema
from moorage.entrypoints.sockets import api_socket_path
from moorage.gateway.agent import stable_gateway_id
from moorage.kit.clock import system_clock
from moorage.kit.database import Database
from moorage.kit.errors import MoorageError, SettingsError
from moorage.kit.postgres import database_dsn
from moorage.kit.settings import Settings
from moorage.reconcile.status import ReconcilerStatus, reconciler_statuses

_LIMIT_S = 10.0
_FAILED_LONG = timedelta(seconds=60)


async def missing_of(settings: Settings, role: str, pid: int, since_s: float) -> str | None:
    """None: nothing. `since_s`: when that process was asked to start, by the wall clock; what is older says nothing about it."""
    checks = {"keep": _keep, "gateway": _gateway, "controller": _controller, "api": _api}
    if role not in checks:
        raise SettingsError(f"There is no role {role!r}. The roles are {', '.join(checks)}.")
    try:
        async with asyncio.timeout(_LIMIT_S):
            return await checks[role](settings, pid, since_s)
    except MoorageError as exc:
        return exc.message
    except Exception as exc:  # noqa: BLE001 - whatever it is, the answer is "not ready", and says so
        return repr(exc)


async def failing_parts(settings: Settings) -> frozenset[str]:
    """By their names, as Health shows them."""
    try:
        async with operator_client(settings) as client:
            health = (await client.get("/api/v1/operator/health")).raise_for_status().json()
    except (httpx.HTTPError, ValueError):
        return frozenset({"the API"})
    return frozenset(one["name"] for one in health["parts"] if one["state"] == State.FAILING)


async def _keep(settings: Settings, pid: int, since_s: float) -> str | None:
    told = settings.run_dir / "roles.env"
    if running_pid(settings) != pid or not told.exists() or told.stat().st_mtime < since_s:
        return "it has not prepared the machine for the roles yet"
    database = Database(database_dsn(settings), pool_size=1)
    try:
        async with database.reading() as session:
            await require_expected_schema(session)
    finally:
        await database.close()
    return None


async def _gateway(settings: Settings, pid: int, since_s: float) -> str | None:
    if not create_dataplane(settings).alive():
        return "HAProxy does not run"
    database = Database(database_dsn(settings), pool_size=1)
    try:
        async with database.reading() as session:
            own = [one for one in await list_gateways(session) if one.id == stable_gateway_id(settings.home)]
            now = (await session.execute(select(func.clock_timestamp()))).scalar_one()
    finally:
        await database.close()
    elapsed = timedelta(seconds=system_clock.now().timestamp() - since_s)
    return None if own and now - own[0].seen_at < elapsed else "it has not reported yet"


async def _controller(settings: Settings, pid: int, since_s: float) -> str | None:
    database = Database(database_dsn(settings), pool_size=1)
    try:
        async with database.reading() as session:
            statuses = {one.name: one for one in await reconciler_statuses(session)}
    finally:
        await database.close()
    elapsed_s = system_clock.now().timestamp() - since_s
    late = [name for name in RECONCILERS if name not in statuses or statuses[name].age_s > elapsed_s]
    if late:
        return f"not run yet: {', '.join(late)}"
    failing = [f"{one.name} ({one.last_error})" for one in statuses.values() if _fails_since(one, elapsed_s)]
    return f"failing: {', '.join(failing)}" if failing else None


def _fails_since(status: ReconcilerStatus, elapsed_s: float) -> bool:
    """One that failed for long before is not this process's doing."""
    if status.name not in RECONCILERS or not status.consecutive_failures:
        return False
    if status.last_success_at is None:
        return status.consecutive_failures * 2 <= elapsed_s
    return status.last_run_at - status.last_success_at < timedelta(seconds=elapsed_s) + _FAILED_LONG


async def _api(settings: Settings, pid: int, since_s: float) -> str | None:
    """Through its own socket: who stands behind HAProxy now is not asked about."""
    transport = httpx.AsyncHTTPTransport(uds=str(api_socket_path(settings)))
    async with httpx.AsyncClient(transport=transport, base_url="http://api", timeout=_LIMIT_S) as client:
        answer = await client.get("/readyz")
    return None if answer.status_code == httpx.codes.OK else "the API says that it is not ready"
