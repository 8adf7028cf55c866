from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, and_, delete, func, not_, or_, select, tuple_, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.identity.api_keys.channels import API_KEYS
from moorage.identity.api_keys.models import ApiKeyRow, ApiKeyUseRow
from moorage.identity.api_keys.uses import KeyUse
from moorage.kit.database import delete_portion, notify
from moorage.kit.pagination import PageRequest

LIVE = and_(
    ApiKeyRow.revoked_at.is_(None),
    ApiKeyRow.disabled_at.is_(None),
    or_(ApiKeyRow.expires_at.is_(None), ApiKeyRow.expires_at > func.now()),
)
_TEMPORARY = and_(
    # As the console's playground makes one for itself.
    ApiKeyRow.scope == "inference",
    ApiKeyRow.expires_at.is_not(None),
    ApiKeyRow.expires_at - ApiKeyRow.created_at <= timedelta(hours=1),
)


async def add_key(session: AsyncSession, row: ApiKeyRow) -> None:
    session.add(row)
    await session.flush()
    await notify(session, API_KEYS)


async def count_lasting_keys(session: AsyncSession, project_id: str) -> int:
    """That work, or would again when they are enabled."""
    lasts = and_(
        ApiKeyRow.revoked_at.is_(None),
        or_(ApiKeyRow.expires_at.is_(None), ApiKeyRow.expires_at > func.now()),
    )
    query = select(func.count()).where(ApiKeyRow.project_id == project_id, lasts)
    return (await session.execute(query)).scalar_one()


async def find_key(session: AsyncSession, key_id: str) -> ApiKeyRow | None:
    return await session.get(ApiKeyRow, key_id)


async def lock_key(session: AsyncSession, key_id: str) -> ApiKeyRow:
    """For a change that depends on what the row says now."""
    query = select(ApiKeyRow).where(ApiKeyRow.id == key_id).with_for_update()
    return (await session.execute(query.execution_options(populate_existing=True))).scalar_one()


async def lock_keys(session: AsyncSession, key_ids: Sequence[str]) -> dict[str, ApiKeyRow]:
    """Several, in the order in which everybody locks them."""
    query = select(ApiKeyRow).where(ApiKeyRow.id.in_(key_ids)).order_by(ApiKeyRow.id).with_for_update()
    rows = (await session.execute(query.execution_options(populate_existing=True))).scalars()
    return {row.id: row for row in rows}


async def key_changed(session: AsyncSession) -> None:
    await session.flush()
    await notify(session, API_KEYS)


async def find_live_key(session: AsyncSession, key_hash: bytes) -> tuple[ApiKeyRow, bool] | None:
    """The key, and whether this use of it is worth noting: the first in its minute is."""
    noted = func.coalesce(ApiKeyUseRow.last_used_at >= _this_minute(), False)
    query = (
        select(ApiKeyRow, not_(noted))
        .outerjoin(ApiKeyUseRow, ApiKeyUseRow.key_id == ApiKeyRow.id)
        .where(ApiKeyRow.key_hash == key_hash, LIVE)
    )
    found = (await session.execute(query)).one_or_none()
    return (found[0], found[1]) if found is not None else None


async def note_use(session: AsyncSession, key_id: str, client_address: str) -> None:
    now = (await session.execute(select(_this_minute()))).scalar_one()
    await note_uses(session, {key_id: KeyUse(now, client_address)})


async def note_uses(session: AsyncSession, uses: Mapping[str, KeyUse]) -> None:
    """Of each key the latest stays, whoever tells of it first. Keys that are gone are passed over."""
    if not uses:
        return
    # In one order, so that two gateways never wait for each other.
    there = select(ApiKeyRow.id).where(ApiKeyRow.id == func.any(sorted(uses))).order_by(ApiKeyRow.id)
    key_ids = (await session.execute(there.with_for_update(read=True, key_share=True))).scalars().all()
    if not key_ids:
        return
    upsert = insert(ApiKeyUseRow)
    upsert = upsert.on_conflict_do_update(
        index_elements=[ApiKeyUseRow.key_id],
        set_={name: upsert.excluded[name] for name in ("last_used_at", "last_used_from")},
        where=ApiKeyUseRow.last_used_at < upsert.excluded.last_used_at,
    )
    rows = [
        {
            "key_id": key_id,
            "last_used_at": uses[key_id].at,
            "last_used_from": uses[key_id].client_address,
        }
        for key_id in key_ids
    ]
    await session.execute(upsert, rows)


