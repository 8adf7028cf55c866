"""Who may use an engine next. Pure: it hands out places and takes them back, and runs nothing.

Each kind of work has places of its own, so that stops, which mostly wait for a process to end, hold up no start. Within
a kind, whichever organization uses the fewest places is next, and of several each in turn; an organization never has
all places, so that another finds one without waiting for the first to finish.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from moorage.engines.base import LOCAL_ENGINE


class Kind(StrEnum):
    PULL = "pull"
    START = "start"
    STOP = "stop"
    KILL = "kill"
    REMOVE = "remove"


@dataclass(frozen=True)
class Share:
    total: int
    per_organization: int


def shares_on(cores: int) -> Mapping[Kind, Share]:
    """A pull or a stop mostly waits, for a registry or for a process to end; a start or a removal is work for the engine,
    so that one organization's keep fewer cores busy than the machine has: its neighbours' requests need the others. A kill
    gives no time to end, because others suffer meanwhile; so it queues neither behind stops that do nor behind starts."""
    working = Share(total=min(max(4, cores), 8), per_organization=min(max(1, cores * 3 // 4), 6))
    return {
        Kind.PULL: Share(total=64, per_organization=8),
        Kind.START: working,
        Kind.STOP: Share(total=64, per_organization=16),
        Kind.KILL: Share(total=8, per_organization=6),
        Kind.REMOVE: working,
    }


@dataclass(frozen=True)
class Ticket:
    key: str
    kind: Kind
    organization_id: str
    engine: str = LOCAL_ENGINE
    """Whose places it is about: each engine has places of its own."""


@dataclass
class Places:
    shares: Mapping[Kind, Share]
    _waiting: dict[Kind, dict[str, list[Ticket]]] = field(init=False)
    """By organization, in the order of their turns; of each, its oldest ticket first."""
    _taken: dict[Kind, Counter[str]] = field(init=False)

    def __post_init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self._waiting = {kind: {} for kind in Kind}
        self._taken = {kind: Counter() for kind in Kind}

    def ask(self, ticket: Ticket) -> None:
        self._waiting[ticket.kind].setdefault(ticket.organization_id, []).append(ticket)

    def give_back(self, ticket: Ticket) -> None:
        taken = self._taken[ticket.kind]
        taken[ticket.organization_id] -= 1
        if not taken[ticket.organization_id]:
            del taken[ticket.organization_id]

    def grant(self, kind: Kind) -> list[Ticket]:
        """Tickets that have a place from now on."""
        granted = []
        while (ticket := self._next(kind)) is not None:
            self._taken[kind][ticket.organization_id] += 1
            granted.append(ticket)
        return granted

    def _next(self, kind: Kind) -> Ticket | None:
        share, waiting, taken = self.shares[kind], self._waiting[kind], self._taken[kind]
        eligible = [name for name in waiting if taken[name] < share.per_organization]
        if not eligible or taken.total() >= share.total:
            return None
        organization_id = min(eligible, key=lambda name: taken[name])
        tickets = waiting.pop(organization_id)
        ticket = tickets.pop(0)
        if tickets:
            waiting[organization_id] = tickets  # Behind the others.
        return ticket
