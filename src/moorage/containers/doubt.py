"""Whether a machine's engine is to be believed when it says that replicas are gone. Pure.

One replica that its engine neither finds nor lists is gone. When most of a machine's are missing at once, its engine
is rather wrong than right, and what it does not name may serve on: then it is doubted, for a bounded time. There are
two better witnesses. The engine's identity: what was given to another engine cannot be on this one. And the gateways:
where nothing listens any more, nothing is left to wait for.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from moorage.containers.states import Reason
from moorage.containers.verdict import Verdict
from moorage.engines.base import MachineKey

SUSPICIOUS_FROM = 3
"""So many missing at once, and more than half of a machine's: rather a confused engine than so many deaths."""


@dataclass(frozen=True)
class Loss:
    """What one machine should have, and what of it its engine does not name."""

    missing: int
    expected: int

    @property
    def is_suspicious(self) -> bool:
        return self.missing >= SUSPICIOUS_FROM and self.missing * 2 > self.expected


@dataclass(frozen=True)
class Missing:
    """A replica that its engine does not name."""

    replica_id: str
    machine: MachineKey
    engine_identity: str | None
    refuses: bool
    """The gateways find that nothing listens where it should be."""


def losses(
    expected: Sequence[tuple[str, MachineKey]], there: Collection[str], engines: Collection[str]
) -> dict[MachineKey, Loss]:
    """By machine, from (replica, machine): of those engines only that were asked what is there."""
    asked = [(replica_id, machine) for replica_id, machine in expected if machine.engine in engines]
    on_machine = Counter(machine for _, machine in asked)
    missing = Counter(machine for replica_id, machine in asked if replica_id not in there)
    return {machine: Loss(missing[machine], count) for machine, count in on_machine.items()}


def possibly_there(missing: Iterable[Missing], identities: Mapping[str, Collection[str]]) -> list[Missing]:
    """Those about which nobody but the engine's list says that they are gone. `identities` of its machines, by engine."""
    return [one for one in missing if not one.refuses and _may_have(one, identities[one.machine.engine])]


def _may_have(one: Missing, identities: Collection[str]) -> bool:
    return one.engine_identity is None or not identities or one.engine_identity in identities


def is_over(since: datetime, gone_at: datetime | None, limit: timedelta, now: datetime) -> bool:
    return gone_at is not None or now - since >= limit


def verdict_in_doubt(node: str, loss: Loss, until: datetime) -> Verdict:
    return Verdict(
        Reason.NODE_LOST,
        f"{loss.missing} of {loss.expected} replicas on the machine {node} disappeared at once, so its "
        f"engine may be wrong. Moorage replaces them at {until:%H:%M:%S} UTC unless they come back. They "
        "cost nothing meanwhile.",
    )
