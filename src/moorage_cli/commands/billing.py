"""`moor billing balance`, `usage`, `entries` and `top-up`; `billing_limits.py` and `billing_cards.py` add more."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from moorage_cli.amounts import microusd_of, shown_price
from moorage_cli.command import command
from moorage_cli.organization_choice import choose_organization
from moorage_cli.session import Session
from moorage_cli.times import shown_time

if TYPE_CHECKING:
    from moorage_cli.api.types import TopUpCreate

app = typer.Typer(
    help="Credit: how much is left, what it was spent on, and how to add more.", no_args_is_help=True
)

OrganizationOption = Annotated[
    str | None,
    typer.Option(
        "--organization", metavar="NAME|ID", help="The organization. Default: the project's, else your first."
    ),
]


class Method(StrEnum):
    CARD = "card"
    BANK_TRANSFER = "bank_transfer"


class Transfer(StrEnum):
    LOCAL = "local"
    INTERNATIONAL = "international"


@command(app, "balance")
def balance(session: Session, organization: OrganizationOption = None) -> None:
    """Show the credit, what is spent now, and how long it lasts."""
    found = session.api.get_billing(billing_organization(session, organization))
    if session.output.as_json:
        session.output.result(found)
        return
    waits = found.get("initial_credit")
    session.output.pairs(
        [
            ("Balance", f"{shown_price(found['balance_microusd'])} USD"),
            ("Available", f"{shown_price(found['available_microusd'])} USD"),
            ("Held", f"{shown_price(found['held_microusd'])} USD, for replicas that are not ready yet"),
            ("Forecast", found["forecast"]),
            *([("To begin with", waits)] if waits else []),
        ]
    )


@command(app, "usage")
def usage(
    session: Session,
    organization: OrganizationOption = None,
    first: Annotated[
        str | None, typer.Option("--from", metavar="YYYY-MM-DD", help="First day, in UTC.")
    ] = None,
    last: Annotated[str | None, typer.Option("--to", metavar="YYYY-MM-DD", help="Last day.")] = None,
) -> None:
    """Show the hours that were bought. Default: this month."""
    found = session.api.get_usage(billing_organization(session, organization), from_=first, to=last)
    if session.output.as_json:
        session.output.result(found)
        return
    rows = [
        [
            one["day"],
            one["project_name"] or one["project_id"],
            one["container_name"] or one["container_id"],
            one["instance_type"],
            str(one["hours"]),
            shown_price(one["amount_microusd"]),
        ]
        for one in found["items"]
    ]
    columns = ("DAY", "PROJECT", "CONTAINER", "INSTANCE TYPE", "HOURS", "USD")
    session.output.table(columns, rows, "Nothing was bought in this period.")
    session.output.note(f"Total: {shown_price(found['total_microusd'])} USD")


@command(app, "entries")
def entries(session: Session, organization: OrganizationOption = None) -> None:
    """List every movement of money, newest first."""
    items = list(session.api.list_entries(billing_organization(session, organization)))
    if session.output.as_json:
        session.output.result(items)
        return
    rows = [
        [shown_time(one["at"]), shown_price(one["amount_microusd"]), one["description"], one["id"]]
        for one in items
    ]
    session.output.table(("TIME", "USD", "WHAT", "ID"), rows, "No money has moved yet.")


@command(app, "top-up")
def top_up(
    session: Session,
    amount: Annotated[str, typer.Argument(metavar="USD", help="How much, e.g. 50 or 12.50.")],
    organization: OrganizationOption = None,
    method: Annotated[Method, typer.Option(help="How to pay.")] = Method.CARD,
    transfer: Annotated[Transfer, typer.Option(help="Which kind of bank transfer.")] = Transfer.LOCAL,
) -> None:
    """Add credit: by card on a page that opens, or by bank transfer with a reference."""
    wanted: TopUpCreate = {"method": method.value, "amount_microusd": microusd_of(amount)}
    if method is Method.BANK_TRANSFER:
        wanted["transfer"] = transfer.value
    created = session.api.create_top_up(billing_organization(session, organization), wanted)
    if session.output.as_json:
        session.output.result(created)
        return
    if method is Method.CARD:
        session.output.note("Enter the card on this page. The credit arrives a moment later.")
        session.output.line(created["checkout_url"] or "")
        return
    session.output.pairs(
        [
            ("Pay", f"{shown_price(created['amount_microusd'])} USD"),
            ("To", created["instructions"] or ""),
            ("Reference", created["reference"] or ""),
        ]
    )
    session.output.note("Write the reference on the transfer. It tells whose money it is.")


def billing_organization(session: Session, wish: str | None) -> str:
    """Its id."""
    return choose_organization(session.client, wish)["id"]
