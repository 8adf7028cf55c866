"""`moor billing limits`."""

from typing import Annotated

import typer

from moorage_cli.amounts import microusd_of, shown_price
from moorage_cli.client import Record
from moorage_cli.command import command
from moorage_cli.commands.billing import OrganizationOption, billing_path
from moorage_cli.errors import CliError, ExitCode, UsageError
from moorage_cli.session import Session

SetOption = Annotated[
    str | None, typer.Option("--set", metavar="USD", help="What may be spent in a calendar month.")
]


def register(app: typer.Typer) -> None:
    command(app, "limits")(limits)


def limits(
    session: Session,
    organization: OrganizationOption = None,
    amount: SetOption = None,
    remove: Annotated[bool, typer.Option("--remove", help="Spend without a limit.")] = False,
) -> None:
    """Show or change what may be spent in a month: by the organization, or with --project by one project.

    At the limit no further hours are bought: what runs stops within the hours that are paid.
    """
    if amount is not None and remove:
        raise UsageError("A limit cannot be set and removed at once.")
    path = f"{billing_path(session, organization)}/limits"
    found: Record = session.client.get(path)
    if amount is not None or remove:
        wanted = {"limit_microusd": microusd_of(amount) if amount is not None else None}
        # Only one that is named here and now: money is not limited by what happens to be the chosen project.
        project = session.options.project
        where = path if project is None else f"{path}/{_project_id(found, project)}"
        found = session.client.request("PUT", where, body=wanted).body
    if session.output.as_json:
        session.output.result(found)
        return
    columns = ("WHOSE", "LIMIT", "SPENT", "HELD", "LEFT")
    rows = [_row(one) for one in (found["organization"], *found["projects"])]
    session.output.table(columns, rows, "")
    session.output.note(
        f"In USD, for the month from {found['month']}; the next one begins on {found['resets_on']}."
    )


def _row(one: Record) -> list[str]:
    amounts = (one["limit_microusd"], one["spent_microusd"], one["held_microusd"], one["left_microusd"])
    return [one["name"], *("-" if amount is None else shown_price(amount) for amount in amounts)]


def _project_id(found: Record, wish: str) -> str:
    named = [one["scope_id"] for one in found["projects"] if wish in (one["name"], one["scope_id"])]
    if not named:
        raise CliError(f"There is no project {wish!r}.", ExitCode.NOT_FOUND, code="not_found")
    return str(named[0])
