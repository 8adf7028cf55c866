"""Demand over time, second by second: how many requests are in flight and how many arrived.

A profile says how many requests should be in flight on average. Requests arrive by chance at the rate that makes it so
and each leaves by chance after `SERVICE_S` on average, which is what a server with free places shows. Seeded: the same
seed gives the same trace everywhere.
"""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

SERVICE_S = 2.0
TWO_HOURS_S = 7200
DAY_S = 4 * 3600
"""A day's rise and fall within four hours: harder to follow than a real one."""


@dataclass(frozen=True)
class Trace:
    name: str
    in_flight: list[int]
    arrivals: list[int]
    running_total: list[int]
    """Of `in_flight`, from before the first second on; a window's mean is a difference of two."""
    history: tuple[float, ...] = ()
    """Means of the minutes before it, as the service keeps them."""
    begins_at: int = 0
    """Seconds since the epoch."""
    counted_from: int = 0
    """Second of the trace; before that, rules have the time to bring up what demand needs at all."""


def traces(seed: int) -> list[Trace]:
    return [_trace(name, profile, seed) for name, profile in PROFILES.items()]


def _step(_: random.Random) -> list[float]:
    return [40.0 if 1800 <= t < 4500 else 6.0 for t in range(TWO_HOURS_S)]


def _ramp(_: random.Random) -> list[float]:
    return [4 + 56 * max(0.0, min((t - 600) / 2400, 1.0, (6600 - t) / 2400)) for t in range(TWO_HOURS_S)]


def _spike(_: random.Random) -> list[float]:
    level = [8.0] * TWO_HOURS_S
    for begins_at, lasts_s, height in ((1200, 60, 52), (3000, 20, 52), (5000, 120, 30)):
        for t in range(begins_at, begins_at + lasts_s):
            level[t] += height
    return level


def _day(chance: random.Random) -> list[float]:
    """Besides chance arrivals, demand wanders by a tenth or two, as crowds do."""
    level, wander = [], 0.0
    for t in range(DAY_S):
        wander = 0.99 * wander + chance.gauss(0, 0.02)
        level.append((30 - 26 * math.cos(2 * math.pi * t / DAY_S)) * math.exp(wander))
    return level


def _sawtooth(_: random.Random) -> list[float]:
    return [5 + 45 * (t % 900) / 900 for t in range(TWO_HOURS_S)]


def _bursts(chance: random.Random) -> list[float]:
    level, t = [0.2] * TWO_HOURS_S, 300
    while t < TWO_HOURS_S:
        lasts_s, height = chance.randint(20, 90), chance.randint(10, 40)
        for second in range(t, min(t + lasts_s, TWO_HOURS_S)):
            level[second] = float(height)
        t += lasts_s + 60 + int(chance.expovariate(1 / 400))
    return level


PROFILES: dict[str, Callable[[random.Random], list[float]]] = {
    "step": _step,
    "ramp": _ramp,
    "spike": _spike,
    "day": _day,
    "sawtooth": _sawtooth,
    "bursts": _bursts,
}


def _trace(name: str, profile: Callable[[random.Random], list[float]], seed: int) -> Trace:
    chance = random.Random(f"{name} {seed}")
    return trace_of(name, profile(chance), chance)


def trace_of(name: str, profile: list[float], chance: random.Random) -> Trace:
    stays = math.exp(-1 / SERVICE_S)
    in_flight, arrivals, running_total, present = [], [], [0], 0
    for level in profile:
        arrived = _poisson(chance, level / SERVICE_S)
        present = sum(1 for _ in range(present) if chance.random() < stays) + arrived
        in_flight.append(present)
        arrivals.append(arrived)
        running_total.append(running_total[-1] + present)
    return Trace(name, in_flight, arrivals, running_total)


def _poisson(chance: random.Random, mean: float) -> int:
    limit, product, count = math.exp(-mean), chance.random(), 0
    while product > limit:
        product *= chance.random()
        count += 1
    return count
