"""CSV that a spreadsheet takes for what it is."""

import csv
import io
from collections.abc import Sequence


def csv_line(cells: Sequence[str]) -> str:
    text = io.StringIO()
    csv.writer(text).writerow([_inert(cell) for cell in cells])
    return text.getvalue()


def _inert(cell: str) -> str:
    """A spreadsheet takes a cell that begins like this for a formula; with a quote before it, for text."""
    is_number = cell.removeprefix("-").replace(".", "", 1).isdigit()
    return f"'{cell}" if cell.startswith(("=", "+", "-", "@")) and not is_number else cell
