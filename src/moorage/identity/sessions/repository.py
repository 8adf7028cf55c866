from datetime import timedelta

from sqlalchemy import and_, bindparam, delete, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.identity.sessions.models import SessionRow
from moorage.identity.users.models import UserRow
from moorage.kit.ids import SessionId, UserId, new_session_id

IDLE_LIMIT = timedelta(hours=12)
TOTAL_LIMIT = timedelta(days=14)
NOTE_USE_EVERY = timedelta(minutes=1)
CLIENT_LENGTH = 200


_LIVE = and_(
    SessionRow.ended_at.is_(None),
    SessionRow.expires_at > func.now(),
    SessionRow.last_used_at > func.now() - IDLE_LIMIT,
)


async def create_session(
    session: AsyncSession, user_id: UserId, token_hash: bytes, client: str = ""
) -> SessionId:
    session_id = new_session_id()
    session.add(
        SessionRow(
            id=session_id,
            user_id=user_id,
            token_hash=token_hash,
            client=client[:CLIENT_LENGTH],
            last_used_at=func.now(),
            expires_at=func.now() + TOTAL_LIMIT,
        )
    )
    await session.flush()
    return session_id


_FIND_LIVE = (
    select(SessionRow, UserRow, SessionRow.last_used_at < func.now() - NOTE_USE_EVERY)
    .join(UserRow, UserRow.id == SessionRow.user_id)
    .where(SessionRow.token_hash == bindparam("token_hash"), _LIVE)
)
"""Made once: nearly every request asks it."""


async def find_live_session(
    session: AsyncSession, token_hash: bytes
) -> tuple[SessionRow, UserRow, bool] | None:
    """The session, its user, and whether this use is worth noting: a busy console must not write on every read."""
    found = (await session.execute(_FIND_LIVE, {"token_hash": token_hash})).one_or_none()
    return (found[0], found[1], found[2]) if found is not None else None


async def note_use(session: AsyncSession, session_id: SessionId) -> None:
    await session.execute(
        update(SessionRow).where(SessionRow.id == session_id).values(last_used_at=func.now())
    )


async def end_session(session: AsyncSession, session_id: SessionId) -> None:
    await session.execute(update(SessionRow).where(SessionRow.id == session_id).values(ended_at=func.now()))


async def list_live_sessions(session: AsyncSession, user_id: UserId) -> list[SessionRow]:
    query = select(SessionRow).where(SessionRow.user_id == user_id, _LIVE)
    last_used_first = query.order_by(SessionRow.last_used_at.desc(), SessionRow.id).limit(200)
    return list((await session.execute(last_used_first)).scalars())


async def end_session_of(session: AsyncSession, session_id: str, user_id: UserId) -> bool:
    """False where there is no such live session of theirs."""
    theirs = update(SessionRow).where(SessionRow.id == session_id, SessionRow.user_id == user_id, _LIVE)
    ended = await session.execute(theirs.values(ended_at=func.now()).returning(SessionRow.id))
    return ended.first() is not None


async def end_sessions(session: AsyncSession, user_id: UserId, but: SessionId | None = None) -> None:
    """All of a person's, but perhaps one."""
    theirs = update(SessionRow).where(SessionRow.user_id == user_id, SessionRow.ended_at.is_(None))
    if but is not None:
        theirs = theirs.where(SessionRow.id != but)
    await session.execute(theirs.values(ended_at=func.now()))


async def purge_dead_sessions(session: AsyncSession) -> None:
    dead = or_(
        SessionRow.expires_at < func.now() - timedelta(days=1),
        SessionRow.ended_at < func.now() - timedelta(days=1),
    )
    await session.execute(delete(SessionRow).where(dead))
