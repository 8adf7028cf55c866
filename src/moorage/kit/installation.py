"""The installation's own id: on every engine object, so that two installations never touch each other's."""

from datetime import datetime

from sqlalchemy import CheckConstraint, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Mapped, mapped_column

from moorage.kit.database import Base, CreatedAt
from moorage.kit.errors import SettingsError
from moorage.kit.ids import InstallationId, new_installation_id


class InstallationRow(Base):
    __tablename__ = "installation"
    __table_args__ = (CheckConstraint("only_row", name="only_row"),)

    only_row: Mapped[bool] = mapped_column(primary_key=True, default=True)
    id: Mapped[str]
    created_at: Mapped[CreatedAt]
    sealing_key: Mapped[str | None]
    """The fingerprint of the key that secrets are sealed with (`keys.py`)."""
    backed_up_at: Mapped[datetime | None]
    """By `moor backup`, wherever it ran."""


async def ensure_installation_id(session: AsyncSession, wanted: str | None = None) -> InstallationId:
    """`wanted`: of a new one. Raises `SettingsError` where there is another."""
    new = InstallationId(wanted) if wanted is not None else new_installation_id()
    await session.execute(insert(InstallationRow).values(only_row=True, id=new).on_conflict_do_nothing())
    found = InstallationId((await session.execute(select(InstallationRow.id))).scalar_one())
    if wanted is not None and found != wanted:
        raise SettingsError(
            f"The settings name the installation {wanted}, but this database belongs to {found}. Set "
            f"installation_id to {found}, or use another database."
        )
    return found
