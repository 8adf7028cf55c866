"""What was already done under an `Idempotency-Key`, so that a repeated POST makes nothing twice.

An *attempt* claims the key before it begins. Whatever it changes is committed together with the note that it was, in
one transaction (`note_commit`), so that no crash leaves the change without the note. An attempt that committed nothing
gives the key back; one that vanished is overtaken after a minute, and can then commit nothing any more.
"""

from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import ColumnElement, Index, delete, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Mapped, mapped_column

from moorage.kit.database import Base, CreatedAt
from moorage.kit.errors import ConflictError, TooManyRequestsError

KEPT = timedelta(days=1)
MOST_PER_OWNER = 5000
MOST_BYTES_PER_OWNER = 16 * 2**20
GIVEN_UP_AFTER = timedelta(minutes=1)
_FORGOTTEN = ""
"""The attempt of a request whose answer nobody gets any more: no attempt has this name, so none can add it again."""


class IdempotentRequestRow(Base):
    __tablename__ = "idempotent_requests"
    __table_args__ = (
        Index("ix_idempotent_requests_begun_at", "begun_at"),
        Index("ix_idempotent_requests_owner", "owner"),
    )

    actor: Mapped[str] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(primary_key=True)
    owner: Mapped[str]
    """Whose share of this table it is: a person's, with all keys they made."""
    attempt: Mapped[str]
    fingerprint: Mapped[bytes]
    """Of the method, the path and the body."""
    begun_at: Mapped[CreatedAt]
    committed: Mapped[bool] = mapped_column(default=False)
    answer: Mapped[bytes | None]
    """Encrypted: it may hold a secret that is shown once."""


@dataclass(frozen=True)
class Attempt:
    id: str
    actor: str
    key: str
    owner: str


@dataclass(frozen=True)
class Earlier:
    fingerprint: bytes
    committed: bool
    answer: bytes | None
    forgotten: bool = False
    """It was carried out, and nobody gets its answer any more."""


async def claim(session: AsyncSession, attempt: Attempt, fingerprint: bytes) -> Earlier | None:
    """None where the key is ours now; otherwise what is known of the request that has it."""
    table = IdempotentRequestRow
    vanished = (table.committed.is_(False)) & (table.begun_at < func.now() - GIVEN_UP_AFTER)
    values = {"attempt": attempt.id, "fingerprint": fingerprint, "committed": False, "answer": None}
    taken = (
        insert(table)
        .values(actor=attempt.actor, key=attempt.key, owner=attempt.owner, **values)
        .on_conflict_do_update(
            index_elements=[table.actor, table.key],
            set_={**values, "owner": attempt.owner, "begun_at": func.now()},
            where=or_(vanished, table.begun_at < func.now() - KEPT),
        )
        .returning(table.attempt)
    )
    if (await session.execute(taken)).first() is not None:
        await _require_room(session, attempt)
        return None
    query = select(table.fingerprint, table.committed, table.answer, table.attempt == _FORGOTTEN)
    found = (
        await session.execute(query.where(table.actor == attempt.actor, table.key == attempt.key))
    ).one_or_none()
    # Given back in this very moment: to be asked again.
    return Earlier(*found) if found is not None else Earlier(fingerprint, committed=False, answer=None)


async def note_commit(session: AsyncSession, attempt: Attempt) -> None:
    """To be called in the transaction of the change."""
    noted = update(IdempotentRequestRow).where(_mine(attempt)).values(committed=True)
    if (await session.execute(noted.returning(IdempotentRequestRow.attempt))).first() is None:
        raise ConflictError(
            "This request took so long that another one with the same Idempotency-Key went ahead.",
            code="idempotency_key_in_use",
        )


async def keep_answer(session: AsyncSession, attempt: Attempt, answer: bytes) -> None:
    """Beyond what is kept of one owner's, only that it was done: who asks again is told so."""
    table = IdempotentRequestRow
    sizes = select(func.coalesce(func.sum(func.octet_length(table.answer)), 0))
    kept_bytes = (await session.execute(sizes.where(table.owner == attempt.owner))).scalar_one()
    fits = kept_bytes + len(answer) <= MOST_BYTES_PER_OWNER
    kept = update(table).where(_mine(attempt))
    await session.execute(kept.values(committed=True, answer=answer if fits else None))


async def _require_room(session: AsyncSession, attempt: Attempt) -> None:
    """To drop an old one instead would let it be done a second time."""
    mine = select(func.count()).where(IdempotentRequestRow.owner == attempt.owner)
    if (await session.execute(mine)).scalar_one() > MOST_PER_OWNER:
        raise TooManyRequestsError(
            f"Moorage already remembers {MOST_PER_OWNER} of your requests with an Idempotency-Key, each for "
            "a day. Send this one without a key, or later.",
            retry_after_s=3600,
            code="too_many_idempotency_keys",
        )


async def give_back(session: AsyncSession, attempt: Attempt) -> None:
    """Unless it committed: then the key stays used, whatever became of the answer."""
    unused = _mine(attempt) & IdempotentRequestRow.committed.is_(False)
    await session.execute(delete(IdempotentRequestRow).where(unused))


async def forget_answers(session: AsyncSession, actor: str) -> None:
    """Of somebody who may do less from now on: an answer that was right then may hold what they must not have now. That
    it was carried out stays known, or whoever repeats a request would make what they still may a second time."""
    answered = (IdempotentRequestRow.actor == actor) & IdempotentRequestRow.committed
    forgotten = update(IdempotentRequestRow).where(answered)
    await session.execute(forgotten.values(attempt=_FORGOTTEN, answer=None))


async def purge_old_requests(session: AsyncSession) -> None:
    old = IdempotentRequestRow.begun_at < func.now() - KEPT
    await session.execute(delete(IdempotentRequestRow).where(old))


def _mine(attempt: Attempt) -> ColumnElement[bool]:
    table = IdempotentRequestRow
    return (table.actor == attempt.actor) & (table.key == attempt.key) & (table.attempt == attempt.id)
