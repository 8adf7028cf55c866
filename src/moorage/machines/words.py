"""What people are told of a machine's changes. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from moorage.machines.proof.rules import APART
from moorage.machines.states import Life, MachineState, Speaker

_SENTENCES = {
    MachineState.JOINING: "It has joined, but has not answered through the tunnel yet.",
    MachineState.ACTIVE: "It takes containers.",
    MachineState.PAUSED: "It takes no new replicas. Those that run stay.",
    MachineState.DRAINING: "Its replicas are moving to other machines.",
    MachineState.LOST: "It does not answer. Its replicas are replaced elsewhere.",
    MachineState.REMOVED: "It is no longer part of this installation.",
    MachineState.VERIFYING: "It is proving the hardware that it claims. Nothing runs there yet.",
    MachineState.PROBATION: "It takes replicas of containers that also run elsewhere.",
    MachineState.BANNED: "The operator banned it. Its replicas are replaced elsewhere.",
}
TUNNEL_NOT_NEEDED = "No machine has been added, so there is no tunnel."
TUNNEL_OPEN = "Machines can dial this installation."
TUNNEL_NOT_OPEN = "The installation's end of the tunnel is not open."
TUNNEL_OPENS_SOON = "It opens within seconds of adding the first machine."
TUNNEL_UNATTENDED = "No gateway has reported on it for a minute. See `moor status`."

_NOTHING_TO_DO = "You need not do anything."
_LISTED = 20
"""So many machines a mail names, and counts the others."""


@dataclass(frozen=True)
class ToldMachine:
    name: str
    state: MachineState
    seen_at: datetime
    """When it last answered."""


def sentence(state: MachineState) -> str:
    return _SENTENCES[state]


def condition(
    life: Life, *, has_joined: bool, held_because: str | None = None, proof_failure: str | None = None
) -> str:
    """How a machine is now, for whoever looks after it: more than its state alone says."""
    told = sentence(life.state)
    if held_because is not None:
        told = f"{told} {held_because}"
    elif proof_failure is not None:
        told = f"{told} {proof_failure}"
        if life.state is MachineState.VERIFYING:
            told = f"{told} It can try again {APART // timedelta(minutes=1)} minutes after it failed."
    if life.state is MachineState.JOINING and not has_joined:
        return "Its join command has not been run, or has not finished."
    if life.state is MachineState.DRAINING and life.replicas == 0:
        return "It is empty: switch it off, or remove it."
    if life.before_loss not in (None, life.standing):
        return f"{told} When it answers again, it is {life.before_loss}."
    return told


def change_mail(
    name: str, before: Life, after: Life, *, left: bool = False, because: str | None = None
) -> tuple[str, str]:
    """Subject and text, for whoever looks after it: what happened, and what to do about it. `left`: by the machine's own word."""
    joined = before.state is MachineState.JOINING
    verb = (
        "has left"
        if left
        else {
            MachineState.ACTIVE: "is ready" if joined else "is active again",
            MachineState.PAUSED: "is paused",
            MachineState.DRAINING: "drains",
            MachineState.REMOVED: "was removed",
            MachineState.VERIFYING: "has joined" if joined else "is verified again",
            MachineState.PROBATION: "is on probation",
            MachineState.BANNED: "is banned",
            MachineState.JOINING: "may come back",
        }[after.state]
    )
    undo = _run(
        "Its join command no longer works. If somebody ran it already, undo that on the machine:"
        if joined
        else "Its containers keep running until you undo the join on the machine:",
        "moor-node leave",
    )
    to_do = {
        MachineState.ACTIVE: f"{_NOTHING_TO_DO} If no instance type offers its GPUs, the console proposes one."
        if joined
        else _NOTHING_TO_DO,
        MachineState.PAUSED: _run("To use it again:", f"moor machines resume {name}"),
        MachineState.DRAINING: "Each replica keeps serving until its replacement serves. "
        + _run(
            "You can switch the machine off once no replica is left. To see how many are:",
            f"moor machines show {name}",
        )
        + "\n\n"
        + _run("To use it again:", f"moor machines resume {name}"),
        MachineState.REMOVED: _run(
            "Somebody ran `moor-node leave` there. To have it back, add it again:",
            f"moor machines add --name {name}",
        )
        if left
        else undo,
        MachineState.VERIFYING: f"{_NOTHING_TO_DO} It takes containers once it has proven its hardware.",
        MachineState.PROBATION: f"{_NOTHING_TO_DO} It is trusted with more the longer it stays.",
        MachineState.BANNED: _run("To undo the join, run on the machine:", "moor-node leave"),
        MachineState.JOINING: f"{_NOTHING_TO_DO} It is used again once it answers and has proven its hardware.",
    }[after.state]
    if after.stopped_by is Speaker.MOORAGE:
        to_do = "The operator decides whether it is used again."
    why = f" {because}" if because is not None else ""
    text = f"The machine {name} {verb}. {sentence(after.state)}{why} It was {before.state} before.\n\n{to_do}"
    return f"The machine {name} {verb}", f"{text}\n"


