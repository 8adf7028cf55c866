from sqlalchemy import func, or_, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.identity.api_keys.channels import API_KEYS
from moorage.identity.api_keys.models import ApiKeyRow
from moorage.kit.database import notify
from moorage.kit.pagination import PageRequest

_LIVE = ApiKeyRow.revoked_at.is_(None) & or_(
    ApiKeyRow.expires_at.is_(None), ApiKeyRow.expires_at > func.now()
)


async def add_key(session: AsyncSession, row: ApiKeyRow) -> None:
    session.add(row)
    await session.flush()
    await notify(session, API_KEYS)


async def find_key(session: AsyncSession, key_id: str) -> ApiKeyRow | None:
    return await session.get(ApiKeyRow, key_id)


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


async def revoke_key(session: AsyncSession, key_id: str) -> None:
    live = update(ApiKeyRow).where(ApiKeyRow.id == key_id, ApiKeyRow.revoked_at.is_(None))
    await session.execute(live.values(revoked_at=func.now()))
    await notify(session, API_KEYS)
