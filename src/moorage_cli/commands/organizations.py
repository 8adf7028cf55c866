"""`moor org list`, `create` and `use`."""

from dataclasses import replace
from typing import Annotated

import typer

from moorage_cli.command import command
from moorage_cli.config import save_config
from moorage_cli.errors import UsageError
from moorage_cli.organization_choice import choose_organization
from moorage_cli.session import Session
from moorage_cli.times import shown_time

app = typer.Typer(help="Organizations: who pays, and who belongs together.", no_args_is_help=True)


@command(app, "list")
def list_them(session: Session) -> None:
    """List your organizations."""
    organizations = list(session.api.list_organizations())
    if session.output.as_json:
        session.output.result(organizations)
        return
    chosen = choose_organization(session.client, session.organization_wish)["id"] if organizations else None
    rows = [
        [
            "*" if one["id"] == chosen else "",
            one["name"],
            one["role"],
            one["id"],
            shown_time(one["created_at"]),
        ]
        for one in organizations
    ]
    session.output.table(("", "NAME", "ROLE", "ID", "CREATED"), rows, "You belong to no organization.")


@command(app, "create")
def create(session: Session, name: Annotated[str, typer.Argument(help="Its name.")]) -> None:
    """Create an organization; you are its admin."""
    created = session.api.create_organization({"name": name})
    session.output.answer(created, f"Created the organization {created['name']} ({created['id']}).")


@command(app, "switch", hidden=True)
@command(app, "use")
def use(
    session: Session, name: Annotated[str, typer.Argument(metavar="NAME|ID", help="The organization.")]
) -> None:
    """Remember the organization that `members` and `project create` are about."""
    found = choose_organization(session.client, name)
    if not session.is_stored_address:
        raise UsageError(f"The login that is stored is not for {session.url}.")
    save_config(session.config_path, replace(session.config, organization=found["id"]))
    session.output.answer(found, f"Commands are now about the organization {found['name']}.")
