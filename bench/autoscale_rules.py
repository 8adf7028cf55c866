"""The rules that are compared: `decide()`, and its peers' as their documentation states them, at their defaults.

Each is given the same trace, looks only backwards, and answers how many replicas there should be. Peers that count
requests per second get the target that means the same concurrency (`target / service time`).

- Knative (KPA): every 2 s; mean over 60 s divided by 70 % of the target; a panic window of 6 s takes over, and nothing
  is removed, while it asks for 200 % of the ready replicas or more and until 60 s after; at most halved at once.
- dstack: requests per second over 60 s divided by the target; up at most every 5 minutes, down at most every 10.
- SkyServe: requests per second over 60 s divided by the target, looked at every 20 s; up when that asked for more for
  300 s in a row, down when for less for 1,200 s.
- Hugging Face: every minute one replica more where the mean utilisation of the last minute is 80 % or more; down every
  2 minutes, to the most that was needed in the last 300 s.
"""

import math
from collections import deque
from dataclasses import dataclass, field
from typing import Protocol

from autoscale_traces import SERVICE_S, Trace

from moorage.autoscaling.decide import HISTORY_S, TICK_S, Fleet, Policy, Samples, State, decide
from moorage.autoscaling.outlook import Outlook, look_ahead
from moorage.autoscaling.pattern import LEARN_EVERY_S, LEARN_FROM, MINUTE_S, RECENT, Demand, Pattern, learn

TARGET = 4
MAX_REPLICAS = 30


class Rule(Protocol):
    def replicas(self, trace: Trace, t: int, ready: int, present: int, startup_s: int) -> int:
        """`present` counts those that are still starting, too."""
        ...


@dataclass
class Moorage:
    policy: Policy = field(default_factory=lambda: Policy(1, MAX_REPLICAS, TARGET))
    state: State = field(default_factory=lambda: State(1))

    def replicas(self, trace: Trace, t: int, ready: int, present: int, startup_s: int) -> int:
        samples = Samples(
            trace.in_flight[max(t + 1 - HISTORY_S, 0) : t + 1],
            _mean(trace, t, max(self.policy.scale_down_delay_s, 1)),
        )
        fleet = Fleet(ready, present - ready, startup_s=startup_s)
        outlook = self._outlook(trace, samples, t, startup_s)
        decision = decide(self.policy, samples, fleet, self.state, t, outlook)
        self.state = decision.state
        return decision.replicas

    def _outlook(self, trace: Trace, samples: Samples, t: int, startup_s: int) -> Outlook | None:
        return None


@dataclass
class Forecasting(Moorage):
    """The same with the container's history at hand."""

    pattern: Pattern | None = None
    learnt: int | None = None
    foresaw: bool = False
    looked: tuple[int, Outlook | None] = (-1, None)

    def _outlook(self, trace: Trace, samples: Samples, t: int, startup_s: int) -> Outlook | None:
        second = trace.begins_at + t
        if second // LEARN_EVERY_S != self.learnt:
            self.learnt = second // LEARN_EVERY_S
            lived = [_mean(trace, end - 1, MINUTE_S) for end in range(MINUTE_S, t + 1, MINUTE_S)]
            levels = [*trace.history, *lived][-LEARN_FROM:]
            first = second // MINUTE_S - len(levels)
            self.pattern = learn(Demand(first, levels), startup_s, self.policy.target_concurrency)
        if self.pattern is None:
            return None
        self.foresaw = True
        half_minute = second // (MINUTE_S // 2)
        if self.looked[0] != half_minute:
            # Start-up times here are whole half minutes: within one the same is seen.
            self.looked = half_minute, self._ahead(self.pattern, trace, t, startup_s)
        return self.looked[1]

    def _ahead(self, pattern: Pattern, trace: Trace, t: int, startup_s: int) -> Outlook | None:
        begun = t - t % MINUTE_S
        lived = [
            _mean(trace, end - 1, MINUTE_S)
            for end in range(max(begun - RECENT * MINUTE_S, 0) + MINUTE_S, begun + 1, MINUTE_S)
        ]
        minutes = [*trace.history[len(lived) - RECENT :], *lived][-RECENT:]
        return look_ahead(pattern, minutes, trace.begins_at + t, startup_s)


