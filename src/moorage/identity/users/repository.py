from sqlalchemy import bindparam, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.identity.users.models import OperatorKeyRow, UserRow
from moorage.kit.ids import new_user_id


async def find_user(session: AsyncSession, user_id: str) -> UserRow | None:
    return await session.get(UserRow, user_id)


async def find_user_by_email(session: AsyncSession, email: str) -> UserRow | None:
    return (await session.execute(select(UserRow).where(UserRow.email == email))).scalar_one_or_none()


async def find_operator(session: AsyncSession) -> UserRow | None:
    query = select(UserRow).where(UserRow.is_operator).order_by(UserRow.created_at).limit(1)
    return (await session.execute(query)).scalar_one_or_none()


_known = select(OperatorKeyRow.key_hash).where(OperatorKeyRow.key_hash == bindparam("key_hash")).exists()
_OPERATOR = select(UserRow).where(UserRow.is_operator, _known).order_by(UserRow.created_at).limit(1)


async def find_operator_by_key(session: AsyncSession, key_hash: bytes) -> UserRow | None:
    return (await session.execute(_OPERATOR, {"key_hash": key_hash})).scalar_one_or_none()


async def create_user(
    session: AsyncSession, email: str, *, is_operator: bool = False
) -> tuple[UserRow, bool]:
    """The user of that verified address, and whether it is new."""
    values = {
        "id": new_user_id(),
        "email": email,
        "is_operator": is_operator,
        "email_verified_at": func.now(),
    }
    created = insert(UserRow).values(values).on_conflict_do_nothing().returning(UserRow.id)
    is_new = (await session.execute(created)).scalar_one_or_none() is not None
    user = await find_user_by_email(session, email)
    assert user is not None, "inserted or there before"
    return user, is_new


async def replace_operator_key(session: AsyncSession, key_hash: bytes) -> None:
    for row in (await session.execute(select(OperatorKeyRow))).scalars():
        await session.delete(row)
    session.add(OperatorKeyRow(key_hash=key_hash))


async def operator_key_exists(session: AsyncSession, key_hash: bytes) -> bool:
    return await session.get(OperatorKeyRow, key_hash) is not None
