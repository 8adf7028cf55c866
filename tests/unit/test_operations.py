"""An engine call that fails is tried again after a pause, however often it failed before."""

from moorage.containers.reconciler.operations import LONGEST_PAUSE_S, Operations
from moorage.containers.reconciler.places import Kind, Ticket
from moorage.kit.clock import SystemClock
from moorage.kit.errors import EngineError


class Pauses(SystemClock):
    """Sleeps for no time at all, and notes for how long it was asked to."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


async def test_an_engine_that_fails_for_weeks_is_still_asked_at_the_longest_pause() -> None:
    clock, asked_again = Pauses(), []
    operations = Operations(clock, asked_again.append)

    async def fails() -> None:
        raise EngineError("The engine does not answer.")

    tries = 1_100  # 2.0 to that power is no number.
    for _ in range(tries):
        operations.begin(Ticket("replica", Kind.START, "organization", "engine"), "container", fails)
        await operations._running["replica"]
    assert clock.slept[:6] == [1, 2, 4, 8, 16, LONGEST_PAUSE_S]
    assert set(clock.slept[6:]) == {LONGEST_PAUSE_S}
    assert len(asked_again) == tries