@dataclass
class Knative:
    utilisation: float = 0.7
    panics_since: int | None = None
    most: int = 0

    def replicas(self, trace: Trace, t: int, ready: int, present: int, startup_s: int) -> int:
        ready = max(ready, 1)
        at_least = ready // 2
        stable = max(math.ceil(_mean(trace, t, 60) / (TARGET * self.utilisation)), at_least)
        panic = max(math.ceil(_mean(trace, t, 6) / (TARGET * self.utilisation)), at_least)
        if panic / ready >= 2:
            self.most = max(self.most, present) if self.panics_since is None else self.most
            self.panics_since = t
        elif self.panics_since is not None and t - self.panics_since > 60:
            self.panics_since, self.most = None, 0
        if self.panics_since is None:
            return stable
        self.most = max(self.most, panic)
        return self.most


@dataclass
class Dstack:
    scaled_at: int | None = None

    def replicas(self, trace: Trace, t: int, ready: int, present: int, startup_s: int) -> int:
        wanted = _by_rate(trace, t)
        pause_s = 300 if wanted > present else 600
        if wanted == present or (self.scaled_at is not None and t - self.scaled_at <= pause_s):
            return present
        self.scaled_at = t
        return wanted


@dataclass
class SkyServe:
    target: int = 1
    over: int = 0
    under: int = 0

    def replicas(self, trace: Trace, t: int, ready: int, present: int, startup_s: int) -> int:
        if t % 20:
            return self.target
        wanted = _by_rate(trace, t)
        self.over = self.over + 1 if wanted > self.target else 0
        self.under = self.under + 1 if wanted < self.target else 0
        if self.over >= 300 // 20 or self.under >= 1200 // 20:
            self.target, self.over, self.under = wanted, 0, 0
        return self.target


@dataclass
class HuggingFace:
    needed: deque[tuple[int, int]] = field(default_factory=deque)

    def replicas(self, trace: Trace, t: int, ready: int, present: int, startup_s: int) -> int:
        if t % 60 or t == 0:
            return present
        level = _mean(trace, t, 60)
        self.needed.append((t, math.ceil(level / (TARGET * 0.8))))
        while self.needed[0][0] <= t - 300:
            self.needed.popleft()
        if level / (TARGET * max(ready, 1)) >= 0.8:
            return present + 1
        return min(present, max(need for _, need in self.needed)) if t % 120 == 0 else present


@dataclass(frozen=True)
class Outcome:
    requests: int
    over_target: int
    replica_s: int
    changes: int

    def __add__(self, other: "Outcome") -> "Outcome":
        return Outcome(
            self.requests + other.requests,
            self.over_target + other.over_target,
            self.replica_s + other.replica_s,
            self.changes + other.changes,
        )

    @property
    def share_over_target(self) -> float:
        return self.over_target / self.requests

    @property
    def replica_hours(self) -> float:
        return self.replica_s / 3600

    @property
    def replica_s_per_good_request(self) -> float:
        """Both together: what a request within the target cost."""
        return self.replica_s / max(self.requests - self.over_target, 1)


def outcome(rule: Rule, trace: Trace, startup_s: int) -> Outcome:
    """A request is over target when it arrives while the ready replicas have more than the target each. A replica is
    counted from the moment it is asked for; of those that go, the ones that have not started yet go first."""
    ready, coming = 1, deque[int]()
    over_target = replica_s = changes = 0
    for t, in_flight in enumerate(trace.in_flight):
        while coming and coming[0] <= t:
            coming.popleft()
            ready += 1
        present = ready + len(coming)
        if t >= trace.counted_from:
            replica_s += present
            if in_flight > TARGET * ready:
                over_target += trace.arrivals[t]
        if t % TICK_S:
            continue
        wanted = min(max(rule.replicas(trace, t, ready, present, startup_s), 1), MAX_REPLICAS)
        changes += wanted != present
        coming.extend([t + 1 + startup_s] * (wanted - present))
        for _ in range(present - wanted):
            if coming:
                coming.pop()
            else:
                ready -= 1
    return Outcome(sum(trace.arrivals[trace.counted_from :]), over_target, replica_s, changes)


def _by_rate(trace: Trace, t: int) -> int:
    window = trace.arrivals[max(t - 59, 0) : t + 1]
    wanted = math.ceil(sum(window) / len(window) / (TARGET / SERVICE_S))
    return min(max(wanted, 1), MAX_REPLICAS)


def _mean(trace: Trace, t: int, window_s: int) -> float:
    first = max(t + 1 - window_s, 0)
    return (trace.running_total[t + 1] - trace.running_total[first]) / (t + 1 - first)
