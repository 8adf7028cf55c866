"""How many replicas a container should have, from what it was asked to do. Pure.

Demand is concurrency: requests in flight or queued, a total for each second over all gateways. A replica is meant to
have `target_concurrency` of them, so a level of demand *needs* `level / target` replicas, and some headroom because
demand is never quite level: a share of it, and its square root (a mean of n independent requests swings by √n), more of
that where demand is seen to swing more.

Up: at once, by the mean of the stable window (60 s); when a panic window (6 s) or two seconds in a row are beyond what
there is, by those; and by where a lasting trend leads within the time that this container's replicas take to start.
Down: by the mean over `scale_down_delay_s`, so a load that ended is given back evenly and the last of it when the
delay is over; not within half a minute of going up, not while a gateway is silent, and not for a fraction of a replica.
By its history: where that shows a pattern (`pattern`), what is expected before a replica asked for now has started counts as
if it was there already (`outlook`), and a load that was foreseen to end is given back when the panic window and not the delay
says that it did.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from operator import mul, sub

from moorage.autoscaling.outlook import Outlook

TICK_S = 2
STABLE_WINDOW_S = 60
PANIC_WINDOW_S = 6
JUMP_WINDOW_S = 2
JUMP_FACTOR = 1.5
"""Two seconds in a row so far beyond what there is are no chance; one second more would be lost for nothing."""
HEADROOM_SHARE = 0.2
HEADROOM_DEVIATIONS = 0.75
SWING_S, SWING_STRIDE = 10, 5
"""How demand swings is taken from moments so far apart, from each fifth second."""
SWINGS_SEEN_FOR_S = 300
MOST_SWINGS = 3.0
"""Beyond that, headroom costs more than bursts do."""
PANIC_DEVIATIONS = 2.0
"""A panic sees a level that is still rising, and in a window that still holds the calm before it."""
RISING = 1.25
"""A panic window above the stable one by this is a rise, and no more of the same."""
SURPLUS_REPLICAS = 0.2
"""How much of a replica must be unneeded besides a whole one before one goes: without it, noise around a whole number
would make replicas come and go."""
REST_AFTER_UP_S = 30
ENDED = 0.7
"""Demand that fell so far, as it was foreseen, does not come back."""
TREND_FROM_STARTUP_S = 30
"""Replicas that start faster need no forecast."""
TREND_WINDOW_S = (120, 600)
TREND_CAP = 0.3
"""A forecast adds at most this share to what is asked for now."""
_NOISE = 1e-9
"""Of a replica: what sums of floats are off by must not ask for one more."""
HISTORY_S = TREND_WINDOW_S[1]
"""How many seconds `decide` looks at one by one."""


class Limit(StrEnum):
    """What kept the number from being what demand needs."""

    MAX = "max_replicas"
    MIN = "min_replicas"
    DELAY = "scale_down_delay"
    SILENT_GATEWAY = "silent_gateway"
    NO_SAMPLES = "no_samples"
    CREDIT = "credit"
    CAPACITY = "capacity"
    HEALTH = "health_check"


@dataclass(frozen=True)
class Policy:
    min_replicas: int
    max_replicas: int
    target_concurrency: int = 4
    scale_down_delay_s: int = 300

    @property
    def stable_window_s(self) -> int:
        """Whoever wants to scale down faster than the stable window gets a shorter one."""
        return min(STABLE_WINDOW_S, max(self.scale_down_delay_s, PANIC_WINDOW_S))


@dataclass(frozen=True)
class Samples:
    """Demand as all gateways together report it."""

    per_second: Sequence[float]
    """The newest last, at most `HISTORY_S`; empty when no gateway reports."""
    delay_mean: float
    """Over the last `scale_down_delay_s`."""
    silent_gateways: tuple[str, ...] = ()
    """They count with the last value they gave."""


@dataclass(frozen=True)
class Fleet:
    """The replicas there are."""

    ready: int
    coming: int = 0
    """Asked for and not ready yet."""
    failing: int = 0
    """Ready once, and their health check fails now."""
    waits_for: Limit | None = None
    """Why some that were asked for could not even be begun: `CREDIT` or `CAPACITY`."""
    startup_s: float | None = None
    """What this container's replicas took to become ready; None before the first did."""


