"""`moor open`."""

from typing import Annotated

import typer

from moorage_cli import browser
from moorage_cli.command import command
from moorage_cli.completion import containers
from moorage_cli.session import Session


def register(app: typer.Typer) -> None:
    command(app, "open")(open_console)


def open_console(
    session: Session,
    container: Annotated[
        str | None,
        typer.Argument(
            metavar="CONTAINER",
            help="A container's name or id. Default: the console's first page.",
            autocompletion=containers,
        ),
    ] = None,
) -> None:
    """Open the console in the browser, or print its address where there is no browser."""
    address = f"{session.url}/"
    if container is not None:
        found = session.container(container)
        address = f"{session.url}/projects/{found['project_id']}/containers/{found['id']}"
    elif session.project_wish is not None:
        address = f"{session.url}/projects/{session.project['id']}/containers"
    opened = not session.output.as_json and browser.show(address)
    session.output.answer({"url": address}, f"Opened {address}" if opened else address)
