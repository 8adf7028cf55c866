"""SQL of hours that pause: a slot that is down because a machine's GPU broke is not paid for meanwhile.

A paused hour keeps its slot and is not renewed. What was left of it is left when a replica of the slot is ready again. One
that nobody comes back for ends after `LONGEST_PAUSE`.
"""

from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import func, update
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.ledger.models import HourRow

LONGEST_PAUSE = timedelta(days=30)


async def pause_hours(
    session: AsyncSession, container_id: str, instance_type: str, slots: Sequence[int]
) -> None:
    """Those that are paid, live and not over. In a transaction that has locked the container's row."""
    hour = HourRow
    await session.execute(
        update(hour)
        .where(
            hour.container_id == container_id,
            hour.instance_type == instance_type,
            hour.slot.in_(slots),
            hour.state == "paid",
            hour.due_at.is_not(None),
            hour.paused_at.is_(None),
            hour.expires_at > func.now(),
        )
        .values(paused_at=func.now(), due_at=func.now() + LONGEST_PAUSE)
        .execution_options(synchronize_session=False)
    )


async def resume_hours(
    session: AsyncSession, container_id: str, instance_type: str, slots: Sequence[int], lead: timedelta
) -> None:
    """Something of this type is ready in these slots: their time passes again."""
    hour = HourRow
    ends_at = hour.expires_at + (func.now() - hour.paused_at)
    await session.execute(
        update(hour)
        .where(
            hour.container_id == container_id,
            hour.instance_type == instance_type,
            hour.slot.in_(slots),
            hour.paused_at.is_not(None),
            # One that ended meanwhile has been followed by another.
            hour.due_at.is_not(None),
        )
        .values(expires_at=ends_at, due_at=ends_at - lead, paused_at=None)
        .execution_options(synchronize_session=False)
    )
