"""`moor operator organizations`, `users`, `suspend`, `resume`, `credit`, `initial-credit`, `revenue`, `audit`,
`forget-gateway`, `replicas-gone` and `intake`, for the operator of the installation."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from moorage_cli.amounts import microusd_of, shown_price
from moorage_cli.audit_table import show_audit
from moorage_cli.command import command
from moorage_cli.session import Session
from moorage_cli.times import shown_time

if TYPE_CHECKING:
    from moorage_cli.api.types import CreditCreate

app = typer.Typer(help="For the operator of this installation.", no_args_is_help=True)

MachineArgument = Annotated[str, typer.Argument(metavar="NAME", help="As in `moor nodes`.")]
OrganizationArgument = Annotated[str, typer.Argument(metavar="ID", help="The organization.")]


@command(app, "organizations")
def organizations(session: Session) -> None:
    """List all organizations."""
    found = list(session.api.list_all_organizations())
    if session.output.as_json:
        session.output.result(found)
        return
    rows = [
        [
            one["name"],
            one["id"],
            str(one["member_count"]),
            str(one["project_count"]),
            f"suspended {shown_time(one['suspended_at'])}" if one["suspended_at"] else "active",
            shown_time(one["created_at"]),
        ]
        for one in found
    ]
    columns = ("NAME", "ID", "MEMBERS", "PROJECTS", "STATUS", "CREATED")
    session.output.table(columns, rows, "There are no organizations.")


@command(app, "users")
def users(session: Session) -> None:
    """List all people."""
    found = list(session.api.list_all_users())
    if session.output.as_json:
        session.output.result(found)
        return
    rows = [
        [
            one["email"],
            one["id"],
            "operator" if one["is_operator"] else "",
            ", ".join(one["organization_ids"]),
            shown_time(one["created_at"]),
        ]
        for one in found
    ]
    columns = ("ADDRESS", "ID", "", "ORGANIZATIONS", "SINCE")
    session.output.table(columns, rows, "There are no people.")


@command(app, "suspend")
def suspend(
    session: Session,
    organization: OrganizationArgument,
    reason: Annotated[str, typer.Option(help="For the organization's audit log.")],
) -> None:
    """Stop an organization's containers. None starts again until you resume it."""
    suspended = session.api.suspend_organization(organization, {"reason": reason})
    session.output.answer(suspended, f"Suspended {suspended['id']}.")


@command(app, "resume")
def resume(session: Session, organization: OrganizationArgument) -> None:
    """Resume a suspended organization. Its containers that were running start again."""
    resumed = session.api.resume_organization(organization)
    session.output.answer(resumed, f"Resumed {resumed['id']}.")


@command(app, "credit")
def credit(
    session: Session,
    organization: OrganizationArgument,
    amount: Annotated[str, typer.Argument(metavar="USD", help="How much, e.g. 50 or 12.50.")],
    reason: Annotated[str, typer.Option(help="What the organization sees.")],
) -> None:
    """Give an organization credit that nobody paid for."""
    wanted: CreditCreate = {
        "organization_id": organization,
        "amount_microusd": microusd_of(amount),
        "reason": reason,
    }
    given = session.api.give_credit(wanted)
    if session.output.as_json:
        session.output.result(given)
    else:
        amount_shown = shown_price(given["amount_microusd"])
        session.output.line(f"Gave {given['organization_id']} {amount_shown} USD ({given['id']}).")


@command(app, "initial-credit")
def initial_credit(session: Session, organization: OrganizationArgument) -> None:
    """Give the initial credit to an organization that waits for it."""
    given = session.api.approve_initial_credit(organization)
    amount_shown = shown_price(given["amount_microusd"])
    session.output.answer(given, f"Gave {given['organization_id']} {amount_shown} USD ({given['id']}).")


@command(app, "revenue")
def revenue(
    session: Session,
    first: Annotated[
        str | None, typer.Option("--from", metavar="YYYY-MM-DD", help="First day, in UTC.")
    ] = None,
    last: Annotated[str | None, typer.Option("--to", metavar="YYYY-MM-DD", help="Last day.")] = None,
) -> None:
    """Show what was earned and paid on each day. Default: this month."""
    found = session.api.get_revenue(from_=first, to=last)
    if session.output.as_json:
        session.output.result(found)
        return
    rows = [
        [
            one["day"],
            str(one["hours"]),
            shown_price(one["usage_microusd"]),
            shown_price(one["card_microusd"]),
            shown_price(one["bank_transfer_microusd"]),
            shown_price(one["granted_microusd"]),
            shown_price(one["refunded_microusd"]),
        ]
        for one in found["items"]
    ]
    columns = ("DAY", "HOURS", "EARNED", "BY CARD", "BY TRANSFER", "GRANTED", "REFUNDED")
    session.output.table(columns, rows, "No money moved in this period.")


@command(app, "audit")
def audit(
    session: Session,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="The number of newest records to show.")] = 50,
) -> None:
    """Show who changed what in the installation (machines, prices, gateways), newest first."""
    show_audit(session, session.api.list_installation_audit(), limit)


@command(app, "forget-gateway")
def forget_gateway(
    session: Session, gateway: Annotated[str, typer.Argument(metavar="ID", help="As in `moor status`.")]
) -> None:
    """Forget a gateway that is gone for good, so that drains no longer wait for it."""
    session.api.delete_gateway(gateway)
    session.output.answer({"id": gateway, "forgotten": True}, f"{gateway} is forgotten.")


@command(app, "replicas-gone")
def replicas_gone(session: Session, machine: MachineArgument) -> None:
    """Confirm that a machine's missing replicas will not come back. They are replaced at once."""
    doubt = session.api.say_replicas_gone(machine)
    session.output.answer(doubt, f"The {doubt['missing']} replicas missing on {machine} are being replaced.")


class Intake(StrEnum):
    OPEN = "open"
    CORDONED = "cordoned"
    DRAINING = "draining"


_INTAKE = {
    Intake.OPEN: "takes replicas",
    Intake.CORDONED: "keeps its replicas and takes no new ones",
    Intake.DRAINING: "is being emptied: each replica goes once another serves in its place",
}


@command(app, "intake")
def intake(
    session: Session, machine: MachineArgument, to: Annotated[Intake, typer.Argument(metavar="INTAKE")]
) -> None:
    """Close a machine for new replicas (`cordoned`), empty it (`draining`), or open it again (`open`)."""
    changed = session.api.set_node_intake(machine, {"intake": to.value})
    session.output.answer(changed, f"{machine} {_INTAKE[to]}.")
