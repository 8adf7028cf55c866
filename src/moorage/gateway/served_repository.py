"""SQL of what a gateway saw owned machines serve, for which their owners are paid.

A *span* begins with the report that says that a replica is routed and does not fail, and ends with the one that says otherwise. While
it lasts it reaches as far as its gateway was seen, so a gateway that dies takes nobody's word for the time after. One that was
silent for longer than it may be ends its spans where it was last seen and begins new ones: nobody saw what was in between. The same
happens when the database's clock jumps.
"""

from collections.abc import Collection
from datetime import timedelta

from sqlalchemy import DateTime, String, bindparam, cast, func, select, text, update
from sqlalchemy.dialects.postgresql import ARRAY, insert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.types import Interval

from moorage.containers.models import GatewayRow, ReplicaRow
from moorage.containers.repository import SILENT_AFTER
from moorage.kit.database import delete_portion, table_of
from moorage.kit.ids import GatewayId
from moorage.machines.models import MachineRow, ServedSpanRow
from moorage.machines.ownership import is_owned

KEPT = timedelta(days=60)
"""After that nobody asks any more what an hour was paid for; what it was is in the earnings."""


async def note_seen(session: AsyncSession, gateway_id: GatewayId) -> bool | None:
    """None when the gateway is not registered, or not any more. Else whether it was silent for too long: then what it serves has to
    be said anew (`begin_spans`)."""
    found = (await session.execute(_SEEN, {"gateway": gateway_id, "silent_after": SILENT_AFTER})).first()
    return None if found is None else bool(found.was_silent)


async def begin_spans(session: AsyncSession, gateway_id: GatewayId, replica_ids: Collection[str]) -> None:
    """These are routed and do not fail; those of owned machines count from now on. Repeatable."""
    if replica_ids:
        await session.execute(_BEGIN, {"gateway": gateway_id, "replicas": sorted(replica_ids)})


async def end_spans(session: AsyncSession, gateway_id: GatewayId, replica_ids: Collection[str]) -> None:
    """These fail, drain, or are gone."""
    if replica_ids:
        await session.execute(_END, {"gateway": gateway_id, "replicas": sorted(replica_ids)})


async def end_all_spans(session: AsyncSession, gateway_id: GatewayId) -> None:
    """The gateway is to be forgotten: it saw nothing after it was last seen."""
    row = ServedSpanRow
    seen_at = select(GatewayRow.seen_at).where(GatewayRow.id == gateway_id).scalar_subquery()
    its = update(row).where(row.gateway_id == gateway_id, row.ended_at.is_(None))
    await session.execute(its.values(ended_at=func.greatest(row.began_at, seen_at)))


async def purge_spans(session: AsyncSession) -> int:
    return await delete_portion(session, ServedSpanRow, ServedSpanRow.ended_at < func.now() - KEPT)


_SEEN = text("""
WITH before AS (
    SELECT id, seen_at, abs(extract(epoch FROM now() - seen_at)) > extract(epoch FROM :silent_after) AS was_silent
    FROM gateways WHERE id = :gateway FOR UPDATE
), cut AS (
    UPDATE served_spans SET ended_at = greatest(began_at, before.seen_at)
    FROM before WHERE before.was_silent AND gateway_id = :gateway AND ended_at IS NULL
)
UPDATE gateways SET seen_at = now() FROM before WHERE gateways.id = before.id
RETURNING before.was_silent
""").bindparams(bindparam("gateway", type_=String), bindparam("silent_after", type_=Interval))

_gateway = bindparam("gateway", type_=String)
_replicas = bindparam("replicas", type_=ARRAY(String))
_BEGIN = (
    insert(table_of(ServedSpanRow))
    .from_select(
        [
            *("gateway_id", "replica_id", "began_at", "container_id", "slot"),
            *("instance_type", "machine_id", "owner_organization_id"),
        ],
        select(
            _gateway,
            ReplicaRow.id,
            cast(func.now(), DateTime(timezone=True)),
            ReplicaRow.container_id,
            ReplicaRow.slot,
            ReplicaRow.instance_type,
            MachineRow.id,
            MachineRow.owner_organization_id,
        )
        .join(MachineRow, is_owned(ReplicaRow.engine))
        .where(ReplicaRow.id == func.any(_replicas)),
    )
    # One that is open goes on. One that began and ended in this very transaction is over.
    .on_conflict_do_nothing()
)
_END = (
    update(table_of(ServedSpanRow))
    .where(
        ServedSpanRow.gateway_id == _gateway,
        ServedSpanRow.replica_id == func.any(_replicas),
        ServedSpanRow.ended_at.is_(None),
    )
    # A clock that was set back does not make what is over begin after its end.
    .values(ended_at=func.greatest(ServedSpanRow.began_at, func.now()))
)
