from sqlalchemy import delete, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.ledger.models import SpendingLimitRow
from moorage.organizations.models import ProjectRow


async def put_limit(
    session: AsyncSession, organization_id: str, scope_id: str, limit_microusd: int | None
) -> bool:
    """False where it was that already. What was told of the limit before does not count for the new one."""
    row = SpendingLimitRow
    if limit_microusd is None:
        gone = delete(row).where(row.scope_id == scope_id).returning(row.scope_id)
        return (await session.execute(gone)).first() is not None
    added = insert(row).values(
        scope_id=scope_id, organization_id=organization_id, limit_microusd=limit_microusd, told_percent=0
    )
    changed = {"limit_microusd": limit_microusd, "told_month": None, "told_percent": 0}
    put = added.on_conflict_do_update(
        index_elements=[row.scope_id], set_=changed, where=row.limit_microusd != limit_microusd
    )
    return (await session.execute(put.returning(row.scope_id))).first() is not None


async def list_project_names(session: AsyncSession, organization_id: str) -> list[tuple[str, str]]:
    """(id, name), by name."""
    query = select(ProjectRow.id, ProjectRow.name).where(
        ProjectRow.organization_id == organization_id, ProjectRow.deleted_at.is_(None)
    )
    return [(one, name) for one, name in await session.execute(query.order_by(ProjectRow.name))]
