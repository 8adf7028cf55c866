"""Puts together what is known of one request."""

from dataclasses import asdict
from datetime import datetime, timedelta

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.telemetry.requests.held import Wake, phases, told, with_replica
from moorage.telemetry.requests.held_repository import find_held
from moorage.telemetry.requests.list_repository import PRINTED_AFTER
from moorage.telemetry.requests.moments import moments
from moorage.telemetry.requests.phases import awake_phases
from moorage.telemetry.requests.receipt_repository import (
    find_cost,
    find_request_container,
    find_request_key,
    find_request_replica,
)
from moorage.telemetry.requests.record import RequestRecord, receipt
from moorage.telemetry.requests.schemas import Request, RequestLines, RequestWake


async def receipt_of(
    session: AsyncSession, record: RequestRecord, gateway_id: str, *, kept_days: int, now: datetime
) -> Request:
    held, wake = await find_held(session, record.request_id) or (None, None)
    if held is not None:
        record = with_replica(record, held)
    container_id, replica_id = record.container_id, record.replica_id
    explanation = receipt(record)
    return Request(
        **asdict(record),
        gateway_id=gateway_id,
        container=await find_request_container(session, container_id) if container_id is not None else None,
        key=await find_request_key(session, record.key_id),
        replica=await find_request_replica(session, replica_id) if replica_id is not None else None,
        explanation=told(record, held, wake, explanation) if held is not None else explanation,
        held_ms=held.held_ms if held is not None else None,
        held_comments=held.comments if held is not None else 0,
        phases=phases(record, held, wake) if held is not None else awake_phases(record),
        wake=RequestWake(wake.asleep_at, wake.woken_at) if wake is not None else None,
        moments=moments(record, held, wake),
        lines=_lines(record, wake),
        cost=await find_cost(session, record, wake, now),
        kept_days=kept_days,
    )


def _lines(record: RequestRecord, wake: Wake | None) -> RequestLines | None:
    if record.replica_id is None:
        return None
    began_at = record.started_at
    if wake is not None and wake.replica_id == record.replica_id and wake.requested_at is not None:
        # What it printed while it came up is why it took so long.
        began_at = min(began_at, wake.requested_at)
    ended_at = record.started_at + timedelta(milliseconds=record.total_ms)
    return RequestLines(record.replica_id, began_at, ended_at + PRINTED_AFTER)
