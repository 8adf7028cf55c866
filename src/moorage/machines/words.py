"""What people are told of a machine's changes. Pure."""

from moorage.machines.states import Life, MachineState

_SENTENCES = {
    MachineState.JOINING: "It has not answered yet.",
    MachineState.ACTIVE: "It takes containers.",
    MachineState.PAUSED: "Nothing new starts there; what runs stays.",
    MachineState.DRAINING: "What runs there moves to other machines.",
    MachineState.LOST: "It does not answer. What ran there is replaced elsewhere.",
    MachineState.REMOVED: "It is no part of this installation any more.",
}


def sentence(state: MachineState) -> str:
    return _SENTENCES[state]


def change_mail(name: str, before: Life, after: Life) -> tuple[str, str]:
    """Subject and text, for the operator."""
    verb = {
        MachineState.ACTIVE: "is ready" if before.state is MachineState.JOINING else "is active again",
        MachineState.PAUSED: "is paused",
        MachineState.DRAINING: "drains",
        MachineState.LOST: "does not answer",
        MachineState.REMOVED: "was removed",
    }[after.state]
    text = f"The machine {name} {verb}. {sentence(after.state)}\n\nIt was {before.state} before."
    if after.state is MachineState.LOST:
        text += (
            " When it answers again it is used again by itself. If it is gone for good:\n\n"
            f"    moor machines remove {name}\n"
        )
    return f"The machine {name} {verb}", text + "\n"
