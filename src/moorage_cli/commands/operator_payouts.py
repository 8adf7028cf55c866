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

app = typer.Typer(help="Payouts to owners of machines.", no_args_is_help=True)
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
    session.output.table(("ID", "ORGANIZATION", "USD", "STATE", "TO"), rows, "Nobody has asked for a payout.")


@command(app, "confirm")
def confirm(
    session: Session,
    payout: PayoutArgument,
    reference: Annotated[str, typer.Option(help="The transfer's reference, which its receiver sees.")],
    sent: Annotated[
        bool,
        typer.Option(
            "--sent",
            help=(
                "Confirm a transfer that was sent although it is no longer covered or was refused meanwhile."
            ),
        ),
    ] = False,
) -> None:
    """Confirm that a payout was sent."""
    confirmed = session.api.confirm_payout(payout, {"reference": reference, "sent": sent})
    amount = shown_price(confirmed["amount_microusd"])
    session.output.answer(confirmed, f"Booked {amount} USD as sent to {confirmed['organization_id']}.")


@command(app, "refuse")
def refuse(
    session: Session,
    payout: PayoutArgument,
    reason: Annotated[str, typer.Option(help="The reason, for the organization to read.")],
) -> None:
    """Refuse a payout."""
    refused = session.api.refuse_payout(payout, {"reason": reason})
    session.output.answer(refused, f"Refused {refused['id']}.")


@command(app, "void")
def void(
    session: Session,
    machine: Annotated[str, typer.Argument(metavar="ID", help="The machine.")],
    reason: Annotated[str, typer.Option(help="The reason, for its owner's audit log.")],
) -> None:
    """Void a machine's held earnings, because it is not what its owner claims."""
    session.api.void_machine_earnings(machine, {"reason": reason})
    session.output.answer({"machine_id": machine}, f"Voided the held earnings of {machine}.")


def _state(payout: "OperatorPayout") -> str:
    if payout["frozen_until"]:
        return f"frozen until {shown_time(payout['frozen_until'])}"
    covered = payout["covered_microusd"]
    if covered is not None and covered != payout["amount_microusd"]:
        return f"only {shown_price(covered)} covered"
    return payout["state"]
