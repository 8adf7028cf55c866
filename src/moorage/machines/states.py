"""A machine's life, as a table: what may happen in which state, by whose word, and what comes of it. Pure.

    joining ──> verifying ──> probation <──> active        the operator's own: joining ──> active
                    └───────┬──────┴────────────┘
                            ▼  ▲ as it stood before
                    paused <──> draining                   any of these five ──> lost ──> as it was before
    banned: from each of them, by the operator's word; back to joining by the same. removed: from each of them, for good;
    of a banned one by the operator's word alone, because its owner lends no other while there is one

`verifying`: a stranger's machine that has to prove what it claims; nothing runs there. `probation`: it is never a container's only
one. `paused`: nothing new starts there, what runs stays. `draining`: what runs there moves away too. `lost`: it does not answer;
what ran there is replaced, and when it answers again it is what it was, or what was said about it meanwhile. `banned`: Moorage does
not speak to it.
"""

from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum

LOST_AFTER = timedelta(seconds=20)
"""Of silence: then a machine is lost; and what it has, and no gateway reaches there either, is replaced on others."""
RECLAIMED_WITHIN = timedelta(seconds=30)
"""Of its owner's word it is empty."""


class MachineState(StrEnum):
    JOINING = "joining"
    ACTIVE = "active"
    PAUSED = "paused"
    DRAINING = "draining"
    LOST = "lost"
    REMOVED = "removed"
    VERIFYING = "verifying"
    PROBATION = "probation"
    BANNED = "banned"


class Happening(StrEnum):
    ANSWERED = "answered"
    SILENT = "silent"
    PAUSE = "pause"
    RESUME = "resume"
    DRAIN = "drain"
    REMOVE = "remove"
    LEAVE = "leave"
    VERIFIED = "verified"
    PROMOTED = "promoted"
    DEMOTED = "demoted"
    DISTRUSTED = "distrusted"
    RECLAIM = "reclaim"
    BAN = "ban"
    UNBAN = "unban"


class Speaker(StrEnum):
    MOORAGE = "moorage"
    OPERATOR = "operator"
    MACHINE = "machine"
    OWNER = "owner"
    """Whoever manages machines in the organization that lends it."""


_BOTH = frozenset({Speaker.OPERATOR, Speaker.OWNER})
_MOORAGE = frozenset({Speaker.MOORAGE})
SPEAKERS: dict[Happening, frozenset[Speaker]] = {
    Happening.ANSWERED: _MOORAGE,
    Happening.SILENT: _MOORAGE,
    Happening.PAUSE: _BOTH,
    # By itself when the time is over that its owner said.
    Happening.RESUME: _BOTH | _MOORAGE,
    Happening.DRAIN: _BOTH,
    Happening.REMOVE: _BOTH,
    Happening.LEAVE: frozenset({Speaker.MACHINE}),
    Happening.VERIFIED: _MOORAGE,
    Happening.PROMOTED: _MOORAGE,
    Happening.DEMOTED: _MOORAGE,
    Happening.DISTRUSTED: _MOORAGE,
    Happening.RECLAIM: _BOTH,
    Happening.BAN: frozenset({Speaker.OPERATOR}),
    Happening.UNBAN: frozenset({Speaker.OPERATOR}),
}
"""By whose word alone each may happen."""

OPEN = frozenset({MachineState.VERIFYING, MachineState.PROBATION, MachineState.ACTIVE})
"""How a machine may stand, when nobody has stopped it."""
WITH_ENGINE = OPEN | {MachineState.PAUSED, MachineState.DRAINING, MachineState.LOST}
"""Those that Moorage speaks to."""
TAKES_REPLICAS = frozenset({MachineState.PROBATION, MachineState.ACTIVE})
_STOPS = {
    Happening.PAUSE: MachineState.PAUSED,
    Happening.DISTRUSTED: MachineState.PAUSED,
    Happening.DRAIN: MachineState.DRAINING,
    Happening.RECLAIM: MachineState.DRAINING,
}
_OVERRULES = {
    Speaker.OWNER: frozenset({Speaker.OWNER}),
    Speaker.MOORAGE: frozenset({Speaker.OWNER, Speaker.MOORAGE}),
    Speaker.OPERATOR: frozenset(Speaker),
}
"""Whose stop each may take back."""

_BANNED = "The operator banned this machine. Only the operator can let it back in or remove it."


@dataclass(frozen=True)
class Life:
    state: MachineState
    before_loss: MachineState | None = None
    """What a lost machine is when it answers again."""
    replicas: int = 0
    """That have not left it."""
    standing: MachineState = MachineState.ACTIVE
    """One of OPEN: what it is when nobody stops it."""
    stopped_by: Speaker | None = None
    """Whose word paused or drains it."""
    is_lent: bool = False
    """By an organization; otherwise it is the operator's."""

    @property
    def when_it_answers(self) -> MachineState:
        """What it is, or will be again."""
        return self.before_loss or self.state

    def is_stopped_as(self, other: "Life") -> bool:
        """By the same word, whatever else became of it."""
        return (self.stopped_by, self.when_it_answers) == (other.stopped_by, other.when_it_answers)


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


def new_life(*, is_lent: bool) -> Life:
    return Life(MachineState.JOINING, standing=_first_standing(is_lent=is_lent), is_lent=is_lent)


