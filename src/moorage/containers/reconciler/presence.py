"""What a pass writes about replicas that are missing, and about those that came back."""

from collections.abc import Collection

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.containers.reconciler import doubt_repository
from moorage.containers.reconciler.loading_repository import Loaded


async def record_presence(
    session: AsyncSession, loaded: Loaded, *, missing: Collection[str], there: Collection[str]
) -> None:
    """No hour is bought for what is missing. What comes back after its hour has ended gets one in the same pass, or
    goes (`funding.py`), so the loaded rows say it too."""
    newly_missing = [row for row in loaded.replicas if row.id in missing and row.missing_since is None]
    back = [row for row in loaded.replicas if row.missing_since is not None and row.id in there]
    if newly_missing:
        await doubt_repository.mark_missing(session, [row.id for row in newly_missing])
    if back:
        await doubt_repository.mark_back(session, [row.id for row in back])
    for row in newly_missing:
        row.missing_since = loaded.now
    for row in back:
        row.missing_since = None
