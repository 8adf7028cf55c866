"""`moor caches list` and `delete`."""

from typing import TYPE_CHECKING, Annotated

import typer

from moorage_cli.amounts import shown_bytes
from moorage_cli.command import command
from moorage_cli.session import Session
from moorage_cli.times import shown_time

if TYPE_CHECKING:
    from moorage_cli.api.types import Cache

app = typer.Typer(
    help="What containers keep on their machines between starts: weights and compiled kernels.",
    no_args_is_help=True,
)


@command(app, "list")
def list_them(session: Session) -> None:
    """List the caches of the organization's containers and how full they are."""
    caches = list(session.api.list_caches(session.organization["id"]))
    if session.output.as_json:
        session.output.result(caches)
        return
    rows = [
        [
            one["id"],
            one["container_name"],
            one["node"],
            _size(one),
            _used(one),
        ]
        for one in caches
    ]
    columns = ("ID", "CONTAINER", "MACHINE", "SIZE", "LAST USED")
    session.output.table(
        columns, rows, "There are no caches. Give a container one: `moor deploy --cache GIB`, or `moor edit`."
    )


@command(app, "delete")
def delete(session: Session, cache: Annotated[str, typer.Argument(metavar="ID", help="The cache.")]) -> None:
    """Delete a cache that no replica uses. The next start on that machine downloads again."""
    deleted = session.api.delete_cache(session.organization["id"], cache)
    session.output.answer(deleted, f"{cache} is being deleted.")


def _used(cache: "Cache") -> str:
    if cache["deleting"]:
        return "being deleted"
    if cache["in_use"]:
        return "in use"
    # Its container has none any more; the machine takes it away.
    return "to be deleted" if cache["limit_bytes"] is None else shown_time(cache["used_at"])


def _size(cache: "Cache") -> str:
    if cache["limit_bytes"] is None:
        return shown_bytes(cache["size_bytes"])
    return f"{shown_bytes(cache['size_bytes'])} of {shown_bytes(cache['limit_bytes'])}"
