"""`moor explain`."""

from typing import Annotated

import typer

from moorage_cli.command import command
from moorage_cli.errors import UsageError
from moorage_cli.session import Session


def register(app: typer.Typer) -> None:
    command(app)(explain)


def explain(
    session: Session,
    request_id: Annotated[
        str,
        typer.Argument(metavar="REQUEST", help="A request's id, from its answer's X-Request-ID: req_…"),
    ],
) -> None:
    """Say what happened to one request to an endpoint, step by step."""
    if not request_id.startswith("req_") or "/" in request_id:
        raise UsageError("A request's id looks like req_…; its answer has it in the header X-Request-ID.")
    found = session.client.get(f"/requests/{request_id}")
    if session.output.as_json:
        session.output.result(found)
        return
    pairs = [("request", found["request_id"]), ("container", found["container_id"]), ("key", found["key_id"])]
    session.output.pairs([(name, value) for name, value in pairs if value])
    session.output.line("")
    # Those of a held request say where its wait went; `--json` has them as `phases`.
    for line in found["explanation"]:
        session.output.line(line)