def losses_mail(machines: Sequence[ToldMachine]) -> tuple[str, str]:
    """Subject and text about machines that were lost, and about those that answer again, for the operator."""
    lost = [one for one in machines if one.state is MachineState.LOST]
    back = [one for one in machines if one.state is not MachineState.LOST]
    if len(machines) == 1:
        [one] = machines
        return (
            f"The machine {one.name} {'does not answer' if lost else 'answers again'}",
            f"{_one_lost(one) if lost else _one_back(one)}\n",
        )
    subjects = [
        _counted(lost, "does not answer", "do not answer"),
        _counted(back, "answers again", "answer again"),
    ]
    texts = [_many_lost(lost), _many_back(back)]
    return ", ".join(part for part in subjects if part), "\n\n".join(part for part in texts if part) + "\n"


def _one_lost(machine: ToldMachine) -> str:
    happened = (
        f"The machine {machine.name} has not answered since {_time(machine.seen_at)}. Its replicas are "
        "replaced on other machines that have room. Once it answers, it is used again by itself."
    )
    why = _run("To find the cause, run on the machine:", "journalctl -u moorage-tunnel -u moorage-node")
    gone = _run("If it is gone for good:", f"moor machines remove {machine.name}")
    return "\n\n".join([happened, why, gone])


def _one_back(machine: ToldMachine) -> str:
    return (
        f"The machine {machine.name} was silent for a while and answers again. {sentence(machine.state)}\n\n"
        f"{_NOTHING_TO_DO}"
    )


def _many_lost(machines: Sequence[ToldMachine]) -> str | None:
    if not machines:
        return None
    names = _list([f"{one.name}, since {_time(one.seen_at)}" for one in machines])
    happened = (
        f"{_counted(machines, 'does not answer', 'do not answer')}:\n\n"
        f"{names}\n\n"
        "Their replicas are replaced on other machines that have room. Once a machine answers, it is used "
        "again by itself."
    )
    why = _run(
        "Machines lost together often share a cause: power, network, or this installation's end of the "
        "tunnel. To see when each last spoke, run on the gateway host:",
        "wg show",
    )
    return "\n\n".join([happened, why, _run("If one is gone for good:", "moor machines remove NAME")])


def _many_back(machines: Sequence[ToldMachine]) -> str | None:
    if not machines:
        return None
    names = _list([f"{one.name}: {sentence(one.state)}" for one in machines])
    title = _counted(
        machines,
        "was silent for a while and answers again",
        "were silent for a while and answer again",
    )
    return f"{title}:\n\n{names}\n\n{_NOTHING_TO_DO}"


def _counted(machines: Sequence[ToldMachine], one: str, many: str) -> str:
    if not machines:
        return ""
    return f"1 machine {one}" if len(machines) == 1 else f"{len(machines)} machines {many}"


def _list(lines: Sequence[str]) -> str:
    shown = list(lines[:_LISTED])
    if len(lines) > _LISTED:
        shown.append(f"and {len(lines) - _LISTED} more: moor machines list")
    return "\n".join(f"    {line}" for line in shown)


def _run(why: str, command: str) -> str:
    return f"{why}\n\n    {command}"


def _time(at: datetime) -> str:
    return f"{at:%H:%M:%S} UTC"
