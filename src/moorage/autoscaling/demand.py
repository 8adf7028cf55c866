"""From what gateways reported to what was asked of a container in each second. Pure.

A gateway says nothing about a container that does nothing, so a second without a sample is a second of zero while the
gateway reports. While it is silent its HAProxy goes on serving: it counts with what it had last.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from moorage.autoscaling.decide import HISTORY_S, Policy, Samples

SILENT_AFTER_S = 5
"""Until then a report is only late."""
SECONDS_KEPT = 900
STEP_S = 10
LONGEST_DELAY_S = 86_400


@dataclass(frozen=True)
class GatewayTime:
    """When a gateway reported: the first and last second of each stretch, oldest first."""

    gateway_id: str
    stretches: tuple[tuple[int, int], ...]

    def known_at(self, second: int) -> int | None:
        """The second that speaks for this one: itself, or the last before the gateway fell silent; None before its time."""
        known = None
        for since, until in self.stretches:
            if second < since:
                break
            known = min(second, until)
        return known

    def is_silent_at(self, second: int) -> bool:
        known = self.known_at(second)
        return known is not None and second - known > SILENT_AFTER_S


def level_at(second: int, gateways: Sequence[GatewayTime], in_flight: Mapping[tuple[str, int], int]) -> float:
    """All gateways together; `in_flight` by gateway and second."""
    known = ((gateway.gateway_id, gateway.known_at(second)) for gateway in gateways)
    return float(sum(in_flight.get((name, at), 0) for name, at in known if at is not None))


def silent_at(second: int, gateways: Iterable[GatewayTime]) -> tuple[str, ...]:
    return tuple(sorted(gateway.gateway_id for gateway in gateways if gateway.is_silent_at(second)))


class History:
    """Demand of one container up to now: seconds for a quarter of an hour, sums of 10 s for a day."""

    def __init__(self, begins_at: int) -> None:
        self.until = begins_at - 1
        """The last second it knows."""
        self._seconds: deque[float] = deque(maxlen=SECONDS_KEPT)
        self._steps: deque[tuple[int, float]] = deque()

    def add(self, level: float) -> None:
        self.until += 1
        self._seconds.append(level)
        start = self.until - self.until % STEP_S
        if self._steps and self._steps[-1][0] == start:
            self._steps[-1] = start, self._steps[-1][1] + level
        elif level:
            self._steps.append((start, level))
        while self._steps and self._steps[0][0] < self.until - LONGEST_DELAY_S:
            self._steps.popleft()

    def add_step(self, start: int, level: float) -> None:
        """Of a time before its seconds; in order."""
        self._steps.append((start, level * STEP_S))

    @property
    def is_empty(self) -> bool:
        """Nothing was asked of it for as long as anybody could want to know."""
        return not self._steps

    def mean_of(self, second: int, lasts_s: int) -> float | None:
        """From `second` on; None where not all of it is kept."""
        end = len(self._seconds) - (self.until + 1 - second - lasts_s)
        if end - lasts_s < 0 or end > len(self._seconds):
            return None
        return sum(islice(self._seconds, end - lasts_s, end)) / lasts_s

    def samples(self, policy: Policy, silent_gateways: tuple[str, ...]) -> Samples:
        seconds = list(self._seconds)
        delay_s = max(policy.scale_down_delay_s, 1)
        if delay_s <= SECONDS_KEPT:
            delay_mean = sum(seconds[-delay_s:]) / delay_s
        else:
            begin = self.until - delay_s
            delay_mean = sum(total for start, total in self._steps if start > begin) / delay_s
        return Samples(seconds[-HISTORY_S:], delay_mean, silent_gateways)


def idle_samples(silent_gateways: tuple[str, ...]) -> Samples:
    return Samples((0.0,), 0.0, silent_gateways)