@dataclass(frozen=True)
class State:
    """What a decision leaves for the next one."""

    replicas: int
    """Asked for now."""
    went_up_at_s: float | None = None


@dataclass(frozen=True)
class Evidence:
    """The figures that a decision rests on; None where there were no samples."""

    in_flight: float | None = None
    """In the last second."""
    panic_mean: float | None = None
    stable_mean: float | None = None
    """Over the policy's stable window, newer seconds counting more."""
    expected: float | None = None
    """Where a trend leads within the time that a replica takes to start; None where nothing rises."""
    foreseen: float | None = None
    """What the container's history leads to within that time; None where it shows no pattern."""
    pattern: str | None = None
    """By what it repeats: `hour`, `day`, `workday` or `week`."""


@dataclass(frozen=True)
class Decision:
    replicas: int
    state: State
    wanted: int
    """What demand needs, whatever the limits."""
    limit: Limit | None
    reason: str
    evidence: Evidence = Evidence()


@dataclass(frozen=True)
class _Need:
    level: float
    """Demand with its headroom."""
    demand: float
    """Without it, as `because` says."""
    because: str


def decide(
    policy: Policy, samples: Samples, fleet: Fleet, state: State, now_s: float, outlook: Outlook | None = None
) -> Decision:
    """`now_s` counts seconds from any fixed moment; it is only compared with what `state` carries. `outlook` is what
    the container's own history leads to, None where it shows no pattern."""
    if not samples.per_second:
        replicas = _clamped(state.replicas, policy)
        message = f"No gateway reports, so demand is unknown; stays at {replicas}."
        return Decision(replicas, State(replicas, state.went_up_at_s), replicas, Limit.NO_SAMPLES, message)
    seen = _evidence(policy, samples, fleet)
    need = _need_now(policy, samples, fleet, state, seen, outlook)
    wanted = _replicas(need.level, policy)
    if wanted > state.replicas:
        decision = _up(policy, state, fleet, need, wanted, now_s)
    else:
        decision = _down(policy, samples, fleet, state, need, wanted, now_s, outlook)
    if outlook is not None:
        seen = replace(seen, foreseen=outlook.level, pattern=outlook.kind)
    return replace(decision, evidence=seen)


def _evidence(policy: Policy, samples: Samples, fleet: Fleet) -> Evidence:
    seconds = samples.per_second
    stable = _weighted_mean(seconds, policy.stable_window_s)
    expected = None
    if fleet.startup_s is not None and fleet.startup_s >= TREND_FROM_STARTUP_S:
        trend = _expected(seconds, fleet.startup_s)
        expected = trend if trend > stable else None
    return Evidence(seconds[-1], _mean(seconds, PANIC_WINDOW_S), stable, expected)


def _need_now(
    policy: Policy, samples: Samples, fleet: Fleet, state: State, seen: Evidence, outlook: Outlook | None
) -> _Need:
    """The largest of what the windows, the trend and the history say."""
    seconds = samples.per_second
    assert seen.stable_mean is not None, "there are samples"
    assert seen.panic_mean is not None, "there are samples"
    stable, panic = seen.stable_mean, seen.panic_mean
    usual = HEADROOM_DEVIATIONS * _swings(seconds)
    demand, because = stable, f"{stable:.1f} in flight over {policy.stable_window_s} s"
    if outlook is not None and max(panic * RISING, outlook.level) < stable:
        # It was foreseen to end: that it does is believed sooner.
        stable = max(panic * RISING, outlook.level)
        demand, because = panic, f"{panic:.1f} in flight over the last {PANIC_WINDOW_S} s"
    needs = [_Need(_with_headroom(stable, usual), demand, because)]
    capacity = state.replicas * policy.target_concurrency
    if panic > capacity:
        deviations = PANIC_DEVIATIONS if panic > stable * RISING else usual
        level = _with_headroom(panic, deviations)
        needs.append(_Need(level, panic, f"{panic:.1f} in flight over the last {PANIC_WINDOW_S} s"))
    jump = min(seconds[-JUMP_WINDOW_S:]) if len(seconds) >= JUMP_WINDOW_S else 0.0
    if jump > max(capacity * JUMP_FACTOR, stable * RISING):
        needs.append(_Need(_with_headroom(jump, PANIC_DEVIATIONS), jump, f"a jump to {jump:.1f} in flight"))
    if seen.expected is not None:
        startup = f"when a replica asked for now has started ({fleet.startup_s:.0f} s)"
        because = f"{seen.expected:.1f} in flight expected {startup}"
        needs.append(_Need(_with_headroom(seen.expected, usual), seen.expected, because))
    if outlook is not None:
        needs.append(_Need(_with_headroom(outlook.level, usual), outlook.level, outlook.because))
    return max(needs, key=lambda need: need.level)


