"""What was done beside what another policy would have done. Pure, and minutes of work for a week: it runs in a process
of its own (`kit.jobs`), so all that it needs is in the question."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from moorage.autoscaling.decide import Policy, State
from moorage.autoscaling.demand import GatewayTime, level_at
from moorage.autoscaling.pattern import Demand
from moorage.autoscaling.replay import Recorded, Replayed, as_it_was, replay

MOST_CHANGES_SHOWN = 500


@dataclass(frozen=True)
class Stretch:
    """Demand that was kept as a mean."""

    since: int
    until: int
    """Exclusive."""
    level: float


@dataclass(frozen=True)
class Question:
    policy: Policy
    current: Policy
    since: int
    until: int
    begins_at: int
    """Before `since`: the windows reach back."""
    stretches: tuple[Stretch, ...]
    seconds_from: int
    """From here on there are samples of single seconds."""
    in_flight: Mapping[tuple[str, int], int]
    """By gateway and second."""
    gateways: tuple[GatewayTime, ...]
    state: State
    """At `since`."""
    made: tuple[tuple[int, int], ...]
    """The decisions since: the second, and the number of replicas."""
    startup_s: float | None
    minutes: Demand | None = None
    """The history that a forecast rests on; None: a replay without one."""


@dataclass(frozen=True)
class Comparison:
    as_it_was: Replayed
    replayed: Replayed
    """With the first of its changes."""


def compare(question: Question) -> Comparison:
    recorded = _recorded(question)
    since, until = question.since, question.until
    replayed = replay(question.policy, recorded, question.state, question.startup_s, since, until)
    return Comparison(
        as_it_was(question.current, recorded, question.state.replicas, question.made, since, until),
        replace(replayed, changes=replayed.changes[:MOST_CHANGES_SHOWN]),
    )


def _recorded(question: Question) -> Recorded:
    begins_at = question.begins_at
    levels = [0.0] * (question.until - begins_at + 1)
    for stretch in question.stretches:
        first, last = stretch.since - begins_at, stretch.until - begins_at
        levels[first:last] = [stretch.level] * (last - first)
    for second in range(question.seconds_from, question.until + 1):
        levels[second - begins_at] = level_at(second, question.gateways, question.in_flight)
    return Recorded(begins_at, levels, question.gateways, question.minutes)
