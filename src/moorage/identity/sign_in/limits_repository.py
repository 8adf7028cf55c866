"""SQL of what strangers asked for and guessed lately, and of where an address signed in."""

import math
from datetime import timedelta

from sqlalchemy import ColumnElement, delete, func, insert, select
from sqlalchemy.dialects.postgresql import insert as insert_or_update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute

from moorage.identity.sign_in.models import SignInCodeRow, SignInGuessRow, SignInSourceRow
from moorage.kit.database import take_turn

GUESSES_KEPT = timedelta(hours=1)
SOURCES_KEPT = timedelta(days=180)


async def lock_origin(session: AsyncSession, origin: str) -> None:
    """Taken before an address's lock: whoever holds both took them in this order."""
    await take_turn(session, f"sign-in-origin:{origin}")


async def lock_address(session: AsyncSession, email: str) -> None:
    """Whoever else asks for a code for this address waits until this transaction ends, and counts it then."""
    await take_turn(session, f"sign-in-code:{email}")


async def wait_for_codes(
    session: AsyncSession,
    most: int,
    within: timedelta,
    *,
    origin: str | None = None,
    address: str | None = None,
    strangers: bool = False,
) -> int | None:
    """None while there is room for one more; else after how many seconds there is."""
    row = SignInCodeRow
    counted: list[ColumnElement[bool]] = [] if origin is None else [row.origin == origin]
    counted += [] if address is None else [row.email == address]
    counted += [row.by_stranger.is_(True)] if strangers else []
    return await _wait(session, row.created_at, counted, most, within)


async def wait_for_guesses(session: AsyncSession, most: int, within: timedelta, origin: str) -> int | None:
    return await _wait(session, SignInGuessRow.created_at, [SignInGuessRow.origin == origin], most, within)


async def add_guess(session: AsyncSession, origin: str) -> int:
    added = insert(SignInGuessRow).values(origin=origin).returning(SignInGuessRow.id)
    return (await session.execute(added)).scalar_one()


async def forget_guess(session: AsyncSession, guess_id: int) -> None:
    await session.execute(delete(SignInGuessRow).where(SignInGuessRow.id == guess_id))


async def is_known(session: AsyncSession, email: str, source: str) -> bool:
    """Whether somebody signed in with this address from there."""
    return await session.get(SignInSourceRow, (email, source)) is not None


async def remember_source(session: AsyncSession, email: str, source: str) -> None:
    row = insert_or_update(SignInSourceRow).values(email=email, source=source)
    await session.execute(
        row.on_conflict_do_update(index_elements=["email", "source"], set_={"last_at": func.now()})
    )


async def purge_guesses_and_sources(session: AsyncSession) -> None:
    guess, source = SignInGuessRow, SignInSourceRow
    await session.execute(delete(guess).where(guess.created_at < func.now() - GUESSES_KEPT))
    await session.execute(delete(source).where(source.last_at < func.now() - SOURCES_KEPT))


async def _wait(
    session: AsyncSession,
    at: InstrumentedAttribute[object],
    counted: list[ColumnElement[bool]],
    most: int,
    within: timedelta,
) -> int | None:
    """Of the last `most`, the oldest is the first to leave the window. No more than `most` rows are read."""
    left_s = func.extract("epoch", at + within - func.now())
    query = select(left_s).where(*counted, at > func.now() - within)
    oldest = (await session.execute(query.order_by(at.desc()).offset(most - 1).limit(1))).scalar_one_or_none()
    return None if oldest is None else max(math.ceil(oldest), 1)
