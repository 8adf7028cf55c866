from collections.abc import Sequence

from sqlalchemy import ColumnElement, and_, func, or_, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.identity.api_keys.channels import API_KEYS
from moorage.identity.api_keys.models import ApiKeyRow
from moorage.kit.database import notify
from moorage.kit.pagination import PageRequest

_LIVE = and_(
    ApiKeyRow.revoked_at.is_(None),
    ApiKeyRow.disabled_at.is_(None),
    or_(ApiKeyRow.expires_at.is_(None), ApiKeyRow.expires_at > func.now()),
)


async def add_key(session: AsyncSession, row: ApiKeyRow) -> None:
    session.add(row)
    await session.flush()
    await notify(session, API_KEYS)


async def find_key(session: AsyncSession, key_id: str) -> ApiKeyRow | None:
    return await session.get(ApiKeyRow, key_id)


async def lock_key(session: AsyncSession, key_id: str) -> ApiKeyRow:
    """For a change that depends on what the row says now."""
    query = select(ApiKeyRow).where(ApiKeyRow.id == key_id).with_for_update()
    return (await session.execute(query.execution_options(populate_existing=True))).scalar_one()


async def key_changed(session: AsyncSession) -> None:
    await session.flush()
    await notify(session, API_KEYS)


async def find_live_key(session: AsyncSession, key_hash: bytes) -> ApiKeyRow | None:
    return (
        await session.execute(select(ApiKeyRow).where(ApiKeyRow.key_hash == key_hash, _LIVE))
    ).scalar_one_or_none()


async def list_keys(session: AsyncSession, project_id: str, page: PageRequest) -> list[ApiKeyRow]:
    query = select(ApiKeyRow).where(ApiKeyRow.project_id == project_id)
    if page.after is not None:
        query = query.where(tuple_(ApiKeyRow.created_at, ApiKeyRow.id) < (page.after.time, page.after.id))
    newest_first = query.order_by(ApiKeyRow.created_at.desc(), ApiKeyRow.id.desc()).limit(page.limit + 1)
    return list((await session.execute(newest_first)).scalars())


async def list_live_keys(session: AsyncSession) -> list[ApiKeyRow]:
    """For the gateways."""
    return list((await session.execute(select(ApiKeyRow).where(_LIVE))).scalars())


async def revoke_keys_made_by(session: AsyncSession, user_id: str, project_ids: Sequence[str]) -> list[str]:
    """Theirs in these projects, and those that were made with one of them."""
    here = ApiKeyRow.project_id.in_(project_ids)
    made = select(ApiKeyRow.id).where(ApiKeyRow.created_by == user_id, here).cte("made", recursive=True)
    made = made.union(select(ApiKeyRow.id).where(ApiKeyRow.created_by == made.c.id, here))
    return await _revoke(session, ApiKeyRow.id.in_(select(made.c.id)))


async def revoke_keys_of_project(session: AsyncSession, project_id: str) -> list[str]:
    return await _revoke(session, ApiKeyRow.project_id == project_id)


async def revoke_key(session: AsyncSession, key_id: str) -> bool:
    """False where it was revoked already."""
    return bool(await _revoke(session, ApiKeyRow.id == key_id))


async def _revoke(session: AsyncSession, which: ColumnElement[bool]) -> list[str]:
    live = update(ApiKeyRow).where(which, ApiKeyRow.revoked_at.is_(None))
    revoked = await session.execute(live.values(revoked_at=func.now()).returning(ApiKeyRow.id))
    await notify(session, API_KEYS)
    return sorted(revoked.scalars())
