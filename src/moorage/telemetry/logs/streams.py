"""Who a stored line is from: one of the replica's streams, or Moorage itself. Pure.

What Moorage has to say about a log, such as that lines are missing, is told from what a container printed by this and
never by its text, which a container can print too.
"""

from enum import StrEnum

from moorage.engines.base import LogStream


class LineStream(StrEnum):
    STDOUT = "stdout"
    STDERR = "stderr"
    MOORAGE = "moorage"
    """Not printed by the replica: a word of Moorage's about its log."""


_NUMBERS = {LineStream.STDOUT: 1, LineStream.STDERR: 2, LineStream.MOORAGE: 3}
NUMBER_OF: dict[LogStream | None, int] = {
    LogStream.STDOUT: _NUMBERS[LineStream.STDOUT],
    LogStream.STDERR: _NUMBERS[LineStream.STDERR],
    None: _NUMBERS[LineStream.MOORAGE],
}
"""By the engine's stream; None is Moorage."""
STREAM_OF = {number: stream for stream, number in _NUMBERS.items()}


def number_of(stream: LineStream) -> int:
    return _NUMBERS[stream]
