"""A search through much that somebody asked for, which must not keep the database busy for all others."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sqlalchemy import func, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.kit.errors import InvalidInputError

_QUERY_CANCELED = "57014"


@asynccontextmanager
async def bounded_search(
    session: AsyncSession, longest_s: float, refusal: InvalidInputError
) -> AsyncIterator[None]:
    """Something rare among millions takes long: better a clear answer than a busy database. The limit holds for the rest of the
    transaction, so there must be one."""
    await session.execute(select(func.set_config("statement_timeout", f"{longest_s}s", True)))
    try:
        yield
    except DBAPIError as exc:
        if getattr(exc.orig, "sqlstate", None) != _QUERY_CANCELED:
            raise
        raise refusal from exc
