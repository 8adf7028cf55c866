"""A file of lines, oldest first: read page by page, so that it costs no memory and holds no connection."""

from collections.abc import AsyncIterator

from moorage.kit.clock import Clock
from moorage.kit.database import Database
from moorage.kit.errors import InvalidInputError
from moorage.organizations.lasting_access import AskedAgain
from moorage.telemetry.logs.reading.access import LogAccess
from moorage.telemetry.logs.reading.repository import Lines, LogFilter, Order, StoredLine, list_lines

MAX_LINES = 500_000
PAGE_LINES = 250
"""A page is made at a stretch, on the loop that serves everybody."""


async def first_page(database: Database, access: LogAccess, wanted: LogFilter) -> Lines:
    """Before anything is sent, so that a refusal can still be an answer."""
    async with database.transaction() as session:
        return await list_lines(session, access.found, wanted, PAGE_LINES, order=Order.OLDEST_FIRST)


async def file_of(
    first: Lines, database: Database, access: LogAccess, wanted: LogFilter, clock: Clock
) -> AsyncIterator[str]:
    """Whatever ends it early is said in its last line: a file that is cut must not look whole."""
    may_read = AskedAgain(access, clock)
    page, sent = first, 0
    while page.items:
        yield "".join(_line(line) for line in page.items)
        sent += len(page.items)
        last = page.items[-1]
        if not page.more:
            return
        if sent >= MAX_LINES:
            yield f"[cut after {sent} lines; continue with from={last.time.isoformat()}]\n"
            return
        if not await may_read():
            yield "[cut: you can no longer see these logs]\n"
            return
        try:
            async with database.transaction() as session:
                page = await list_lines(
                    session, access.found, wanted, PAGE_LINES, last.position, Order.OLDEST_FIRST
                )
        except InvalidInputError as exc:
            yield f"[cut: {exc.message}]\n"
            return


def _line(line: StoredLine) -> str:
    return f"{line.time.isoformat()} {line.container_id} {line.replica_id} {line.stream} {line.text}\n"
