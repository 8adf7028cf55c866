"""`moor machines add`, `command`, `list`, `show`, `pause`, `resume`, `drain` and `remove`, for the operator."""

from typing import Annotated

import typer

from moorage_cli.amounts import shown_bytes
from moorage_cli.client import Record
from moorage_cli.command import command
from moorage_cli.errors import CliError
from moorage_cli.session import Session, path_part
from moorage_cli.times import shown_time

app = typer.Typer(help="Machines that run containers, for the operator.", no_args_is_help=True)

MachineArgument = Annotated[str, typer.Argument(metavar="MACHINE", help="A machine's name or id.")]


@command(app, "add")
def add(
    session: Session,
    name: Annotated[str | None, typer.Option(help="What to call it; its host name by default.")] = None,
) -> None:
    """Print the command that makes a machine part of this installation, to be run there within 30 minutes."""
    _print_command(
        session, session.client.post("/operator/machines", {"infrastructure": "operator", "name": name})
    )


@command(app, "command")
def new_command(session: Session, machine: MachineArgument) -> None:
    """Print another command for a machine that has not joined. The one before works no longer."""
    _print_command(session, session.client.post(f"/machines/{path_part(_id_of(session, machine))}/command"))


def _print_command(session: Session, added: Record) -> None:
    if session.output.as_json:
        session.output.result(added)
        return
    session.output.note(f"Run this on the machine, until {shown_time(added['expires_at'])}. It works once:")
    session.output.line(added["command"])


@command(app, "list")
def list_machines(session: Session) -> None:
    """List the machines that joined, or may."""
    found = list(session.client.pages("/operator/machines"))
    if session.output.as_json:
        session.output.result(found)
        return
    rows = [
        [
            one["name"] or "-",
            one["id"],
            one["state"],
            shown_time(one["state_since"]),
            str(one["replicas"]),
            ", ".join(one["gpus"]) or "-",
            one["address"] or "-",
        ]
        for one in found
    ]
    columns = ("NAME", "ID", "STATE", "SINCE", "REPLICAS", "GPUS", "ADDRESS")
    session.output.table(columns, rows, "No machine was added. Add one with `moor machines add`.")


@command(app, "show")
def show(session: Session, machine: MachineArgument) -> None:
    """Show one machine."""
    one = session.client.get(f"/machines/{path_part(_id_of(session, machine))}")
    if session.output.as_json:
        session.output.result(one)
        return
    facts = one["facts"]
    session.output.pairs(
        [
            ("Name", one["name"] or "-"),
            ("Id", one["id"]),
            ("State", f"{one['state']} since {shown_time(one['state_since'])}"),
            ("", one["message"] or ""),
            *([("Command", _command_words(one))] if one["joins_until"] else []),
            ("Last answer", shown_time(one["seen_at"]) if one["seen_at"] else "never"),
            ("Replicas", str(one["replicas"])),
            ("Address", one["address"] or "-"),
            (
                "System",
                f"{facts['system']}, {facts['architecture']}, Linux {facts['kernel']}" if facts else "-",
            ),
            ("Size", f"{facts['cpus']} cores, {shown_bytes(facts['memory_bytes'])}" if facts else "-"),
            ("GPUs", ", ".join(one["gpus"]) or "-"),
        ]
    )


@command(app, "pause")
def pause(session: Session, machine: MachineArgument) -> None:
    """Start nothing new there; what runs stays."""
    _say(session, machine, "pause")


@command(app, "resume")
def resume(session: Session, machine: MachineArgument) -> None:
    """Use a machine again that was paused or drained."""
    _say(session, machine, "resume")


@command(app, "drain")
def drain(session: Session, machine: MachineArgument) -> None:
    """Move what runs there to other machines, and start nothing new."""
    _say(session, machine, "drain")


@command(app, "remove")
def remove(
    session: Session,
    machine: MachineArgument,
    force: Annotated[bool, typer.Option("--force", help="Although replicas run there.")] = False,
) -> None:
    """Remove a machine for good. Drain it first."""
    machine_id = _id_of(session, machine)
    params = {"force": "true"} if force else None
    session.client.request("DELETE", f"/machines/{path_part(machine_id)}", params=params)
    session.output.answer({"id": machine_id, "removed": True}, f"{machine} is removed.")


def _command_words(machine: Record) -> str:
    another = f"`moor machines command {machine['name'] or machine['id']}` prints another"
    return f"runs out {shown_time(machine['joins_until'])}; {another}"


def _say(session: Session, machine: str, verb: str) -> None:
    said: Record = session.client.post(f"/machines/{path_part(_id_of(session, machine))}/{verb}")
    session.output.answer(
        said, f"{said['name'] or said['id']} is {said['state']}. {said['message'] or ''}".strip()
    )


def _id_of(session: Session, machine: str) -> str:
    if machine.startswith("mch_"):
        return machine
    for one in session.client.pages("/operator/machines"):
        if one["name"] == machine:
            return str(one["id"])
    raise CliError(
        f"There is no machine {machine}.",
        code="not_found",
        hint="See `moor machines list`; for the machine that Moorage itself runs on there is `moor operator intake`.",
    )
