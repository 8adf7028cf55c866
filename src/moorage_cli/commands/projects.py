"""`moor project list`, `create`, `use` and `delete`."""

from dataclasses import replace
from typing import Annotated

import typer

from moorage_cli import completion
from moorage_cli.command import command
from moorage_cli.config import save_config
from moorage_cli.errors import UsageError
from moorage_cli.project_choice import choose_project, create_project, list_projects
from moorage_cli.session import Session
from moorage_cli.times import shown_time

app = typer.Typer(help="Projects, which hold containers and API keys.", no_args_is_help=True)


@command(app, "list")
def list_them(session: Session) -> None:
    """List your projects."""
    projects = list_projects(session.client)
    if session.output.as_json:
        session.output.result(projects)
        return
    rows = [
        [
            "*" if session.project_wish in (one["name"], one["id"]) or len(projects) == 1 else "",
            one["name"],
            one["organization_name"],
            one["id"],
            shown_time(one["created_at"]),
        ]
        for one in projects
    ]
    empty = "You have no project yet. Create one with `moor project create NAME`."
    session.output.table(("", "NAME", "ORGANIZATION", "ID", "CREATED"), rows, empty)


@command(app, "create")
def create(session: Session, name: Annotated[str, typer.Argument(help="Its name.")]) -> None:
    """Create a project in your organization (`moor org use` chooses another)."""
    created = create_project(session.client, name, session.organization)
    session.output.answer(created, f"Created the project {created['name']} ({created['id']}).")


@command(app, "use")
def use(
    session: Session,
    name: Annotated[
        str, typer.Argument(metavar="NAME|ID", help="The project.", autocompletion=completion.projects)
    ],
) -> None:
    """Choose the project that commands are about."""
    found = choose_project(session.client, name)
    if not session.is_stored_address:
        raise UsageError(f"The stored login is not for {session.url}.", hint="Use MOORAGE_PROJECT instead.")
    save_config(session.config_path, replace(session.config, project=found["id"]))
    session.output.answer(found, f"Commands are now about the project {found['name']}.")


@command(app, "delete")
def delete(
    session: Session,
    name: Annotated[
        str, typer.Argument(metavar="NAME|ID", help="The project.", autocompletion=completion.projects)
    ],
    confirm: Annotated[
        str | None, typer.Option(metavar="NAME", help="The name again, to confirm without being asked.")
    ] = None,
) -> None:
    """Delete a project with its containers, and revoke its API keys."""
    found = choose_project(session.client, name)
    if confirm is None:
        try:
            confirm = typer.prompt(f"Type {found['name']!r} to delete it and everything in it", err=True)
        except typer.Abort:
            typer.echo(err=True)  # the question's line is still open
            raise UsageError("Not confirmed.", hint=f"Add --confirm {found['name']!r}.") from None
    session.api.remove_project(found["id"], name=confirm)
    session.output.answer({"id": found["id"], "deleted": True}, f"Deleted the project {found['name']}.")