async def uses_of(session: AsyncSession, key_ids: Sequence[str]) -> dict[str, KeyUse]:
    """Those that were never used are absent."""
    rows = (await session.execute(select(ApiKeyUseRow).where(ApiKeyUseRow.key_id.in_(key_ids)))).scalars()
    return {row.key_id: KeyUse(row.last_used_at, row.last_used_from) for row in rows}


async def list_keys(session: AsyncSession, project_id: str, page: PageRequest) -> list[ApiKeyRow]:
    """Without those that were made for an hour at most and have ended: a playground makes four of them in an hour."""
    query = select(ApiKeyRow).where(
        ApiKeyRow.project_id == project_id, not_(and_(_TEMPORARY, ApiKeyRow.expires_at <= func.now()))
    )
    if page.after is not None:
        query = query.where(tuple_(ApiKeyRow.created_at, ApiKeyRow.id) < (page.after.time, page.after.id))
    newest_first = query.order_by(ApiKeyRow.created_at.desc(), ApiKeyRow.id.desc()).limit(page.limit + 1)
    return list((await session.execute(newest_first)).scalars())


async def revoke_keys_made_by(session: AsyncSession, user_id: str, project_ids: Sequence[str]) -> list[str]:
    """Theirs in these projects, and those that were made with one of them."""
    here = ApiKeyRow.project_id.in_(project_ids)
    return await _revoke(session, _and_made_with_them((ApiKeyRow.created_by == user_id) & here))


async def revoke_keys_of_project(session: AsyncSession, project_id: str) -> list[str]:
    return await _revoke(session, ApiKeyRow.project_id == project_id)


async def revoke_key(session: AsyncSession, key_id: str) -> list[str]:
    """With those that were made with it; none where all of them were revoked already."""
    return await _revoke(session, _and_made_with_them(ApiKeyRow.id == key_id))


async def purge_temporary_keys(session: AsyncSession) -> None:
    """A day after their end; nobody is told of them any more."""
    ended = ApiKeyRow.expires_at < func.now() - timedelta(days=1)
    await session.execute(delete(ApiKeyRow).where(_TEMPORARY, ended))


async def purge_ended_keys(session: AsyncSession, kept: timedelta) -> int:
    """Whoever rotates a key every week leaves one behind each time that was never revoked."""
    ended_at = func.least(ApiKeyRow.revoked_at, ApiKeyRow.expires_at)
    return await delete_portion(session, ApiKeyRow, ended_at < func.now() - kept)


def _this_minute() -> ColumnElement[datetime]:
    return func.date_trunc("minute", func.now())


def _and_made_with_them(first: ColumnElement[bool]) -> ColumnElement[bool]:
    made = select(ApiKeyRow.id).where(first).cte("made", recursive=True)
    made = made.union(select(ApiKeyRow.id).where(ApiKeyRow.created_by == made.c.id))
    return ApiKeyRow.id.in_(select(made.c.id))


async def _revoke(session: AsyncSession, which: ColumnElement[bool]) -> list[str]:
    """First the locks, then the question: whoever makes a key with one of these holds it, and what they made counts."""
    first = select(ApiKeyRow.id).where(which, ApiKeyRow.revoked_at.is_(None))
    await session.execute(first.order_by(ApiKeyRow.id).with_for_update())
    live = update(ApiKeyRow).where(which, ApiKeyRow.revoked_at.is_(None))
    revoked = await session.execute(live.values(revoked_at=func.now()).returning(ApiKeyRow.id))
    await notify(session, API_KEYS)
    return sorted(revoked.scalars())
