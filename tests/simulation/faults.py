"""What goes wrong, and how often: rates are drawn per seed, so that some days are calm and some are not."""

import random
from collections.abc import Callable
from dataclasses import dataclass

from tests.simulation.loop import Process
from tests.simulation.story import Story


@dataclass(frozen=True)
class Rates:
    """Of each call, unless it says otherwise."""

    engine_fails: float
    """Before anything happened."""
    engine_reply_lost: float
    """After it happened."""
    engine_slow: float
    engine_stale: float
    """An answer from a moment ago."""
    crash_at_engine: float
    """The process dies before or after the call."""
    database_lost: float
    """The connection breaks before a statement."""
    database_reply_lost: float
    """After it: of a COMMIT nobody knows."""
    database_slow: float
    crash_at_commit: float
    notification_lost: float
    engine_words_lost: float
    """Of each word of the engine: the stream of them breaks instead."""
    provider_fails: float
    """The payment provider, before anything happened."""
    provider_reply_lost: float
    provider_slow: float
    provider_stale: float
    crash_at_provider: float
    receiver_fails: float
    """A mail server or webhook that cannot be reached."""
    receiver_refuses: float
    receiver_reply_lost: float
    receiver_slow: float
    crash_at_receiver: float

    @property
    def mail_refused(self) -> float:
        """There are few mails in a day: at the rate of webhooks, hardly any run would see one refused."""
        return min(10 * self.receiver_refuses, 0.75)


CALM = Rates(*(0.0,) * 21)


def draw_rates(chance: random.Random) -> Rates:
    """A third of the days is calm; on the others each fault has a rate of its own, often none."""
    if chance.random() < 0.33:
        return CALM

    def rate(most: float) -> float:
        return 0.0 if chance.random() < 0.5 else most * chance.random() ** 2

    return Rates(
        engine_fails=rate(0.15),
        engine_reply_lost=rate(0.15),
        engine_slow=rate(0.1),
        engine_stale=rate(0.1),
        crash_at_engine=rate(0.05),
        database_lost=rate(0.01),
        database_reply_lost=rate(0.01),
        database_slow=rate(0.01),
        crash_at_commit=rate(0.02),
        notification_lost=rate(0.3),
        engine_words_lost=rate(0.4),
        provider_fails=rate(0.3),
        provider_reply_lost=rate(0.3),
        provider_slow=rate(0.3),
        provider_stale=rate(0.3),
        crash_at_provider=rate(0.2),
        receiver_fails=rate(0.3),
        receiver_refuses=rate(0.3),
        receiver_reply_lost=rate(0.3),
        receiver_slow=rate(0.1),
        crash_at_receiver=rate(0.2),
    )


@dataclass
class Faults:
    chance: random.Random
    story: Story
    rates: Rates = CALM
    postgres_away: bool = False
    crash: Callable[[Process], None] = lambda process: None
    """Ends a process before anything else of it gets a turn."""

    stop: Callable[[Process], None] = lambda process: None
    """As by SIGSTOP, for longer than a lease."""
    stops_after: tuple[str, int] | None = None
    """The process that is to be stopped, and after how many of its commits."""

    slow_starts: int = 0
    """So many of the next starts take long."""

    crashes_left: int = 5
    others_left: int = 60
    """Of one seed. A day on which everything fails all the time shows little: nothing gets far enough to go wrong."""

    def happens(self, rate: float) -> bool:
        if rate <= 0 or self.others_left <= 0 or self.chance.random() >= rate:
            return False
        self.others_left -= 1
        return True

    def dies(self, rate: float) -> bool:
        if rate <= 0 or self.crashes_left <= 0 or self.chance.random() >= rate:
            return False
        self.crashes_left -= 1
        return True

    # Of the connections to Postgres.

    def before(self, process: Process | None, sql: str) -> tuple[float, bool]:
        delay_s = self._delay_s()
        if process is None:
            return 0.0, False
        if self.happens(self.rates.database_slow):
            self.story.count("statement slow")
            delay_s += self.chance.uniform(0.5, 20.0)
        if self.happens(self.rates.database_lost):
            self.story.count("statement lost")
            self.story.tell(process.name, f"loses its connection before: {sql[:60]!r}")
            return delay_s, True
        return delay_s, False

    def after(self, process: Process | None, sql: str) -> tuple[float, bool]:
        if process is None:
            return 0.0, False
        commit = sql.startswith("COMMIT")
        if sql == "NOTIFY":
            lost = self.happens(self.rates.notification_lost)
            if lost:
                self.story.count("notification lost")
            return (self._delay_s(), lost)
        if commit and self.dies(self.rates.crash_at_commit):
            self.story.count("crash after commit")
            self.story.tell(process.name, "dies after a COMMIT")
            self.crash(process)
        if commit:
            self._perhaps_stop(process)
        if self.happens(self.rates.database_reply_lost):
            self.story.count("commit in doubt" if commit else "answer lost")
            self.story.tell(process.name, f"loses its connection after: {sql[:60]!r}")
            return self._delay_s(), True
        return self._delay_s(), False

    def _perhaps_stop(self, process: Process) -> None:
        if self.stops_after is None or self.stops_after[0] != process.name:
            return
        commits = self.stops_after[1] - 1
        self.stops_after = (process.name, commits) if commits else None
        if not commits:
            self.stop(process)

    def refuses(self) -> bool:
        return self.postgres_away

    def _delay_s(self) -> float:
        return self.chance.choice((0.0002, 0.0005, 0.001, 0.003))
