from datetime import timedelta

from sqlalchemy import ColumnElement, delete, func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.identity.device.models import DeviceLoginRow

LIFETIME = timedelta(minutes=10)
_LIVE = DeviceLoginRow.expires_at > func.now()


async def add_login(session: AsyncSession, device_code_hash: bytes, user_code: str, client_name: str) -> None:
    session.add(
        DeviceLoginRow(
            device_code_hash=device_code_hash,
            user_code=user_code,
            client_name=client_name,
            expires_at=func.now() + LIFETIME,
        )
    )
    await session.flush()


async def count_live(session: AsyncSession) -> int:
    return (await session.execute(select(func.count()).select_from(DeviceLoginRow).where(_LIVE))).scalar_one()


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


def _undecided(user_code: str) -> ColumnElement[bool]:
    return (DeviceLoginRow.user_code == user_code) & _LIVE & DeviceLoginRow.decided_by.is_(None)
