"""`moor billing card` and `moor billing auto-top-up`."""

from typing import TYPE_CHECKING, Annotated

import typer

from moorage_cli.amounts import microusd_of, shown_price
from moorage_cli.command import command
from moorage_cli.commands.billing import OrganizationOption, billing_organization
from moorage_cli.errors import UsageError
from moorage_cli.session import Session

if TYPE_CHECKING:
    from moorage_cli.api.types import AutoTopUpChange


def register(app: typer.Typer) -> None:
    command(app, "card")(card)
    command(app, "auto-top-up")(auto_top_up)


def card(
    session: Session,
    organization: OrganizationOption = None,
    save: Annotated[bool, typer.Option("--save", help="Get the page for entering a card.")] = False,
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove the card. This ends automatic top-ups.")
    ] = False,
) -> None:
    """Show, save or remove the card that automatic top-ups charge."""
    if save and remove:
        raise UsageError("Give --save or --remove, not both.")
    organization_id = billing_organization(session, organization)
    if save:
        page = session.api.save_card(organization_id)
        if session.output.as_json:
            session.output.result(page)
            return
        session.output.note("Enter the card on this page. Nothing is charged.")
        session.output.line(page["checkout_url"])
        return
    if remove:
        session.api.remove_card(organization_id)
    found = session.api.get_card(organization_id)
    if session.output.as_json:
        session.output.result(found)
    elif found["last4"] is None:
        session.output.line("No card is saved. `moor billing card --save` gives the page to enter one.")
    else:
        until = f"{found['expires_month']:02d}/{found['expires_year']}"
        session.output.line(f"{found['brand']} ending in {found['last4']}, until {until}")


def auto_top_up(
    session: Session,
    organization: OrganizationOption = None,
    below: Annotated[
        str | None, typer.Option(metavar="USD", help="Charge the card when the credit falls below this.")
    ] = None,
    amount: Annotated[str | None, typer.Option(metavar="USD", help="How much to charge each time.")] = None,
    cap: Annotated[str | None, typer.Option(metavar="USD", help="The most to charge in a month.")] = None,
    off: Annotated[bool, typer.Option("--off", help="Switch automatic top-ups off.")] = False,
) -> None:
    """Show or change automatic top-ups: whether Moorage charges the saved card when the credit gets low.

    To switch them on, or on again after a pause, give --below, --amount and --cap.
    """
    wanted = (below, amount, cap)
    if any(one is not None for one in wanted) and (off or None in wanted):
        raise UsageError("Give --below, --amount and --cap together, or --off.")
    organization_id = billing_organization(session, organization)
    if off:
        session.api.delete_auto_top_up(organization_id)
    if below is not None and amount is not None and cap is not None:
        body: AutoTopUpChange = {
            "threshold_microusd": microusd_of(below),
            "amount_microusd": microusd_of(amount),
            "monthly_cap_microusd": microusd_of(cap),
        }
        session.api.put_auto_top_up(organization_id, body)
    found = session.api.get_auto_top_up(organization_id)
    if session.output.as_json:
        session.output.result(found)
        return
    pairs: list[tuple[str, str]] = [("State", found["state"]), ("", found["message"])]
    charged, most = found["charged_this_month_microusd"], found["monthly_cap_microusd"]
    if most is not None:
        pairs.append(("This month", f"{shown_price(charged)} of {shown_price(most)} USD"))
    session.output.pairs(pairs)
