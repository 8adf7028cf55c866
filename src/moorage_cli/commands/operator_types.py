"""`moor operator instance-type …`: the catalogue, for the operator."""

import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from moorage_cli.amounts import microusd_of, shown_bytes, shown_price
from moorage_cli.command import command
from moorage_cli.errors import UsageError
from moorage_cli.session import Session

if TYPE_CHECKING:
    from moorage_cli.api.types import (
        InstanceTypePatch,
        InstanceTypeProposal,
        InstanceTypeRead,
        InstanceTypeWrite,
    )

app = typer.Typer(help="Instance types: what replicas run on, and what they cost.", no_args_is_help=True)
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The instance type.")]
PriceArgument = Annotated[str, typer.Argument(metavar="USD", help="For one replica and hour, e.g. 0.80.")]
_GIBIBYTE = 2**30


@command(app, "list")
def list_types(session: Session) -> None:
    """List all instance types, including those no longer offered."""
    items = list(session.api.list_catalogue())
    if session.output.as_json:
        session.output.result(items)
        return
    rows = [
        [
            one["name"],
            "yes" if one["enabled"] else "no",
            f"{one['gpu_count']} × {one['gpu_model']}" if one["gpu_count"] else "-",
            f"{one['vcpu_millis'] / 1000:g}",
            shown_bytes(one["memory_bytes"]),
            shown_price(one["price_per_hour_microusd"]),
            str(one["free"]),
        ]
        for one in items
    ]
    columns = ("NAME", "OFFERED", "GPU", "VCPU", "MEMORY", "USD/HOUR", "FREE")
    session.output.table(
        columns, rows, "There are no instance types. Add one: moor operator instance-type add"
    )


@command(app, "proposals")
def proposals(session: Session) -> None:
    """Propose types for GPUs that no type offers, with the commands that add them."""
    items = list(session.api.propose_instance_types())
    if session.output.as_json:
        session.output.result(items)
        return
    if not items:
        session.output.line("Nothing to propose: no GPU lacks an instance type. See the machines: moor nodes")
    for because in dict.fromkeys(one["because"] for one in items):
        session.output.line(because)
        for one in items:
            if one["because"] == because:
                session.output.line(f"  {add_command(one)}")


def add_command(proposal: "InstanceTypeProposal") -> str:
    """What adds a proposed type; where nobody knows a price, it asks for one."""
    price = proposal["price_per_hour_microusd"]
    priced = f" {shown_price(price)}" if price is not None else ""
    memory, disk = proposal["memory_bytes"] / _GIBIBYTE, proposal["disk_bytes"] / _GIBIBYTE
    return (
        f"moor operator instance-type add {proposal['name']}{priced} "
        f"--gpu {shlex.quote(proposal['gpu_model'])} --gpu-count {proposal['gpu_count']} "
        f"--vcpu {proposal['vcpu_millis'] / 1000:g} --memory {memory:g} --disk {disk:g}"
        + (" --community" if proposal["infrastructure"] == "community" else "")
    )


@command(app, "add")
def add(
    session: Session,
    name: NameArgument,
    vcpu: Annotated[float, typer.Option(min=0.25, help="vCPUs.")],
    memory: Annotated[float, typer.Option(min=0.001, metavar="GIB", help="Memory in GiB.")],
    price: Annotated[
        str | None,
        typer.Argument(metavar="USD", help="For one replica and hour, e.g. 0.80; asked for if left out."),
    ] = None,
    disk: Annotated[float, typer.Option(min=0.001, metavar="GIB", help="Disk in GiB.")] = 10,
    gpu: Annotated[
        str | None, typer.Option(help="The model as its driver names it, e.g. 'NVIDIA L4'.")
    ] = None,
    gpu_count: Annotated[
        int | None, typer.Option(min=1, help="The number of GPUs.", show_default="1")
    ] = None,
    community: Annotated[bool, typer.Option("--community", help="On community machines.")] = False,
) -> None:
    """Add an instance type."""
    if gpu is None and gpu_count is not None:
        raise UsageError("Name the GPU with --gpu.")
    body: InstanceTypeWrite = {
        "name": name,
        "price_per_hour_microusd": _price(price if price is not None else _asked_price(session)),
        "vcpu_millis": round(vcpu * 1000),
        "memory_bytes": round(memory * _GIBIBYTE),
        "disk_bytes": round(disk * _GIBIBYTE),
        "gpu_model": gpu,
        "gpu_count": (gpu_count or 1) if gpu is not None else 0,
        "infrastructure": "community" if community else "operator",
    }
    _say(session, session.api.create_instance_type(body))


@command(app, "set-price")
def set_price(session: Session, name: NameArgument, price: PriceArgument) -> None:
    """Change a type's price for hours bought from now on."""
    _change(session, name, {"price_per_hour_microusd": _price(price)})


@command(app, "enable")
def enable(session: Session, name: NameArgument) -> None:
    """Offer a type again."""
    _change(session, name, {"enabled": True})


@command(app, "disable")
def disable(session: Session, name: NameArgument) -> None:
    """Stop offering a type. Containers that use it keep running."""
    _change(session, name, {"enabled": False})


@command(app, "delete")
def delete(session: Session, name: NameArgument) -> None:
    """Delete a type that nobody ever used."""
    session.api.delete_instance_type(name)
    session.output.answer({"name": name, "deleted": True}, f"Deleted {name}.")


def _change(session: Session, name: str, changes: "InstanceTypePatch") -> None:
    _say(session, session.api.change_instance_type(name, changes))


def _say(session: Session, entry: "InstanceTypeRead") -> None:
    if session.output.as_json:
        session.output.result(entry)
        return
    offered = "" if entry["enabled"] else ", not offered"
    price = shown_price(entry["price_per_hour_microusd"])
    session.output.line(f"{entry['name']}: {price} USD per replica and hour{offered}.")


def _asked_price(session: Session) -> str:
    missing = UsageError("Give the price of one replica per hour in USD after the name, e.g. 0.80.")
    if session.output.as_json:
        raise missing
    try:
        return str(typer.prompt("USD per replica and hour", err=True))
    except typer.Abort:
        typer.echo(err=True)  # the question's line is still open
        raise missing from None


def _price(text: str) -> int:
    microusd = microusd_of(text)
    if microusd <= 0:
        raise UsageError(f"{text!r} must be above zero.")
    return microusd
