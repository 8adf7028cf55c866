"""`moor billing invoice`, `invoices`, `receipt` and `receipts`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from moorage_cli.amounts import shown_price
from moorage_cli.command import command
from moorage_cli.commands.billing import OrganizationOption, billing_organization
from moorage_cli.errors import CliError, ExitCode, UsageError
from moorage_cli.session import Session, path_part
from moorage_cli.times import shown_time

if TYPE_CHECKING:
    from moorage_cli.api.types import BillingDocument

FileOption = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write it to this file as PDF; `-` is stdout."),
]


def register(app: typer.Typer) -> None:
    command(app, "invoice")(invoice)
    command(app, "invoices")(invoices)
    command(app, "receipt")(receipt)
    command(app, "receipts")(receipts)


def invoice(
    session: Session,
    month: Annotated[
        str | None, typer.Option(metavar="YYYY-MM", help="Which one.", show_default="the newest")
    ] = None,
    output: FileOption = None,
    organization: OrganizationOption = None,
) -> None:
    """Show the invoice of a month, or write it as PDF."""
    organization_id = billing_organization(session, organization)
    if month is None:
        months = session.api.list_invoices(organization_id)["items"]
        if not months:
            raise CliError(
                "There is no invoice: nothing has been bought yet.", ExitCode.NOT_FOUND, code="not_found"
            )
        month = months[0]["month"]
    if output is not None:
        write_document(session, f"{_path(organization_id)}/invoices/{path_part(month)}", output)
    else:
        show_document(session, session.api.get_invoice(organization_id, month))


def invoices(session: Session, organization: OrganizationOption = None) -> None:
    """List the months in which something was bought."""
    items = session.api.list_invoices(billing_organization(session, organization))["items"]
    if session.output.as_json:
        session.output.result(items)
        return
    rows = [
        [one["month"], one["number"] or "not issued yet", shown_price(one["total_microusd"])] for one in items
    ]
    session.output.table(("MONTH", "NUMBER", "USD"), rows, "Nothing has been bought yet.")


def receipt(
    session: Session,
    payment: Annotated[
        str, typer.Argument(metavar="ID", help="The payment's id from `moor billing receipts`.")
    ],
    output: FileOption = None,
    organization: OrganizationOption = None,
) -> None:
    """Show the receipt of a payment, or write it as PDF."""
    organization_id = billing_organization(session, organization)
    if output is not None:
        write_document(session, f"{_path(organization_id)}/receipts/{path_part(payment)}", output)
    else:
        show_document(session, session.api.get_receipt(organization_id, payment))


def receipts(session: Session, organization: OrganizationOption = None) -> None:
    """List the payments, newest first."""
    items = list(session.api.list_receipts(billing_organization(session, organization)))
    if session.output.as_json:
        session.output.result(items)
        return
    rows = [
        [
            shown_time(one["at"]),
            one["number"] or "not issued yet",
            one["description"],
            shown_price(one["total_microusd"]),
            one["id"],
        ]
        for one in items
    ]
    session.output.table(("TIME", "NUMBER", "WHAT", "USD", "ID"), rows, "Nothing has been paid yet.")


def _path(organization_id: str) -> str:
    return f"/organizations/{path_part(organization_id)}/billing"


def show_document(session: Session, found: "BillingDocument") -> None:
    if session.output.as_json:
        session.output.result(found)
        return
    number = found["number"] or "preliminary"
    session.output.note(
        f"{found['kind'].capitalize()} {number} for {found['buyer']['name']}, {found['dated']}."
    )
    rows = [
        [one["description"], str(one["hours"] or ""), shown_price(one["amount_microusd"])]
        for one in found["lines"]
    ]
    session.output.table(("WHAT", "HOURS", "USD"), rows, "")
    session.output.note(f"Total: {shown_price(found['total_microusd'])} USD")


def write_document(session: Session, path: str, file: Path) -> None:
    content = session.client.download(f"{path}/pdf")
    if str(file) == "-":
        sys.stdout.buffer.write(content)
        return
    try:
        file.write_bytes(content)
    except OSError as exc:
        raise UsageError(f"{file} cannot be written: {exc.strerror}.") from exc
    session.output.note(f"Wrote {file}.")
