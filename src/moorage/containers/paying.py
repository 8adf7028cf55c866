"""Which slots have to be paid. Pure.

The one place that says it: passes (`reconciler/funding.py`), admissions (`repository.occupied_slots`) and renewals
(`billing/renewals`) all ask here. Only the ledger's own check (`ledger/check_repository.py`) says it again in SQL, on
purpose: a second opinion that shares a mistake with the first would find nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from moorage.containers.rollout import FIRST_CANARY_SLOT
from moorage.containers.states import LIVE, SERVING, DesiredState


class Occupant(Protocol):
    """A replica, as far as money is concerned."""

    @property
    def slot(self) -> int: ...
    @property
    def state(self) -> str: ...
    @property
    def instance_type(self) -> str: ...
    @property
    def unfunded_at(self) -> datetime | None: ...
    @property
    def missing_since(self) -> datetime | None: ...


@dataclass(frozen=True)
class Wanted:
    """What a container asks for, as far as money is concerned."""

    desired_state: DesiredState
    """With a suspension of its organization taken into account: then nothing of it is to run."""
    replicas: int
    canary_replicas: int = 0
    """Besides them, in slots of their own."""

    def includes(self, slot: int) -> bool:
        """What is to go is paid for already."""
        of_canary = FIRST_CANARY_SLOT <= slot < FIRST_CANARY_SLOT + self.canary_replicas
        return self.desired_state is DesiredState.RUNNING and (slot < self.replicas or of_canary)


def wanted(
    desired_state: str, replicas: int, canary_replicas: int = 0, *, suspended: bool, asleep: bool = False
) -> Wanted:
    state = DesiredState(desired_state)
    replicas = 0 if asleep else replicas
    held_back = suspended and state is DesiredState.RUNNING
    return Wanted(DesiredState.STOPPED if held_back else state, replicas, canary_replicas)


def uses_hour(one: Occupant, instance_type: str, state: str | None = None) -> bool:
    """Whether an hour of the type in its slot is for it, now or when it is ready: it lives (in `state`, where that is
    other than what its row says), it is there, and it is not to go because its hour could not be paid."""
    return (
        (state or one.state) in LIVE
        and one.instance_type == instance_type
        and one.unfunded_at is None
        and one.missing_since is None
    )


def has_to_be_paid(one: Occupant, instance_type: str, state: str | None = None) -> bool:
    """Whether it serves, so that its hour is bought, not only held."""
    return (state or one.state) in SERVING and uses_hour(one, instance_type, state)


def slots_that_serve(replicas: Iterable[Occupant], instance_type: str) -> frozenset[int]:
    return frozenset(one.slot for one in replicas if has_to_be_paid(one, instance_type))
