"""`moor machines`: for the operator all of them, for an organization those that it lends."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from moorage_cli.amounts import shown_bytes
from moorage_cli.command import command
from moorage_cli.errors import CliError
from moorage_cli.session import Session
from moorage_cli.times import shown_time, time_after

if TYPE_CHECKING:
    from moorage_cli.api.types import MachineAdded, MachineRead

app = typer.Typer(
    help="Machines that run containers. The operator sees all of them, an organization those that it lends.",
    no_args_is_help=True,
)

MachineArgument = Annotated[str, typer.Argument(metavar="MACHINE", help="A machine's name or id.")]


@command(app, "add")
def add(
    session: Session,
    name: Annotated[str | None, typer.Option(help="The machine's name. Default: its host name.")] = None,
    community: Annotated[
        bool, typer.Option("--community", help="Lend it, as a machine of your organization.")
    ] = False,
) -> None:
    """Print a command that adds a machine to this installation. Run it on the machine within 30 minutes."""
    if community:
        added = session.api.lend_machine(
            session.organization["id"], {"infrastructure": "community", "name": name}
        )
    else:
        added = session.api.add_machine({"infrastructure": "operator", "name": name})
    _print_command(session, added)


@command(app, "command")
def new_command(session: Session, machine: MachineArgument) -> None:
    """Print another command for a machine that has not joined. The previous one stops working."""
    _print_command(session, session.api.renew_join_command(_id_of(session, machine)))


def _print_command(session: Session, added: "MachineAdded") -> None:
    if session.output.as_json:
        session.output.result(added)
        return
    session.output.note(f"Run this on the machine, until {shown_time(added['expires_at'])}. It works once:")
    session.output.line(added["command"])


@command(app, "list")
def list_machines(session: Session) -> None:
    """List the machines that joined or may join."""
    found = list(_machines(session))
    if session.output.as_json:
        session.output.result(found)
        return
    rows = [
        [
            one["name"] or "-",
            one["id"],
            one["state"],
            shown_time(one["state_since"]),
            one["tier"] or "-",
            str(one["replicas"]),
            ", ".join(one["gpus"]) or "-",
            one["address"] or "-",
        ]
        for one in found
    ]
    columns = ("NAME", "ID", "STATE", "SINCE", "TIER", "REPLICAS", "GPUS", "ADDRESS")
    session.output.table(columns, rows, "There are no machines. Add one with `moor machines add`.")


@command(app, "show")
def show(session: Session, machine: MachineArgument) -> None:
    """Show one machine."""
    one = session.api.read_machine(_id_of(session, machine))
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
            *([("Command", _command_words(one, one["joins_until"]))] if one["joins_until"] else []),
            *([("Paused until", shown_time(one["paused_until"]))] if one["paused_until"] else []),
            *([("Reliability", f"{one['reliability']:.3f}, {one['tier']}")] if one["tier"] else []),
            *([("Proven", _proof_words(one))] if one["tier"] else []),
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
def pause(
    session: Session,
    machine: MachineArgument,
    until: Annotated[
        str | None, typer.Option(help="When the pause ends by itself: a time, or e.g. 8h from now.")
    ] = None,
) -> None:
    """Start no new replicas on a machine. Those that run stay."""
    machine_id = _id_of(session, machine)
    if until is None:
        _say(session, session.api.pause_machine(machine_id))
        return
    ends_at = time_after(until, datetime.now(UTC), "--until")
    _say(session, session.api.pause_machine(machine_id, {"until": ends_at.isoformat()}))


@command(app, "resume")
def resume(session: Session, machine: MachineArgument) -> None:
    """Use a paused or drained machine again."""
    _say(session, session.api.resume_machine(_id_of(session, machine)))


@command(app, "drain")
def drain(session: Session, machine: MachineArgument) -> None:
    """Move a machine's replicas to other machines, and start no new ones."""
    _say(session, session.api.drain_machine(_id_of(session, machine)))


@command(app, "reclaim")
def reclaim(session: Session, machine: MachineArgument) -> None:
    """Take a lent machine back for your own use: within 30 seconds nothing of others runs there."""
    _say(session, session.api.reclaim_machine(_id_of(session, machine)))


@command(app, "ban")
def ban(
    session: Session,
    machine: MachineArgument,
    reason: Annotated[str | None, typer.Option(help="The reason, for its owner to read.")] = None,
) -> None:
    """Cut a machine off, as the operator: its replicas are replaced elsewhere."""
    _say(session, session.api.ban_machine(_id_of(session, machine), {"reason": reason}))


@command(app, "unban")
def unban(session: Session, machine: MachineArgument) -> None:
    """Let a banned machine come back. It proves its hardware again."""
    _say(session, session.api.unban_machine(_id_of(session, machine)))


@command(app, "leave")
def leave(
    session: Session,
    machine: MachineArgument,
    force: Annotated[bool, typer.Option("--force", help="Even if replicas run there.")] = False,
) -> None:
    """Stop lending a machine for good; the same as `remove`. Then run `moor-node leave` on the machine itself."""
    _remove(session, machine, force)


@command(app, "remove")
def remove(
    session: Session,
    machine: MachineArgument,
    force: Annotated[bool, typer.Option("--force", help="Even if replicas run there.")] = False,
) -> None:
    """Remove a machine for good. Drain it first."""
    _remove(session, machine, force)


def _remove(session: Session, machine: str, force: bool) -> None:
    machine_id = _id_of(session, machine)
    session.api.remove_machine(machine_id, force=force or None)
    session.output.answer({"id": machine_id, "removed": True}, f"Removed {machine}.")


def _command_words(machine: "MachineRead", joins_until: str) -> str:
    another = f"`moor machines command {machine['name'] or machine['id']}` prints another"
    return f"runs out {shown_time(joins_until)}; {another}"


def _proof_words(machine: "MachineRead") -> str:
    last = shown_time(machine["proven_at"]) if machine["proven_at"] else "not yet"
    again = f"; again by {shown_time(machine['proof_due_at'])}" if machine["proof_due_at"] else ""
    failed = f"; the last proof failed: {machine['proof_failure']}" if machine["proof_failure"] else ""
    return f"{last}{again}{failed}"


def _say(session: Session, said: "MachineRead") -> None:
    session.output.answer(
        said, f"{said['name'] or said['id']} is {said['state']}. {said['message'] or ''}".strip()
    )


def _machines(session: Session) -> "Iterator[MachineRead]":
    """All of them for the operator; for others those that their organization lends."""
    person = session.api.me().get("user")
    if person is not None and person["is_operator"]:
        return session.api.list_machines()
    return session.api.list_lent_machines(session.organization["id"])


def _id_of(session: Session, machine: str) -> str:
    if machine.startswith("mch_"):
        return machine
    for one in _machines(session):
        if one["name"] == machine:
            return one["id"]
    raise CliError(
        f"There is no machine {machine}.",
        code="not_found",
        hint="See `moor machines list`; for the machine that Moorage itself runs on there is `moor operator intake`.",
    )
