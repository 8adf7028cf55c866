"""A bound on work that is no bound on time."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

MOST_LINES = 200_000
"""Of Python: some tens of milliseconds."""


class TooMuchWorkError(Exception):
    pass


@contextmanager
def little_work(most_lines: int = MOST_LINES) -> Iterator[None]:
    """Lines are counted, not seconds: a machine that is busy with something else changes nothing."""
    lines = 0

    def step(frame: FrameType, event: str, argument: object) -> Callable[..., Any]:
        nonlocal lines
        lines += 1
        if lines > most_lines:
            raise TooMuchWorkError(f"more than {most_lines} lines, in {frame.f_code.co_qualname}")
        return step

    before = sys.gettrace()
    sys.settrace(step)
    try:
        yield
    finally:
        sys.settrace(before)
