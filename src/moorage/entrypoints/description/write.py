"""Writes what follows from the routes, after a change of theirs: `python -m moorage.entrypoints.description.write`.

That is what the code says of each (`routes.json`), and the client of the command line.
"""

from collections.abc import Iterator
from pathlib import Path

from moorage.entrypoints.api import described_routes
from moorage.entrypoints.description import python_client
from moorage.entrypoints.description.document import describe
from moorage.entrypoints.description.routes import WRITTEN, printed, read_routes

_CLIENT = Path(__file__).parents[3] / "moorage_cli/api"


def generated() -> Iterator[tuple[Path, str]]:
    """One after the other: the description is made of what is written first."""
    yield WRITTEN, printed(read_routes(described_routes()))
    document = describe(described_routes())
    yield _CLIENT / "types.py", python_client.types_text(document)
    yield _CLIENT / "calls.py", python_client.calls_text(document)


if __name__ == "__main__":
    for path, text in generated():
        path.write_text(text)