def after(
    life: Life, happening: Happening, *, speaker: Speaker = Speaker.OPERATOR, forced: bool = False
) -> Life | Refusal:
    """The same life where there is nothing to do."""
    if life.state is MachineState.REMOVED:
        return Refusal("machine_removed", "This machine was removed. Add it again to have it back.")
    if happening is Happening.LEAVE:
        return _left(life)
    if happening is Happening.REMOVE:
        return _removed(life, forced, speaker)
    if happening is Happening.BAN:
        return replace(life, state=MachineState.BANNED, before_loss=None, stopped_by=None)
    if happening is Happening.UNBAN:
        return _unbanned(life)
    if life.state is MachineState.BANNED:
        return _of_banned(life, happening)
    if happening in _STOPS:
        return _stopped(life, _STOPS[happening], speaker)
    if happening is Happening.RESUME:
        return _resumed(life, speaker)
    if happening is Happening.SILENT:
        return _silent(life)
    if happening is Happening.ANSWERED:
        return _answered(life)
    return _judged(life, happening)


def _first_standing(*, is_lent: bool) -> MachineState:
    return MachineState.VERIFYING if is_lent else MachineState.ACTIVE


def _left(life: Life) -> Life:
    """Also without a word to us. That it is banned is remembered all the same: it would come back under another name."""
    if life.state is MachineState.BANNED:
        return life
    return replace(life, state=MachineState.REMOVED, before_loss=None)


def _removed(life: Life, forced: bool, speaker: Speaker) -> Life | Refusal:
    if life.state is MachineState.BANNED and speaker is not Speaker.OPERATOR:
        return Refusal("machine_banned", _BANNED)
    serves = life.state in WITH_ENGINE - {MachineState.LOST} and life.replicas > 0
    if serves and not forced:
        run = "1 replica runs" if life.replicas == 1 else f"{life.replicas} replicas run"
        return Refusal(
            "machine_in_use",
            f"{run} on this machine. Drain it first and wait until it is empty. With `--force` they are cut "
            "off at once and then replaced.",
        )
    return replace(life, state=MachineState.REMOVED, before_loss=None)


def _unbanned(life: Life) -> Life:
    """It proves again what it has before anything runs there, if it is a stranger's."""
    if life.state is not MachineState.BANNED:
        return life
    return replace(life, state=MachineState.JOINING, standing=_first_standing(is_lent=life.is_lent))


def _of_banned(life: Life, happening: Happening) -> Life | Refusal:
    if happening in _STOPS or happening is Happening.RESUME:
        return Refusal("machine_banned", _BANNED)
    return life


def _stopped(life: Life, wish: MachineState, speaker: Speaker) -> Life | Refusal:
    if life.state is MachineState.JOINING:
        return Refusal("machine_not_joined", "This machine has not joined yet. You can remove it.")
    # Whoever has more to say keeps the last word: an owner who drains what the operator paused cannot open it again.
    kept = life.stopped_by is not None and life.stopped_by not in _OVERRULES[speaker]
    by = life.stopped_by if kept else speaker
    # And what is to be empty does not keep what runs because somebody with less to say, or a doubt, would only pause it.
    if life.when_it_answers is MachineState.DRAINING and (kept or speaker is Speaker.MOORAGE):
        wish = MachineState.DRAINING
    if life.state is MachineState.LOST:
        return replace(life, before_loss=wish, stopped_by=by)
    return replace(life, state=wish, stopped_by=by)


def _resumed(life: Life, speaker: Speaker) -> Life | Refusal:
    if life.state is MachineState.JOINING:
        return Refusal("machine_not_joined", "This machine has not joined yet. You can remove it.")
    if life.stopped_by is not None and life.stopped_by not in _OVERRULES[speaker]:
        return Refusal(
            "machine_held", "Only the operator can open this machine again, because you did not stop it."
        )
    standing = life.standing
    if life.stopped_by is Speaker.MOORAGE:
        standing = _first_standing(is_lent=life.is_lent)  # Whatever made it doubtful is to be proven.
    if life.state is MachineState.LOST:
        return replace(life, before_loss=standing, standing=standing, stopped_by=None)
    return replace(life, state=standing, standing=standing, stopped_by=None)


def _silent(life: Life) -> Life:
    if life.state in (MachineState.JOINING, MachineState.LOST):
        return life
    return replace(life, state=MachineState.LOST, before_loss=life.state)


def _answered(life: Life) -> Life:
    if life.state is MachineState.JOINING:
        return replace(life, state=life.standing)
    if life.state is MachineState.LOST:
        return replace(life, state=life.before_loss or life.standing, before_loss=None)
    return life


_JUDGEMENTS = {
    Happening.VERIFIED: (MachineState.VERIFYING, MachineState.PROBATION),
    Happening.PROMOTED: (MachineState.PROBATION, MachineState.ACTIVE),
    Happening.DEMOTED: (MachineState.ACTIVE, MachineState.PROBATION),
}


def _judged(life: Life, happening: Happening) -> Life:
    """How it stands changes; what stops it goes on stopping it."""
    before, standing = _JUDGEMENTS[happening]
    if life.standing is not before:
        return life
    judged = replace(life, standing=standing)
    if life.state is before:
        return replace(judged, state=standing)
    return replace(judged, before_loss=standing) if life.before_loss is before else judged
