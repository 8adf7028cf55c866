from datetime import timedelta

from sqlalchemy import ColumnElement, delete, func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.identity.device.models import DeviceLoginRow
from moorage.kit.database import take_turn

LIFETIME = timedelta(minutes=10)
_LIVE = DeviceLoginRow.expires_at > func.now()


async def add_login(
    session: AsyncSession, device_code_hash: bytes, user_code: str, client_name: str, source: str
) -> None:
    session.add(
        DeviceLoginRow(
            device_code_hash=device_code_hash,
            user_code=user_code,
            client_name=client_name,
            source=source,
            expires_at=func.now() + LIFETIME,
        )
    )
    await session.flush()


async def has_room(session: AsyncSession, most: int) -> bool:
    """Whether fewer wait than that."""
    return await _has_room(session, _LIVE, most)


async def has_room_from(session: AsyncSession, source: str, most: int) -> bool:
    """The same of one source. Until the transaction ends, nobody else adds one from there."""
    await take_turn(session, f"device-login:{source}")
    return await _has_room(session, _LIVE & (DeviceLoginRow.source == source), most)


async def find_undecided(session: AsyncSession, user_code: str) -> DeviceLoginRow | None:
    return (await session.execute(select(DeviceLoginRow).where(_undecided(user_code)))).scalar_one_or_none()


async def decide(session: AsyncSession, user_code: str, user_id: str, approved: bool) -> bool:
    """False where nothing waits under this code."""
    decided = (
        update(DeviceLoginRow).where(_undecided(user_code)).values(decided_by=user_id, approved=approved)
    )
    return (await session.execute(decided.returning(DeviceLoginRow.user_code))).first() is not None


async def find_live(session: AsyncSession, device_code_hash: bytes) -> DeviceLoginRow | None:
    query = select(DeviceLoginRow).where(DeviceLoginRow.device_code_hash == device_code_hash, _LIVE)
    return (await session.execute(query.with_for_update())).scalar_one_or_none()


async def remove(session: AsyncSession, row: DeviceLoginRow) -> None:
    await session.delete(row)


async def purge_device_logins(session: AsyncSession) -> None:
    await session.execute(delete(DeviceLoginRow).where(DeviceLoginRow.expires_at < func.now()))


async def _has_room(session: AsyncSession, rows: ColumnElement[bool], most: int) -> bool:
    beyond = select(DeviceLoginRow.expires_at).where(rows).offset(most - 1).limit(1)
    return (await session.execute(beyond)).first() is None


def _undecided(user_code: str) -> ColumnElement[bool]:
    return (DeviceLoginRow.user_code == user_code) & _LIVE & DeviceLoginRow.decided_by.is_(None)
