"""`moor earnings show`, `entries`, `machines`, `account`, `payout`, `payouts`, `statement` and `statements`, for owners of machines."""

from typing import TYPE_CHECKING, Annotated

import typer

from moorage_cli.amounts import shown_price
from moorage_cli.command import command
from moorage_cli.commands.billing import OrganizationOption, billing_organization
from moorage_cli.commands.billing_documents import FileOption, show_document, write_document
from moorage_cli.errors import CliError, ExitCode, UsageError
from moorage_cli.session import Session, path_part
from moorage_cli.times import shown_time

if TYPE_CHECKING:
    from moorage_cli.api.types import PayoutAccountWrite

app = typer.Typer(help="What the organization's machines earned, and payouts of it.", no_args_is_help=True)


@command(app, "show")
def show(session: Session, organization: OrganizationOption = None) -> None:
    """Show what was earned and how much can be sent now."""
    found = session.api.get_earnings(billing_organization(session, organization))
    if session.output.as_json:
        session.output.result(found)
        return
    next_at = found["next_payable_at"]
    owed = found["owed_microusd"]
    session.output.pairs(
        [
            ("Payable", f"{shown_price(found['payable_microusd'])} USD"),
            (
                "Held",
                f"{shown_price(found['held_microusd'])} USD"
                + (f", the next part until {shown_time(next_at)}" if next_at else ""),
            ),
            ("Asked for", f"{shown_price(found['requested_microusd'])} USD"),
            ("Sent", f"{shown_price(found['paid_microusd'])} USD"),
            *([("Owed", f"{shown_price(owed)} USD, out of what is earned next")] if owed else []),
            ("Share", f"{found['share_percent']} % of what others pay"),
        ]
    )


@command(app, "entries")
def entries(session: Session, organization: OrganizationOption = None) -> None:
    """List the newest movements of earnings."""
    found = session.api.get_earnings(billing_organization(session, organization), limit=200)
    if session.output.as_json:
        session.output.result(found["entries"])
        return
    rows = [
        [
            shown_time(one["at"]),
            shown_price(one["amount_microusd"]),
            one["description"],
            one["machine_name"] or one["machine_id"] or "",
            one["id"],
        ]
        for one in found["entries"]
    ]
    session.output.table(("TIME", "USD", "WHAT", "MACHINE", "ID"), rows, "Nothing was earned yet.")


@command(app, "machines")
def machines(
    session: Session,
    organization: OrganizationOption = None,
    month: Annotated[
        str | None, typer.Option(metavar="YYYY-MM", help="The month, in UTC.", show_default="this one")
    ] = None,
) -> None:
    """Show what each machine served and earned in a month."""
    found = session.api.list_machine_earnings(billing_organization(session, organization), month=month)
    if session.output.as_json:
        session.output.result(found)
        return
    rows = [
        [one["name"] or one["machine_id"], _hours(one["served_s"]), shown_price(one["earned_microusd"])]
        for one in found["items"]
    ]
    session.output.table(("MACHINE", "SERVED", "USD"), rows, "No machine served this month.")
    session.output.note(f"{found['month']}: {shown_price(found['earned_microusd'])} USD")


@command(app, "account")
def account(
    session: Session,
    organization: OrganizationOption = None,
    holder: Annotated[
        str | None, typer.Option(help="The account holder's name, as the bank knows it.")
    ] = None,
    number: Annotated[str | None, typer.Option(metavar="IBAN", help="The IBAN or account number.")] = None,
    bank: Annotated[
        str, typer.Option(help="The BIC, if the account number does not identify the bank.")
    ] = "",
) -> None:
    """Show the bank account for earnings. Change it with --holder and --number."""
    if (holder is None) != (number is None):
        raise UsageError("Give both --holder and --number, or neither to see the account.")
    organization_id = billing_organization(session, organization)
    if holder is None or number is None:
        found = session.api.get_payout_account(organization_id)
    else:
        wanted: PayoutAccountWrite = {"holder": holder, "account": number, "bank": bank}
        found = session.api.change_payout_account(organization_id, wanted)
    if session.output.as_json:
        session.output.result(found)
        return
    if found["account"] is None:
        session.output.note(
            "There is no account yet. Name one: `moor earnings account --holder NAME --number IBAN`."
        )
        return
    session.output.line(f"The account ending in {found['account']}.")
    if found["frozen_until"]:
        session.output.note(f"It is new, so nothing is sent before {shown_time(found['frozen_until'])}.")


@command(app, "payout")
def payout(session: Session, organization: OrganizationOption = None) -> None:
    """Ask for all that can be sent now."""
    made = session.api.request_payout(billing_organization(session, organization))
    amount = shown_price(made["amount_microusd"])
    session.output.answer(made, f"Asked for {amount} USD ({made['id']}). You get a mail once it is sent.")


@command(app, "payouts")
def payouts(session: Session, organization: OrganizationOption = None) -> None:
    """List payouts, newest first."""
    items = list(session.api.list_payouts(billing_organization(session, organization)))
    if session.output.as_json:
        session.output.result(items)
        return
    rows = [
        [
            shown_time(one["created_at"]),
            shown_price(one["amount_microusd"]),
            one["state"],
            f"…{one['account']}",
            one["reference"] or one["reason"] or "",
            one["id"],
        ]
        for one in items
    ]
    session.output.table(
        ("TIME", "USD", "STATE", "ACCOUNT", "", "ID"), rows, "Nothing has been asked for yet."
    )


@command(app, "statement")
def statement(
    session: Session,
    month: Annotated[
        str | None, typer.Option(metavar="YYYY-MM", help="Which one.", show_default="the newest")
    ] = None,
    output: FileOption = None,
    organization: OrganizationOption = None,
) -> None:
    """Show the statement of a month, or write it as PDF."""
    organization_id = billing_organization(session, organization)
    if month is None:
        months = session.api.list_statements(organization_id)["items"]
        if not months:
            raise CliError(
                "There is no statement: nothing has been earned yet.", ExitCode.NOT_FOUND, code="not_found"
            )
        month = months[0]["month"]
    if output is not None:
        path = f"/organizations/{path_part(organization_id)}/earnings/statements/{path_part(month)}"
        write_document(session, path, output)
    else:
        show_document(session, session.api.get_statement(organization_id, month))


@command(app, "statements")
def statements(session: Session, organization: OrganizationOption = None) -> None:
    """List the months in which something was earned or sent."""
    items = session.api.list_statements(billing_organization(session, organization))["items"]
    if session.output.as_json:
        session.output.result(items)
        return
    rows = [
        [one["month"], one["number"] or "not issued yet", shown_price(one["total_microusd"])] for one in items
    ]
    session.output.table(("MONTH", "NUMBER", "USD"), rows, "Nothing was earned yet.")


def _hours(seconds: int) -> str:
    return f"{seconds // 3600} h {seconds % 3600 // 60:02d} min"