def _expected(seconds: Sequence[float], startup_s: float) -> float:
    """Where a lasting, significant rise leads within the start-up time; 0 when there is none.

    The window is cut into four: a step or a burst does not rise through all of them, a trend does. From the rise
    between the halves two standard errors are taken off, so that noise forecasts nothing.
    """
    window_s = int(min(max(2 * startup_s, TREND_WINDOW_S[0]), TREND_WINDOW_S[1]))
    if len(seconds) < window_s:
        return 0.0
    quarter_s = window_s // 4
    first, second, third, fourth = (
        _mean(seconds[len(seconds) - quarter_s * (left + 1) : len(seconds) - quarter_s * left], quarter_s)
        for left in (3, 2, 1, 0)
    )
    if not first < second < third < fourth:
        return 0.0
    half_s = 2 * quarter_s
    before, after = (first + second) / 2, (third + fourth) / 2
    # Requests last longer than the second between two samples: neighbours say the same, four of them about one thing.
    error = 2 * math.sqrt((before + after) * 4 / half_s)
    growth_per_s = (after - before - error) / half_s
    if growth_per_s <= 0:
        return 0.0
    return min(after + growth_per_s * (half_s / 2 + startup_s), fourth * (1 + TREND_CAP))


def _up(policy: Policy, state: State, fleet: Fleet, need: _Need, wanted: int, now_s: float) -> Decision:
    replicas = _clamped(wanted, policy)
    went_up_at_s = now_s if replicas > state.replicas else state.went_up_at_s
    reason = _sum(need, wanted, policy)
    limit, bound = _bound(policy, fleet, wanted, replicas)
    return Decision(replicas, State(replicas, went_up_at_s), wanted, limit, _joined(reason, bound))


def _down(
    policy: Policy,
    samples: Samples,
    fleet: Fleet,
    state: State,
    need: _Need,
    wanted: int,
    now_s: float,
    outlook: Outlook | None,
) -> Decision:
    delay_level, ended = _with_headroom(samples.delay_mean), ""
    if outlook is not None and need.level < delay_level * ENDED:
        # The delay is for a load that may come back; that this one does not is known.
        delay_level, ended = need.level, outlook.no_more
    kept = max(_replicas(max(need.level, delay_level), policy, SURPLUS_REPLICAS), wanted)
    # Which replicas go is decided by slot, not by health: as many more stay as might turn out to be useless.
    floor = _clamped(min(kept + fleet.failing, state.replicas), policy)
    resting = state.went_up_at_s is not None and now_s - state.went_up_at_s < REST_AFTER_UP_S
    replicas = _clamped(state.replicas, policy) if samples.silent_gateways or resting else floor
    replicas = min(replicas, max(state.replicas, policy.min_replicas))
    after = State(replicas, state.went_up_at_s)
    reason = _sum(need, wanted, policy)
    if ended and replicas < state.replicas:
        reason = f"{reason} {ended}."
    limit: Limit | None
    if wanted < replicas and replicas > policy.min_replicas:
        limit, bound = _why_not_fewer(policy, samples, fleet, wanted, kept, replicas, resting=resting)
    else:
        limit, bound = _bound(policy, fleet, wanted, replicas)
    return Decision(replicas, after, wanted, limit, _joined(reason, bound))


