"""CSV that a spreadsheet takes for what it is."""

import csv
import io
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, TypeVar

from moorage.kit.pagination import PageRequest, Position
from moorage.kit.streams import CountedStream, OpenStream

ItemT = TypeVar("ItemT")

CSV_ANSWER: dict[int | str, dict[str, Any]] = {200: {"content": {"text/csv": {}}}}
"""What a route says about such an answer in the API's description."""
_ROWS_AT_ONCE = 250
"""More of them would keep the loop from everybody else for too long."""


def csv_answer(name: str, lines: AsyncIterator[str], stream: OpenStream) -> CountedStream:
    """As a file of that name."""
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return CountedStream(stream, lines, media_type="text/csv", headers=headers)


async def csv_lines(
    columns: Sequence[str],
    read: Callable[[PageRequest], Awaitable[Sequence[ItemT]]],
    cells: Callable[[ItemT], Sequence[str]],
    position: Callable[[ItemT], Position],
) -> AsyncIterator[str]:
    """All of a list, page by page, so that no transaction waits for a slow reader. `read` gives one more than it is
    asked for where there is more."""
    yield csv_line(columns)
    after: Position | None = None
    while True:
        found = await read(PageRequest(_ROWS_AT_ONCE, after))
        for item in found[:_ROWS_AT_ONCE]:
            yield csv_line(cells(item))
            after = position(item)
        if len(found) <= _ROWS_AT_ONCE:
            return


def csv_line(cells: Sequence[str]) -> str:
    text = io.StringIO()
    csv.writer(text).writerow([_inert(cell) for cell in cells])
    return text.getvalue()


def _inert(cell: str) -> str:
    """A spreadsheet takes a cell that begins like this for a formula; with a quote before it, for text."""
    is_number = cell.removeprefix("-").replace(".", "", 1).isdigit()
    return f"'{cell}" if cell.startswith(("=", "+", "-", "@")) and not is_number else cell
