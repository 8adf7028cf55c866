"""A machine's life, as a table: what may happen in which state, by whose word, and what comes of it. Pure.

    joining ──> active <──> paused
                  │  ▲        │
                  ▼  │        ▼
               draining <─────┘        any of these three ──> lost ──> as it was before
    removed: from each of them, for good

`paused`: nothing new starts there, what runs stays. `draining`: what runs there moves away too. `lost`: it does not answer;
what ran there is replaced, and when it answers again it is what it was, or what was said about it meanwhile.
"""

from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum

LOST_AFTER = timedelta(seconds=20)
"""Of silence: then a machine is lost; and what it has, and no gateway reaches there either, is replaced on others."""


class MachineState(StrEnum):
    JOINING = "joining"
    ACTIVE = "active"
    PAUSED = "paused"
    DRAINING = "draining"
    LOST = "lost"
    REMOVED = "removed"


class Happening(StrEnum):
    ANSWERED = "answered"
    SILENT = "silent"
    PAUSE = "pause"
    RESUME = "resume"
    DRAIN = "drain"
    REMOVE = "remove"
    LEAVE = "leave"


class Speaker(StrEnum):
    MOORAGE = "moorage"
    OPERATOR = "operator"
    MACHINE = "machine"


SPEAKERS = {
    Happening.ANSWERED: Speaker.MOORAGE,
    Happening.SILENT: Speaker.MOORAGE,
    Happening.PAUSE: Speaker.OPERATOR,
    Happening.RESUME: Speaker.OPERATOR,
    Happening.DRAIN: Speaker.OPERATOR,
    Happening.REMOVE: Speaker.OPERATOR,
    Happening.LEAVE: Speaker.MACHINE,
}
"""By whose word alone each may happen."""

WITH_ENGINE = frozenset({MachineState.ACTIVE, MachineState.PAUSED, MachineState.DRAINING, MachineState.LOST})
"""Those that Moorage speaks to."""
_WISHES = {
    Happening.PAUSE: MachineState.PAUSED,
    Happening.RESUME: MachineState.ACTIVE,
    Happening.DRAIN: MachineState.DRAINING,
}


@dataclass(frozen=True)
class Life:
    state: MachineState
    before_loss: MachineState | None = None
    """What a lost machine is when it answers again."""
    replicas: int = 0
    """That have not left it."""


class TunnelState(StrEnum):
    NOT_NEEDED = "not_needed"
    OPENING = "opening"
    OPEN = "open"
    FAILING = "failing"


@dataclass(frozen=True)
class Tunnel:
    """The installation's end of it: without one that is open, no machine can join or answer."""

    state: TunnelState
    message: str


@dataclass(frozen=True)
class Refusal:
    code: str
    sentence: str


def after(life: Life, happening: Happening, *, forced: bool = False) -> Life | Refusal:
    """The same life where there is nothing to do."""
    if life.state is MachineState.REMOVED:
        return Refusal("machine_removed", "This machine was removed. Add it again to have it back.")
    if happening is Happening.LEAVE:
        return replace(life, state=MachineState.REMOVED, before_loss=None)
    if happening is Happening.REMOVE:
        return _removed(life, forced)
    if happening in _WISHES:
        return _wished(life, _WISHES[happening])
    if happening is Happening.SILENT:
        return _silent(life)
    return _answered(life)


def _removed(life: Life, forced: bool) -> Life | Refusal:
    serves = life.state in WITH_ENGINE - {MachineState.LOST} and life.replicas > 0
    if serves and not forced:
        run = "1 replica runs" if life.replicas == 1 else f"{life.replicas} replicas run"
        return Refusal(
            "machine_in_use",
            f"{run} on this machine. Drain it first, and wait until it is empty; by force (`--force`) they are cut off at "
            "once, and replaced after that.",
        )
    return replace(life, state=MachineState.REMOVED, before_loss=None)


def _wished(life: Life, wish: MachineState) -> Life | Refusal:
    if life.state is MachineState.JOINING:
        return Refusal("machine_not_joined", "This machine has not joined yet. It can be removed.")
    if life.state is MachineState.LOST:
        return replace(life, before_loss=wish)
    return replace(life, state=wish)


def _silent(life: Life) -> Life:
    if life.state in (MachineState.JOINING, MachineState.LOST):
        return life
    return replace(life, state=MachineState.LOST, before_loss=life.state)


def _answered(life: Life) -> Life:
    if life.state is MachineState.JOINING:
        return replace(life, state=MachineState.ACTIVE)
    if life.state is MachineState.LOST:
        return replace(life, state=life.before_loss or MachineState.ACTIVE, before_loss=None)
    return life
