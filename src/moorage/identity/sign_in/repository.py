from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import ColumnElement, case, delete, func, update
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.identity.sign_in.models import SignInCodeRow, SignInLinkRow

CODE_LIFETIME = timedelta(minutes=10)
CODE_TRIES = 5
LINK_LIFETIME = timedelta(hours=1)


async def add_code(
    session: AsyncSession, code_id: str, email: str, code_hash: bytes, origin: str, *, by_stranger: bool
) -> None:
    """The newest code of an origin is its only one: those before it die. Other origins keep theirs."""
    older = _live(email) & (SignInCodeRow.origin == origin)
    await session.execute(update(SignInCodeRow).where(older).values(tries_left=0, tries_left_elsewhere=0))
    session.add(
        SignInCodeRow(
            id=code_id,
            email=email,
            code_hash=code_hash,
            origin=origin,
            by_stranger=by_stranger,
            tries_left=CODE_TRIES,
            tries_left_elsewhere=CODE_TRIES,
            expires_at=func.now() + CODE_LIFETIME,
        )
    )


async def take_tries(session: AsyncSession, email: str, origin: str) -> Sequence[SignInCodeRow]:
    """The codes that may be looked at, with one try of each used up, so that racing guesses cannot share one. Whoever
    asked for a code has tries of their own, which strangers cannot spend."""
    row = SignInCodeRow
    own = row.origin == origin
    taken = (
        update(row)
        .where(_live(email), case((own, row.tries_left), else_=row.tries_left_elsewhere) > 0)
        .values(
            tries_left=row.tries_left - case((own, 1), else_=0),
            tries_left_elsewhere=row.tries_left_elsewhere - case((own, 0), else_=1),
        )
        .returning(row)
    )
    return (await session.execute(taken)).scalars().all()


async def use_code(session: AsyncSession, code_id: str) -> bool:
    used = update(SignInCodeRow).where(SignInCodeRow.id == code_id, SignInCodeRow.used_at.is_(None))
    return (
        await session.execute(used.values(used_at=func.now()).returning(SignInCodeRow.id))
    ).first() is not None


async def add_link(session: AsyncSession, user_id: str, token_hash: bytes) -> None:
    session.add(SignInLinkRow(token_hash=token_hash, user_id=user_id, expires_at=func.now() + LINK_LIFETIME))


async def use_link(session: AsyncSession, token_hash: bytes) -> str | None:
    """The user it signs in; the link is gone afterwards."""
    live = (SignInLinkRow.token_hash == token_hash) & (SignInLinkRow.expires_at > func.now())
    return (
        await session.execute(delete(SignInLinkRow).where(live).returning(SignInLinkRow.user_id))
    ).scalar_one_or_none()


async def purge_old_codes(session: AsyncSession) -> None:
    await session.execute(
        delete(SignInCodeRow).where(SignInCodeRow.created_at < func.now() - timedelta(days=1))
    )
    await session.execute(delete(SignInLinkRow).where(SignInLinkRow.expires_at < func.now()))


def _live(email: str) -> ColumnElement[bool]:
    return (
        (SignInCodeRow.email == email)
        & SignInCodeRow.used_at.is_(None)
        & (SignInCodeRow.expires_at > func.now())
    )