def _why_not_fewer(
    policy: Policy, samples: Samples, fleet: Fleet, wanted: int, kept: int, replicas: int, *, resting: bool
) -> tuple[Limit, str]:
    if samples.silent_gateways:
        names = ", ".join(samples.silent_gateways)
        return (
            Limit.SILENT_GATEWAY,
            f"Keeps {replicas}, because gateway {names} is silent and may still serve",
        )
    if resting:
        return Limit.DELAY, f"Wants {wanted}, keeps {replicas} for {REST_AFTER_UP_S} s after going up"
    if fleet.failing and kept < replicas:
        return Limit.HEALTH, _failing(fleet)
    if _replicas(_with_headroom(samples.delay_mean), policy) < replicas:
        return Limit.DELAY, f"Wants {wanted}, keeps {replicas}: not yet sure that one can go"
    message = f"Wants {wanted}, keeps {replicas} until the mean over {policy.scale_down_delay_s} s falls"
    return Limit.DELAY, message


def _bound(policy: Policy, fleet: Fleet, wanted: int, replicas: int) -> tuple[Limit | None, str]:
    if wanted > replicas:
        return Limit.MAX, f"Wants {wanted}, capped by max {policy.max_replicas}"
    if fleet.waits_for is Limit.CREDIT:
        return Limit.CREDIT, f"Wants {wanted}, capped by credit: {fleet.ready + fleet.coming} are paid for"
    if fleet.waits_for is Limit.CAPACITY:
        missing = max(replicas - fleet.ready - fleet.coming, 1)
        return Limit.CAPACITY, f"Waits for capacity for {missing} of {replicas}"
    if fleet.failing:
        return Limit.HEALTH, _failing(fleet)
    if wanted < replicas:
        return Limit.MIN, f"Stays at min {policy.min_replicas}"
    return None, ""


def _failing(fleet: Fleet) -> str:
    if fleet.failing == 1:
        return "1 replica fails its health check"
    return f"{fleet.failing} replicas fail their health check"


def _with_headroom(level: float, deviations: float = HEADROOM_DEVIATIONS) -> float:
    return level * (1 + HEADROOM_SHARE) + deviations * math.sqrt(level)


def _swings(seconds: Sequence[float]) -> float:
    """How much more demand swings than independent requests would: 1 for those, more for such as come in bursts.

    From how far apart moments are that lie ten seconds apart, which a trend hardly moves and a step only once.
    """
    if len(seconds) < SWINGS_SEEN_FOR_S:
        return 1.0
    later = seconds[SWING_S::SWING_STRIDE]
    apart: float = sum(map(abs, map(sub, later, seconds[::SWING_STRIDE]))) / len(later)
    mean = sum(later) / len(later)
    if mean < 1:
        return 1.0
    return min(max(apart / (2 * math.sqrt(mean / math.pi)), 1.0), MOST_SWINGS)


def _replicas(level: float, policy: Policy, surplus: float = 0.0) -> int:
    return max(math.ceil(level / policy.target_concurrency + surplus - _NOISE), 0)


def _clamped(replicas: int, policy: Policy) -> int:
    return min(max(replicas, policy.min_replicas), policy.max_replicas)


def _mean(seconds: Sequence[float], window_s: int) -> float:
    window = seconds[-window_s:]
    return sum(window) / len(window)


def _weighted_mean(seconds: Sequence[float], window_s: int) -> float:
    """Newer seconds count more, the oldest next to nothing: half the delay of a plain mean, and as calm."""
    window = seconds[-window_s:]
    weights = range(1, len(window) + 1)
    total: float = sum(map(mul, window, weights))
    return total / sum(weights)


def _sum(need: _Need, wanted: int, policy: Policy) -> str:
    """How the number follows: "12.0 in flight over 60 s + headroom 10.0 = 22.0, ÷ 2 → 11 replicas." """
    # Of what is shown, so that whoever adds it up comes to the same; a little beyond a whole replica is seen to be beyond.
    demand = round(need.demand, 1)
    level = max(math.ceil(10 * (need.level - _NOISE * policy.target_concurrency)), 0) / 10
    headroom = f"+ headroom {level - demand:.1f} = {level:.1f}, ÷ {policy.target_concurrency}"
    replicas = "1 replica" if wanted == 1 else f"{wanted} replicas"
    return f"{need.because[0].upper()}{need.because[1:]} {headroom} → {replicas}."


def _joined(reason: str, bound: str) -> str:
    return f"{reason} {bound}." if bound else reason
