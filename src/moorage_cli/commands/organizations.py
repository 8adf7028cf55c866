"""`moor org list`, `create`, `use`, `audit` and `delete`."""

from dataclasses import replace
from typing import Annotated

import typer

from moorage_cli.amounts import microusd_of, shown_price
from moorage_cli.audit_table import show_audit
from moorage_cli.command import command
from moorage_cli.config import save_config
from moorage_cli.errors import CliError, UsageError
from moorage_cli.organization_choice import choose_organization
from moorage_cli.session import Session
from moorage_cli.times import shown_time

app = typer.Typer(help="Organizations, which have members and pay for their projects.", no_args_is_help=True)


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
        raise UsageError(f"The stored login is not for {session.url}.")
    save_config(session.config_path, replace(session.config, organization=found["id"]))
    session.output.answer(found, f"Commands are now about the organization {found['name']}.")


@command(app, "audit")
def audit(
    session: Session,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="The number of newest records to show.")] = 50,
) -> None:
    """Show who changed what in the organization and its containers, newest first. For admins."""
    show_audit(session, session.api.list_audit(session.organization["id"]), limit)


@command(app, "delete")
def delete(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="NAME|ID", help="The organization.")],
    confirm: Annotated[
        str | None, typer.Option(metavar="NAME", help="The name again, to confirm without being asked.")
    ] = None,
    give_up: Annotated[
        str | None,
        typer.Option(
            metavar="USD", help="The money that you give up with it, to confirm without being asked."
        ),
    ] = None,
) -> None:
    """Delete an organization: its projects, keys and invitations end. It must be empty."""
    found = choose_organization(session.client, name)
    ahead = session.api.preview_deletion(found["id"])
    if ahead["obstacles"]:
        raise CliError(
            f"{found['name']} cannot be deleted yet.",
            code="organization_not_empty",
            hint="\n".join(one["message"] for one in ahead["obstacles"]),
        )
    given_up_microusd = ahead["given_up_microusd"]
    if confirm is None:
        question = f"Type {found['name']!r} to delete it"
        if given_up_microusd:
            question = f"{shown_price(given_up_microusd)} USD is left in it and cannot be used after that. {question}"
        try:
            confirm = typer.prompt(question, err=True)
        except typer.Abort:
            typer.echo(err=True)  # the question's line is still open
            raise UsageError("Not confirmed.", hint=f"Add --confirm {found['name']!r}.") from None
    else:  # nobody was asked: what is given up has to be said
        given_up_microusd = microusd_of(give_up) if give_up is not None else 0
    session.api.delete_organization(found["id"], name=confirm, gives_up_microusd=given_up_microusd)
    session.output.answer({"id": found["id"], "deleted": True}, f"Deleted the organization {found['name']}.")
