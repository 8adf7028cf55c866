"""`moor billing limits`."""

from typing import TYPE_CHECKING, Annotated

import typer

from moorage_cli.amounts import microusd_of, shown_price
from moorage_cli.command import command
from moorage_cli.commands.billing import OrganizationOption, billing_organization
from moorage_cli.errors import CliError, ExitCode, UsageError
from moorage_cli.session import Session

if TYPE_CHECKING:
    from moorage_cli.api.types import LimitChange, SpendingLimit, SpendingLimits

SetOption = Annotated[
    str | None, typer.Option("--set", metavar="USD", help="The most to spend in a calendar month.")
]


def register(app: typer.Typer) -> None:
    command(app, "limits")(limits)


def limits(
    session: Session,
    organization: OrganizationOption = None,
    amount: SetOption = None,
    remove: Annotated[bool, typer.Option("--remove", help="Spend without a limit.")] = False,
) -> None:
    """Show or change the monthly spending limit of the organization, or of one project with --project.

    At the limit Moorage buys no more hours, and containers stop before their paid hours end.
    """
    if amount is not None and remove:
        raise UsageError("Set a limit or remove it, not both.")
    organization_id = billing_organization(session, organization)
    found = session.api.get_limits(organization_id)
    if amount is not None or remove:
        wanted: LimitChange = {"limit_microusd": microusd_of(amount) if amount is not None else None}
        # Only one that is named here and now: money is not limited by what happens to be the chosen project.
        project = session.options.project
        if project is None:
            found = session.api.put_organization_limit(organization_id, wanted)
        else:
            found = session.api.put_project_limit(organization_id, _project_id(found, project), wanted)
    if session.output.as_json:
        session.output.result(found)
        return
    columns = ("WHOSE", "LIMIT", "SPENT", "HELD", "LEFT")
    rows = [_row(one) for one in (found["organization"], *found["projects"])]
    session.output.table(columns, rows, "")
    session.output.note(
        f"In USD, for the month from {found['month']}. The next month begins on {found['resets_on']}."
    )


def _row(one: "SpendingLimit") -> list[str]:
    amounts = (one["limit_microusd"], one["spent_microusd"], one["held_microusd"], one["left_microusd"])
    return [one["name"], *("-" if amount is None else shown_price(amount) for amount in amounts)]


def _project_id(found: "SpendingLimits", wish: str) -> str:
    named = [one["scope_id"] for one in found["projects"] if wish in (one["name"], one["scope_id"])]
    if not named:
        raise CliError(f"There is no project {wish!r}.", ExitCode.NOT_FOUND, code="not_found")
    return named[0]
