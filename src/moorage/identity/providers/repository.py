from datetime import timedelta

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.identity.providers.models import IdentityRow, ProviderAttemptRow
from moorage.identity.users.models import UserRow
from moorage.kit.database import take_turn

ATTEMPT_LIFETIME = timedelta(minutes=10)


async def has_room(session: AsyncSession, most: int, source: str | None = None) -> bool:
    """Whether fewer are under way, in all or from one source. Until the transaction ends, nobody else begins one there."""
    if source is not None:
        await take_turn(session, f"provider-attempt:{source}")
    under_way = ProviderAttemptRow.expires_at > func.now()
    begun = under_way if source is None else under_way & (ProviderAttemptRow.source == source)
    beyond = select(ProviderAttemptRow.expires_at).where(begun).offset(most - 1).limit(1)
    return (await session.execute(beyond)).first() is None


async def add_attempt(
    session: AsyncSession, token_hash: bytes, provider: str, return_to: str, source: str
) -> None:
    session.add(
        ProviderAttemptRow(
            token_hash=token_hash,
            provider=provider,
            return_to=return_to,
            source=source,
            expires_at=func.now() + ATTEMPT_LIFETIME,
        )
    )


async def use_attempt(session: AsyncSession, token_hash: bytes, provider: str) -> str | None:
    """Where to go afterwards; the attempt is gone, whatever comes of it."""
    table = ProviderAttemptRow
    found = (
        delete(table)
        .where(table.token_hash == token_hash)
        .returning(table.return_to, table.provider == provider, table.expires_at > func.now())
    )
    row = (await session.execute(found)).one_or_none()
    return row[0] if row is not None and row[1] and row[2] else None


async def find_user_of_identity(session: AsyncSession, issuer: str, subject: str) -> UserRow | None:
    query = (
        select(UserRow)
        .join(IdentityRow, IdentityRow.user_id == UserRow.id)
        .where(IdentityRow.issuer == issuer, IdentityRow.subject == subject)
    )
    return (await session.execute(query)).scalar_one_or_none()


async def add_identity(session: AsyncSession, issuer: str, subject: str, user_id: str, email: str) -> None:
    values = {"issuer": issuer, "subject": subject, "user_id": user_id, "email": email}
    await session.execute(insert(IdentityRow).values(values).on_conflict_do_nothing())


async def list_identities(session: AsyncSession, user_id: str) -> list[IdentityRow]:
    query = select(IdentityRow).where(IdentityRow.user_id == user_id)
    oldest_first = query.order_by(IdentityRow.created_at, IdentityRow.issuer, IdentityRow.subject).limit(200)
    return list((await session.execute(oldest_first)).scalars())


async def purge_attempts(session: AsyncSession) -> None:
    await session.execute(delete(ProviderAttemptRow).where(ProviderAttemptRow.expires_at < func.now()))
