"""`moor caches list` and `delete`."""

from typing import Annotated

import typer

from moorage_cli.amounts import shown_bytes
from moorage_cli.client import Record
from moorage_cli.command import command
from moorage_cli.session import Session, path_part
from moorage_cli.times import shown_time

app = typer.Typer(
    help="What containers keep on their machines between starts: weights and compiled kernels.",
    no_args_is_help=True,
)


@command(app, "list")
def list_them(session: Session) -> None:
    """List the caches of the organization's containers, with what they hold."""
    caches = list(session.client.pages(_path(session)))
    if session.output.as_json:
        session.output.result(caches)
        return
    rows = [
        [
            one["id"],
            one["container_name"],
            one["node"],
            _size(one),
            "deleting" if one["deleting"] else "in use" if one["in_use"] else shown_time(one["used_at"]),
        ]
        for one in caches
    ]
    columns = ("ID", "CONTAINER", "MACHINE", "SIZE", "LAST USED")
    session.output.table(
        columns, rows, "There are no caches. Give a container one with `moor deploy --cache GIB`."
    )


@command(app, "delete")
def delete(session: Session, cache: Annotated[str, typer.Argument(metavar="ID", help="The cache.")]) -> None:
    """Delete a cache that no replica uses; the next start on that machine downloads anew."""
    deleted = session.client.request("DELETE", f"{_path(session)}/{path_part(cache)}")
    session.output.answer(deleted, f"{cache} is being deleted.")


def _size(cache: Record) -> str:
    if cache["limit_bytes"] is None:
        return shown_bytes(cache["size_bytes"])
    return f"{shown_bytes(cache['size_bytes'])} of {shown_bytes(cache['limit_bytes'])}"


def _path(session: Session) -> str:
    return f"/organizations/{session.organization['id']}/caches"
