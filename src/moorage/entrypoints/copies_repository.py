"""What copies of the roles ask about each other."""

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.containers.models import GatewayRow
from moorage.gateway.limit_sharing import NOTHING_YET
from moorage.kit.ids import GatewayId
from moorage.reconcile.models import LeaseRow


async def has_reported(session: AsyncSession, gateway_id: GatewayId) -> bool:
    """Whether it said what it serves since it started, and may let in its part: a new one's row has both times from the same
    statement."""
    query = select(GatewayRow.id).where(
        GatewayRow.id == gateway_id,
        GatewayRow.seen_at > GatewayRow.started_at,
        GatewayRow.limit_divisor.is_distinct_from(NOTHING_YET),
    )
    return (await session.execute(query)).scalar_one_or_none() is not None


async def holder_of(session: AsyncSession, lease: str) -> str | None:
    """Who leads, if somebody does."""
    query = select(LeaseRow.holder).where(
        LeaseRow.name == lease, LeaseRow.expires_at > func.clock_timestamp()
    )
    return (await session.execute(query)).scalar_one_or_none()
