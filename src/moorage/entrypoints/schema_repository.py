"""Which version the database's tables have, and which one this code was written for."""

from pathlib import Path

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.kit.errors import SetupError

_VERSIONS = Path(__file__).parent / "migrations" / "versions"
EXPECTED_VERSION = max(file.name.partition("_")[0] for file in _VERSIONS.glob("[0-9]*.py"))
"""By the names of the files: to load them all takes longer than a role takes to start. A test compares."""


async def require_expected_schema(session: AsyncSession) -> None:
    """On tables from the past or the future this code would fail somewhere, or write what another version cannot read."""
    found = (await session.execute(text("SELECT version_num FROM alembic_version"))).scalar_one_or_none()
    if found != EXPECTED_VERSION:
        raise SetupError(
            f"The database's tables are of version {found}, and this version of Moorage needs {EXPECTED_VERSION}. Run `moor migrate` "
            "with the newest version that is installed here, then start everything with that version."
        )
