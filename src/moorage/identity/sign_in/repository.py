from datetime import timedelta

from sqlalchemy import ColumnElement, delete, func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.identity.sign_in.models import SignInCodeRow, SignInLinkRow

CODE_LIFETIME = timedelta(minutes=10)
CODE_TRIES = 5
LINK_LIFETIME = timedelta(hours=1)


async def lock_address(session: AsyncSession, email: str) -> None:
    """Whoever else asks for a code for this address waits until this transaction ends, and counts it then."""
    await session.execute(
        select(func.pg_advisory_xact_lock(func.hashtextextended(f"sign-in-code:{email}", 0)))
    )


async def count_recent_codes(session: AsyncSession, email: str, within: timedelta) -> int:
    recent = (SignInCodeRow.email == email) & (SignInCodeRow.created_at > func.now() - within)
    return (await session.execute(select(func.count()).select_from(SignInCodeRow).where(recent))).scalar_one()


async def add_code(session: AsyncSession, code_id: str, email: str, code_hash: bytes) -> None:
    """The newest code is the only one: those before it die."""
    await session.execute(update(SignInCodeRow).where(_usable(email)).values(tries_left=0))
    session.add(
        SignInCodeRow(
            id=code_id,
            email=email,
            code_hash=code_hash,
            tries_left=CODE_TRIES,
            expires_at=func.now() + CODE_LIFETIME,
        )
    )


async def take_try(session: AsyncSession, email: str) -> SignInCodeRow | None:
    """Use up one try of the live code before looking at it, so that racing guesses cannot share one."""
    taken = (
        update(SignInCodeRow)
        .where(_usable(email))
        .values(tries_left=SignInCodeRow.tries_left - 1)
        .returning(SignInCodeRow)
    )
    return (await session.execute(taken)).scalar_one_or_none()


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


def _usable(email: str) -> ColumnElement[bool]:
    return (
        (SignInCodeRow.email == email)
        & (SignInCodeRow.tries_left > 0)
        & SignInCodeRow.used_at.is_(None)
        & (SignInCodeRow.expires_at > func.now())
    )
