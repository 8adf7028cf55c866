import asyncio

import pytest

from moorage.kit.clock import VirtualClock
from moorage.telemetry.logs.pace import BEHIND_S, DROPPED_AT_ONCE, DROPPED_PER_S, FellBehindError, Pace


def time_ns(clock: VirtualClock, seconds_ago: float = 0.0) -> int:
    return int((clock.now().timestamp() - seconds_ago) * 10**9)


async def held_s(clock: VirtualClock, pace: Pace, dropped: int, seconds_ago: float = 0.0) -> float:
    began_s = clock.monotonic()
    keeping = asyncio.create_task(pace.keep(dropped, time_ns(clock, seconds_ago)))
    await asyncio.sleep(0)
    while not keeping.done():
        await clock.advance(0.01)
    keeping.result()
    return clock.monotonic() - began_s


async def test_what_is_kept_is_never_held_up() -> None:
    clock = VirtualClock()
    pace = Pace(clock)
    assert await held_s(clock, pace, 0) == 0
    assert await held_s(clock, pace, 0, seconds_ago=3600) == 0


async def test_what_is_dropped_is_read_at_its_pace() -> None:
    clock = VirtualClock()
    pace = Pace(clock)
    at_once = [await held_s(clock, pace, DROPPED_AT_ONCE // 10) for _ in range(10)]
    assert sum(at_once) == 0
    seconds = [await held_s(clock, pace, DROPPED_PER_S // 10) for _ in range(20)]
    assert sum(seconds) == pytest.approx(2.0, abs=0.3)


async def test_what_one_reader_used_up_the_next_one_does_not_have() -> None:
    clock = VirtualClock()
    pace = Pace(clock)
    await held_s(clock, pace, DROPPED_AT_ONCE)
    pace.begin()
    assert await held_s(clock, pace, DROPPED_PER_S) == pytest.approx(1.0, abs=0.1)


async def test_a_reader_that_fell_behind_a_flood_gives_up() -> None:
    clock = VirtualClock()
    pace = Pace(clock)
    await held_s(clock, pace, DROPPED_AT_ONCE)
    with pytest.raises(FellBehindError):
        await held_s(clock, pace, DROPPED_PER_S, seconds_ago=BEHIND_S + 1)


async def test_a_slow_reader_of_few_lines_does_not() -> None:
    clock = VirtualClock()
    pace = Pace(clock)
    await held_s(clock, pace, 1)
    assert await held_s(clock, pace, DROPPED_AT_ONCE // 2, seconds_ago=BEHIND_S + 1) == 0


async def test_what_nobody_had_read_is_read_to_its_end() -> None:
    clock = VirtualClock()
    pace = Pace(clock)
    for _ in range(5):
        await held_s(clock, pace, DROPPED_AT_ONCE, seconds_ago=3600)
