"""SQL of what goes from the ledger in the end: holds that came to nothing. What was paid stays for good."""

from datetime import timedelta

from sqlalchemy import func
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.kit.database import delete_portion
from moorage.ledger.models import HourRow


async def purge_released_hours(session: AsyncSession, kept: timedelta) -> int:
    old = (HourRow.state == "released") & (HourRow.held_at < func.now() - kept)
    return await delete_portion(session, HourRow, old)
