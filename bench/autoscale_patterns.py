"""Demand with a week behind it: what repeats by the clock, and what does not.

A week of history as the service keeps it, a mean for each minute, and then the time that is measured, second by second, made
as in `autoscale_traces`. Nothing repeats exactly: days differ in height, mornings begin some minutes early or late,
jobs some seconds, and demand wanders as crowds do.
"""

import math
import random
from collections.abc import Callable
from dataclasses import replace

from autoscale_traces import SERVICE_S, Trace, trace_of

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86_400
WEEK_S = 7 * DAY_S
MONDAY = 4 * DAY_S
"""The first one after the epoch."""

TUNING_SEEDS = (1, 2)
"""Those that the rule was tuned on; looked at as often as one likes."""
VERDICT_SEEDS = (101, 102)
"""Those that the printed verdict comes from; nothing was chosen by them."""

Level = Callable[[int], float]
"""Demand at a second since the epoch."""


def patterns(seed: int) -> list[Trace]:
    return [lived(name, seed, DAY_S) for name in PATTERNS]


def no_patterns(seed: int) -> list[Trace]:
    return [lived(name, seed, DAY_S // 2) for name in NO_PATTERNS]


def lived(name: str, seed: int, lasts_s: int) -> Trace:
    make, chance = (PATTERNS | NO_PATTERNS)[name], random.Random(f"{name} {seed}")
    begins_at = MONDAY + 10 * WEEK_S + chance.randrange(7) * DAY_S
    level = make(chance)
    history = tuple(
        _minute(chance, level(second + MINUTE_S // 2))
        for second in range(begins_at - WEEK_S, begins_at, MINUTE_S)
    )
    profile = [level(second) for second in range(begins_at, begins_at + lasts_s)]
    return replace(trace_of(name, profile, chance), history=history, begins_at=begins_at)


def _minute(chance: random.Random, level: float) -> float:
    """The mean of a minute: requests that last `SERVICE_S` make it swing by this much."""
    return max(chance.gauss(level, math.sqrt(level * 2 * SERVICE_S / MINUTE_S)), 0.0)


def _day(chance: random.Random) -> Level:
    height, wander = _by_day(chance, 0.1), _wander(chance, 0.05)
    return lambda at: (22 - 18 * math.cos(_turn(at - 4 * HOUR_S))) * height(at) * wander(at)


def _week(chance: random.Random) -> Level:
    """The same with weekends that are a third of it."""
    day = _day(chance)
    return lambda at: day(at) * (1.0 if _is_workday(at) else 0.3)


def _office(chance: random.Random) -> Level:
    """From nine to half past five with a lunch break; people come within ten minutes."""
    height, wander, late_s = _by_day(chance, 0.1), _wander(chance, 0.05), _by_day_s(chance, 180)

    def level(at: int) -> float:
        if not _is_workday(at):
            return 3.0
        second = at % DAY_S - late_s(at)
        there = min(max((second - 8.9 * HOUR_S) / 600, 0), 1) * min(
            max((17.5 * HOUR_S - second) / 1800, 0), 1
        )
        lunch = 0.6 if 12.0 * HOUR_S <= second < 12.75 * HOUR_S else 1.0
        return 3 + 37 * there * lunch * height(at) * wander(at)

    return level


def _cron(chance: random.Random) -> Level:
    """A job on the hour, six minutes or so, and a long one each night."""
    lasts_s = {hour: chance.randint(300, 480) for hour in range(24)}
    height, late_s = _by_day(chance, 0.1), _by_day_s(chance, 15)

    def level(at: int) -> float:
        second = at % DAY_S - abs(late_s(at))
        if 2.5 * HOUR_S <= second < 2.5 * HOUR_S + 1500:
            return 50.0 * height(at)
        return 36.0 * height(at) if second % HOUR_S < lasts_s[int(second // HOUR_S) % 24] else 3.0

    return level


def _steady(_: random.Random) -> Level:
    return lambda at: 20.0


def _walk(chance: random.Random) -> Level:
    """It drifts for hours and comes back to nothing in particular."""
    drift = _wander(chance, 0.9, 4 * HOUR_S)
    return lambda at: 15.0 * drift(at)


def _chance_bursts(chance: random.Random) -> Level:
    begun: dict[int, tuple[int, int, float]] = {}

    def level(at: int) -> float:
        slot = at // 1800
        if slot not in begun:
            own = random.Random(f"{seed} {slot}")
            begun[slot] = own.randrange(1200), own.randint(60, 600), own.uniform(10, 50)
        begins, lasts, height = begun[slot]
        return 3.0 + (height if begins <= at % 1800 < begins + lasts else 0.0)

    seed = chance.random()
    return level


def _chance_steps(chance: random.Random) -> Level:
    seed = chance.random()

    def level(at: int) -> float:
        # Steps of three to five hours, which no clock knows.
        return random.Random(f"{seed} {int((at + 1800 * math.sin(at / 50_000)) // 13_577)}").uniform(3, 60)

    return _kept(level)


PATTERNS: dict[str, Callable[[random.Random], Level]] = {
    "days": _day,
    "weeks": _week,
    "office": _office,
    "cron": _cron,
}
NO_PATTERNS: dict[str, Callable[[random.Random], Level]] = {
    "steady": _steady,
    "walk": _walk,
    "chance bursts": _chance_bursts,
    "chance steps": _chance_steps,
}


def _turn(second: int) -> float:
    return 2 * math.pi * (second % DAY_S) / DAY_S


def _is_workday(at: int) -> bool:
    return (at - MONDAY) // DAY_S % 7 < 5


def _by_day(chance: random.Random, spread: float) -> Callable[[int], float]:
    seed = chance.random()
    heights: dict[int, float] = {}

    def height(at: int) -> float:
        day = at // DAY_S
        if day not in heights:
            heights[day] = math.exp(random.Random(f"{seed} {day}").gauss(0, spread))
        return heights[day]

    return height


def _by_day_s(chance: random.Random, spread_s: float) -> Callable[[int], float]:
    height = _by_day(chance, 1.0)
    return lambda at: spread_s * math.log(height(at))


def _wander(chance: random.Random, spread: float, over_s: int = 600) -> Callable[[int], float]:
    """A factor that wanders around one, straight from minute to minute."""
    own, stays = random.Random(chance.random()), math.exp(-MINUTE_S / over_s)
    values: list[float] = [own.gauss(0, spread)]
    first: list[int] = []

    def factor(at: int) -> float:
        if not first:
            first.append(at)
        place, rest = divmod(max(at - first[0], 0), MINUTE_S)
        while len(values) < place + 2:
            values.append(stays * values[-1] + math.sqrt(1 - stays * stays) * own.gauss(0, spread))
        return math.exp(values[place] + (values[place + 1] - values[place]) * rest / MINUTE_S)

    return factor


def _kept(level: Level) -> Level:
    """Seconds of a minute are the same: so it is worked out once for each."""
    known: dict[int, float] = {}

    def found(at: int) -> float:
        minute = at // MINUTE_S
        if minute not in known:
            known[minute] = level(minute * MINUTE_S)
        return known[minute]

    return found
