"""Rows of what signs for doors."""

from datetime import datetime

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.containers.models import DoorAuthorityRow


async def authorities(session: AsyncSession) -> list[DoorAuthorityRow]:
    """Oldest first."""
    rows = await session.execute(select(DoorAuthorityRow).order_by(DoorAuthorityRow.number))
    return list(rows.scalars())


async def certificates(session: AsyncSession) -> str:
    """All that doors may be signed by, one after the other; empty where there are no doors."""
    rows = await session.execute(select(DoorAuthorityRow.certificate).order_by(DoorAuthorityRow.number))
    return "".join(rows.scalars())


async def add(
    session: AsyncSession, number: int, made_at: datetime, certificate: str, sealed_key: bytes
) -> None:
    """Unless somebody else was first."""
    row = {"number": number, "made_at": made_at, "certificate": certificate, "sealed_key": sealed_key}
    await session.execute(insert(DoorAuthorityRow).values(row).on_conflict_do_nothing())
