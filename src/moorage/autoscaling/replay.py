"""What another policy would have done with the demand that was recorded. Pure.

The same `decide`, tick by tick, over the same seconds: with the policy of then it gives the decisions of then. Replicas
that are asked for become ready after the container's own start-up time.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from moorage.autoscaling.decide import TICK_S, Decision, Fleet, Policy, Samples, State, decide
from moorage.autoscaling.demand import GatewayTime, History, silent_at

HOUR_S = 3600


@dataclass(frozen=True)
class Recorded:
    """Demand of one container, from before the time that is replayed: the windows reach back."""

    begins_at: int
    levels: Sequence[float]
    """One for each second."""
    gateways: Sequence[GatewayTime]


@dataclass(frozen=True)
class Change:
    second: int
    decision: Decision


@dataclass(frozen=True)
class Replayed:
    seconds: int
    replica_s: int
    hours_bought: int
    """Hours are bought for a slot and kept until they are over, as they are charged."""
    over_target_s: int
    """Seconds with more in flight than the ready replicas are meant to have."""
    changed: int
    """How often the number did."""
    changes: tuple[Change, ...] = ()
    """The decisions that did it."""


class Bill:
    """Counts what a number of replicas costs, second by second."""

    def __init__(self) -> None:
        self.replica_s = self.hours_bought = 0
        self._paid_until: list[int] = []

    def second(self, at: int, replicas: int) -> None:
        self.replica_s += replicas
        for slot in range(replicas):
            if slot == len(self._paid_until):
                self._paid_until.append(at)
            if self._paid_until[slot] <= at:
                self.hours_bought += 1
                self._paid_until[slot] = at + HOUR_S


def replay(
    policy: Policy, recorded: Recorded, state: State, startup_s: float | None, since: int, until: int
) -> Replayed:
    """From `since` to `until`, both included; `state` is the one that the first decision finds."""
    history, bill = History(recorded.begins_at), Bill()
    ready, coming = state.replicas, deque[int]()
    over_target_s, changes = 0, []
    for second in range(recorded.begins_at, until + 1):
        level = recorded.levels[second - recorded.begins_at]
        history.add(level)
        if second < since:
            continue
        while coming and coming[0] <= second:
            coming.popleft()
            ready += 1
        over_target_s += level > ready * policy.target_concurrency
        bill.second(second, state.replicas)
        if second % TICK_S:
            continue
        fleet = Fleet(ready, len(coming), startup_s=startup_s)
        decision = decide(policy, _samples(history, policy, recorded, second), fleet, state, second)
        if decision.replicas != state.replicas:
            changes.append(Change(second, decision))
            coming.extend([second + int(startup_s or 0)] * (decision.replicas - state.replicas))
            for _ in range(state.replicas - decision.replicas):
                if coming:
                    coming.pop()
                else:
                    ready -= 1
        state = decision.state
    return Replayed(
        until - since + 1, bill.replica_s, bill.hours_bought, over_target_s, len(changes), tuple(changes)
    )


def as_it_was(
    policy: Policy,
    recorded: Recorded,
    replicas: int,
    steps: Sequence[tuple[int, int]],
    since: int,
    until: int,
) -> Replayed:
    """The same figures for the decisions that were made: the number at first, then (second, number)."""
    bill, over_target_s, position, changed = Bill(), 0, 0, 0
    for second in range(since, until + 1):
        while position < len(steps) and steps[position][0] < second:
            changed += replicas != steps[position][1]
            replicas = steps[position][1]
            position += 1
        over_target_s += recorded.levels[second - recorded.begins_at] > replicas * policy.target_concurrency
        bill.second(second, replicas)
    return Replayed(until - since + 1, bill.replica_s, bill.hours_bought, over_target_s, changed)


def _samples(history: History, policy: Policy, recorded: Recorded, second: int) -> Samples:
    if all(gateway.is_silent_at(second) for gateway in recorded.gateways):
        return Samples((), 0.0)
    return history.samples(policy, silent_at(second, recorded.gateways))
