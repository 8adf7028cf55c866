"""`moor billing invoice`, `invoices`, `receipt` and `receipts`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from moorage_cli.amounts import shown_price
from moorage_cli.client import Record
from moorage_cli.command import command
from moorage_cli.commands.billing import OrganizationOption, billing_path
from moorage_cli.errors import CliError, ExitCode, UsageError
from moorage_cli.session import Session, path_part
from moorage_cli.times import shown_time

FileOption = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write it there as PDF; `-` is stdout."),
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
    path = billing_path(session, organization)
    if month is None:
        months: list[Record] = session.client.get(f"{path}/invoices")["items"]
        if not months:
            raise CliError(
                "There is no invoice: nothing was bought yet.", ExitCode.NOT_FOUND, code="not_found"
            )
        month = str(months[0]["month"])
    _show(session, f"{path}/invoices/{path_part(month)}", output)


def invoices(session: Session, organization: OrganizationOption = None) -> None:
    """List the months in which something was bought."""
    items: list[Record] = session.client.get(f"{billing_path(session, organization)}/invoices")["items"]
    if session.output.as_json:
        session.output.result(items)
        return
    rows = [
        [one["month"], one["number"] or "not issued yet", shown_price(one["total_microusd"])] for one in items
    ]
    session.output.table(("MONTH", "NUMBER", "USD"), rows, "Nothing was bought yet.")


def receipt(
    session: Session,
    payment: Annotated[str, typer.Argument(metavar="ID", help="As `moor billing receipts` lists it.")],
    output: FileOption = None,
    organization: OrganizationOption = None,
) -> None:
    """Show the receipt of a payment, or write it as PDF."""
    _show(session, f"{billing_path(session, organization)}/receipts/{path_part(payment)}", output)


def receipts(session: Session, organization: OrganizationOption = None) -> None:
    """List the payments, newest first."""
    items = list(session.client.pages(f"{billing_path(session, organization)}/receipts"))
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
    session.output.table(("TIME", "NUMBER", "WHAT", "USD", "ID"), rows, "Nothing was paid yet.")


def _show(session: Session, path: str, output: Path | None) -> None:
    if output is not None:
        _write(session, session.client.download(f"{path}/pdf"), output)
        return
    found: Record = session.client.get(path)
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


def _write(session: Session, content: bytes, file: Path) -> None:
    if str(file) == "-":
        sys.stdout.buffer.write(content)
        return
    try:
        file.write_bytes(content)
    except OSError as exc:
        raise UsageError(f"{file} cannot be written: {exc.strerror}.") from exc
    session.output.note(f"Wrote {file}.")
