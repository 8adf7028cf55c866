from sqlalchemy import case, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.kit.stalls.models import LoopStallsRow
from moorage.kit.stalls.watchdog import Stalls


async def add_stalls(session: AsyncSession, role: str, host: str, stalls: Stalls) -> None:
    """None at all is worth a row too: it says that somebody watches."""
    row = LoopStallsRow
    longest_ms = round(stalls.longest_s * 1000)
    found = insert(row).values(
        role=role,
        host=host,
        stalls=stalls.count,
        longest_ms=longest_ms,
        longest_where=stalls.where,
        last_at=func.now() if stalls.count else None,
    )
    is_longest = found.excluded.longest_ms > row.longest_ms
    await session.execute(
        found.on_conflict_do_update(
            index_elements=[row.role, row.host],
            set_={
                "stalls": row.stalls + found.excluded.stalls,
                "longest_ms": func.greatest(row.longest_ms, found.excluded.longest_ms),
                "longest_where": case((is_longest, found.excluded.longest_where), else_=row.longest_where),
                "last_at": func.coalesce(found.excluded.last_at, row.last_at),
            },
        )
    )


async def list_stalls(session: AsyncSession) -> list[LoopStallsRow]:
    query = select(LoopStallsRow).order_by(LoopStallsRow.role, LoopStallsRow.host)
    return list((await session.execute(query)).scalars())
