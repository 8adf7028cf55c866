"""SQL of requests that were held."""

from datetime import timedelta

from sqlalchemy import delete, func
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.containers.models import ReplicaRow
from moorage.containers.sleep.repository import sleep_before
from moorage.telemetry.requests.held import Held, Wake
from moorage.telemetry.requests.held_models import HeldRequestRow


async def find_held(session: AsyncSession, request_id: str) -> tuple[Held, Wake | None] | None:
    """With the wake that it waited for."""
    row = await session.get(HeldRequestRow, request_id)
    if row is None:
        return None
    held = Held(row.arrived_at, row.held_ms, row.place, row.places, row.replica_id, row.code, row.comments)
    slept = await sleep_before(session, row.container_id, row.arrived_at)
    if slept is None:
        return held, None
    replica = await session.get(ReplicaRow, slept.replica_id) if slept.replica_id is not None else None
    wake = Wake(slept.asleep_at, slept.woken_at)
    if replica is not None and slept.woken_at is not None and replica.created_at >= slept.woken_at:
        moments = (replica.created_at, replica.started_at, replica.ready_at)
        wake = Wake(slept.asleep_at, slept.woken_at, *moments, replica.id)
    return held, wake


async def purge_held(session: AsyncSession, kept: timedelta) -> None:
    await session.execute(delete(HeldRequestRow).where(HeldRequestRow.arrived_at < func.now() - kept))
