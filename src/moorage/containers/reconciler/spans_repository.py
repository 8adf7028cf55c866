"""SQL of what gateways see served (`gateway/served_repository.py`), where a replica goes to another slot meanwhile."""

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession


async def follow_slots(session: AsyncSession, container_id: str) -> None:
    """From now on its replicas serve in the slots that their rows say: whoever owns their machines is paid by the hours of those."""
    await session.execute(_FOLLOW, {"container": container_id})


# Until then as far as the gateway was seen, as with every span that lasts.
_FOLLOW = text("""
WITH before AS (
    UPDATE served_spans AS span SET ended_at = greatest(span.began_at, least(now(), gateways.seen_at))
    FROM replicas, gateways
    WHERE span.container_id = :container AND span.ended_at IS NULL AND gateways.id = span.gateway_id
        AND replicas.id = span.replica_id AND replicas.slot <> span.slot
    RETURNING span.*, replicas.slot AS new_slot
)
INSERT INTO served_spans (gateway_id, replica_id, began_at, container_id, slot, instance_type, machine_id, owner_organization_id)
SELECT gateway_id, replica_id, now(), container_id, new_slot, instance_type, machine_id, owner_organization_id FROM before
""")
