"""`moor operator payouts …`: what owners of machines are sent, for the operator."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from moorage_cli.amounts import shown_price
from moorage_cli.command import command
from moorage_cli.session import Session
from moorage_cli.times import shown_time

if TYPE_CHECKING:
    from moorage_cli.api.types import OperatorPayout

app = typer.Typer(help="What owners of machines earned and are sent.", no_args_is_help=True)
PayoutArgument = Annotated[str, typer.Argument(metavar="ID", help="The payout.")]


class State(StrEnum):
    REQUESTED = "requested"
    CONFIRMED = "confirmed"
    REFUSED = "refused"


@command(app, "list")
def list_payouts(
    session: Session,
    state: Annotated[State | None, typer.Option(help="Only those.", show_default="all")] = None,
) -> None:
    """List the payouts that owners of machines asked for, and where to send them."""
    found = list(session.api.list_all_payouts(state=state.value if state is not None else None))
    if session.output.as_json:
        session.output.result(found)
        return
    rows = [
        [
            one["id"],
            one["organization_name"],
            shown_price(one["amount_microusd"]),
            _state(one),
            " / ".join(part for part in (one["holder"], one["account_number"], one["bank"]) if part)
            or f"…{one['account']}",
        ]
        for one in found
    ]
    session.output.table(("ID", "ORGANIZATION", "USD", "STATE", "TO"), rows, "Nobody asked for a payout.")


@command(app, "confirm")
def confirm(
    session: Session,
    payout: PayoutArgument,
    reference: Annotated[str, typer.Option(help="Of the transfer; its receiver sees it.")],
    sent: Annotated[
        bool,
        typer.Option(
            "--sent", help="It has left the bank, although it is not covered any more, or was refused since."
        ),
    ] = False,
) -> None:
    """Say that a payout was sent."""
    confirmed = session.api.confirm_payout(payout, {"reference": reference, "sent": sent})
    amount = shown_price(confirmed["amount_microusd"])
    session.output.answer(confirmed, f"Booked {amount} USD as sent to {confirmed['organization_id']}.")


@command(app, "refuse")
def refuse(
    session: Session,
    payout: PayoutArgument,
    reason: Annotated[str, typer.Option(help="What the organization sees.")],
) -> None:
    """Say that a payout is not sent."""
    refused = session.api.refuse_payout(payout, {"reason": reason})
    session.output.answer(refused, f"Refused {refused['id']}.")


@command(app, "void")
def void(
    session: Session,
    machine: Annotated[str, typer.Argument(metavar="ID", help="The machine.")],
    reason: Annotated[str, typer.Option(help="For its owner's audit log.")],
) -> None:
    """Take back what is held of a machine's earnings: it is not what its owner says it is."""
    session.api.void_machine_earnings(machine, {"reason": reason})
    session.output.answer({"machine_id": machine}, f"What is held of the earnings of {machine} is void.")


def _state(payout: "OperatorPayout") -> str:
    if payout["frozen_until"]:
        return f"frozen until {shown_time(payout['frozen_until'])}"
    covered = payout["covered_microusd"]
    if covered is not None and covered != payout["amount_microusd"]:
        return f"only {shown_price(covered)} covered"
    return payout["state"]
