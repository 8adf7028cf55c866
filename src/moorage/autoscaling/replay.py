"""What another policy would have done with the demand that was recorded. Pure.

The same `decide`, tick by tick, over the same seconds: with the policy of then it gives the decisions of then. Replicas
that are asked for become ready after the container's own start-up time.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from moorage.autoscaling.decide import HISTORY_S, TICK_S, Decision, Fleet, Policy, Samples, State, decide
from moorage.autoscaling.demand import SECONDS_KEPT, STEP_S, GatewayTime, silent_at
from moorage.autoscaling.outlook import EARLY_S, Outlook, look_ahead
from moorage.autoscaling.pattern import LEARN_EVERY_S, MINUTE_S, RECENT, Demand, Pattern, learn

HOUR_S = 3600


@dataclass(frozen=True)
class Recorded:
    """Demand of one container, from before the time that is replayed: the windows reach back."""

    begins_at: int
    levels: Sequence[float]
    """One for each second."""
    gateways: Sequence[GatewayTime]
    minutes: Demand | None = None
    """What patterns are learnt from; None: nothing is foreseen."""


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
    pattern: str | None = None
    """What the history showed in the end."""


class Bill:
    """Counts what a number of replicas costs, second by second."""

    def __init__(self) -> None:
        self.replica_s = self.hours_bought = 0
        self._paid_until: list[int] = []
        self._replicas = 0
        self._paid_for_all_until: float = 0

    def second(self, at: int, replicas: int) -> None:
        self.replica_s += replicas
        if replicas != self._replicas or at >= self._paid_for_all_until:
            self._buy(at, replicas)

    def _buy(self, at: int, replicas: int) -> None:
        for slot in range(replicas):
            if slot == len(self._paid_until):
                self._paid_until.append(at)
            if self._paid_until[slot] <= at:
                self.hours_bought += 1
                self._paid_until[slot] = at + HOUR_S
        self._replicas = replicas
        self._paid_for_all_until = min(self._paid_until[:replicas], default=float("inf"))


class Windows:
    """What `demand.History` would say at any second, found without going through all of it: the autoscaler looks at
    one second of many containers, a replay at a week of one."""

    def __init__(self, recorded: Recorded) -> None:
        self._begins_at = recorded.begins_at
        self._levels = recorded.levels
        self._sums = [0.0, *accumulate(recorded.levels)]

    def samples(self, policy: Policy, second: int, silent_gateways: tuple[str, ...]) -> Samples:
        end = second + 1 - self._begins_at
        delay_s = max(policy.scale_down_delay_s, 1)
        since = second + 1 - delay_s
        if delay_s > SECONDS_KEPT:
            since += -since % STEP_S  # of so long a time only whole steps are kept
        begin = max(since - self._begins_at, 0)
        delay_mean = (self._sums[end] - self._sums[begin]) / delay_s
        return Samples(self._levels[max(end - HISTORY_S, 0) : end], delay_mean, silent_gateways)


class Forecasts:
    """As `forecasts.Forecasts` has them: learnt from the minutes before each six hours, and from nothing later."""

    def __init__(self, minutes: Demand | None, policy: Policy, startup_s: float | None) -> None:
        self._minutes, self._startup_s = minutes, startup_s
        self._target = policy.target_concurrency
        self._period: int | None = None
        self._seen: tuple[int, int] | None = None
        self._outlook: Outlook | None = None
        self.pattern: Pattern | None = None

    def outlook(self, second: int) -> Outlook | None:
        if self._minutes is None or self._startup_s is None:
            return None
        if second // LEARN_EVERY_S != self._period:
            self._period = second // LEARN_EVERY_S
            before = self._minutes.before(self._period * LEARN_EVERY_S // MINUTE_S)
            self.pattern, self._seen = learn(before, self._startup_s, self._target), None
        if self.pattern is None:
            return None
        now = second // MINUTE_S
        seen = now, int(second + self._startup_s - EARLY_S) // MINUTE_S
        if seen != self._seen:  # or it would be the same again
            recent = [self._minutes.at(minute) for minute in range(now - RECENT, now)]
            self._seen, self._outlook = seen, look_ahead(self.pattern, recent, second, self._startup_s)
        return self._outlook


def replay(
    policy: Policy, recorded: Recorded, state: State, startup_s: float | None, since: int, until: int
) -> Replayed:
    """From `since` to `until`, both included; `state` is the one that the first decision finds."""
    windows, bill = Windows(recorded), Bill()
    forecasts = Forecasts(recorded.minutes, policy, startup_s)
    ready, coming = state.replicas, deque[int]()
    over_target_s, changes = 0, list[Change]()
    for second in range(since, until + 1):
        level = recorded.levels[second - recorded.begins_at]
        while coming and coming[0] <= second:
            coming.popleft()
            ready += 1
        over_target_s += level > ready * policy.target_concurrency
        bill.second(second, state.replicas)
        if second % TICK_S:
            continue
        fleet = Fleet(ready, len(coming), startup_s=startup_s)
        samples = _samples(windows, policy, recorded, second)
        decision = decide(policy, samples, fleet, state, second, forecasts.outlook(second))
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
        until - since + 1,
        bill.replica_s,
        bill.hours_bought,
        over_target_s,
        len(changes),
        tuple(changes),
        forecasts.pattern.kind if forecasts.pattern is not None else None,
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


def _samples(windows: Windows, policy: Policy, recorded: Recorded, second: int) -> Samples:
    if all(gateway.is_silent_at(second) for gateway in recorded.gateways):
        return Samples((), 0.0)
    return windows.samples(policy, second, silent_at(second, recorded.gateways))
