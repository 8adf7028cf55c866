"""How much one replica may have stored. Pure: its only clock is the time of the lines themselves.

By the lines' own times, because what was printed slowly is not a flood however fast it is read, for example
after an hour in which nobody did; and because a line that is read again is judged as it was before.
"""

LINES_PER_S = 5000
BURST_LINES = 20_000
"""For long, and at once. A line of more than 1 KiB counts as several."""
_NANOSECONDS = 1_000_000_000


class Allowance:
    """A bucket that refills. Once it is empty nothing is taken from it for a second, so that a flood comes in pieces
    with one gap between two of them, and not as every other line."""

    def __init__(self, lines_per_s: int = LINES_PER_S, burst_lines: int = BURST_LINES) -> None:
        self._lines_per_s = lines_per_s
        self._burst_lines = float(burst_lines)
        self._left = float(burst_lines)
        self._time_ns = 0
        self._closed_until_ns = 0

    def take(self, time_ns: int, line_bytes: int) -> bool:
        """Whether a line of this time is still within it."""
        self._refill(time_ns)
        if time_ns < self._closed_until_ns:
            return False
        if self._left < 1:
            self._closed_until_ns = time_ns + _NANOSECONDS
            return False
        self._left -= 1 + line_bytes // 1024
        return True

    def take_all(self, first_ns: int, lines: int, total_bytes: int) -> bool:
        """The same for many lines at once, from a time on; takes nothing where it is not plain that all are within
        it."""
        self._refill(first_ns)
        cost = lines + total_bytes // 1024
        if first_ns < self._closed_until_ns or self._left < cost:
            return False
        self._left -= cost
        return True

    def _refill(self, time_ns: int) -> None:
        if time_ns > self._time_ns:
            refilled = (time_ns - self._time_ns) * self._lines_per_s / _NANOSECONDS
            self._left = min(self._left + refilled, self._burst_lines)
            self._time_ns = time_ns
