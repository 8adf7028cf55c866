"""Notices when an event loop's own thread computes for long at a stretch: meanwhile nobody else is served.

A thread of its own sends the loop a word every few milliseconds; when the loop takes it, it says how much processor
time its thread has used. That a machine is busy with something else is no stall: only the thread's own time counts.
"""

import asyncio
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

import structlog

from moorage.kit.clock import processor_time_of_thread_s, processor_time_s

log = structlog.get_logger()

STALL_S = 0.05
_EVERY_S = 0.02
_GIVE_UP_S = 5.0


@dataclass(frozen=True)
class Stalls:
    """Since the last time that they were taken."""

    count: int = 0
    longest_s: float = 0.0
    where: str = ""
    """Of the longest: our code that ran, if the watchdog got to see it."""


class StallWatchdog:
    """Of the loop that runs in the thread where it is made."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread_id = threading.get_ident()
        self._answered = threading.Event()
        self._ended = threading.Event()
        self._used_at_answer_s = processor_time_s()
        self._used_at_question_s = self._used_at_answer_s
        self._seen = ""
        self._stalls = Stalls()

    @contextmanager
    def watching(self) -> Iterator[None]:
        thread = threading.Thread(target=self._watch, name="stall-watchdog", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            self._answered.set()
            thread.join(_GIVE_UP_S)

    def take(self) -> Stalls:
        """To be called on the loop."""
        taken, self._stalls = self._stalls, Stalls()
        return taken

    def _watch(self) -> None:
        while not self._ended.wait(_EVERY_S):
            self._answered.clear()
            self._seen = ""
            self._used_at_question_s = processor_time_of_thread_s(self._thread_id)
            try:
                self._loop.call_soon_threadsafe(self._answer)
            except RuntimeError:  # the loop is closed
                return
            while not self._answered.wait(_EVERY_S):
                used_s = processor_time_of_thread_s(self._thread_id) - self._used_at_question_s
                if not self._seen and used_s > STALL_S - _EVERY_S:
                    self._seen = _place(sys._current_frames().get(self._thread_id))

    def _answer(self) -> None:
        used_s = processor_time_s()
        since_question_s, since_answer_s = used_s - self._used_at_question_s, used_s - self._used_at_answer_s
        self._used_at_answer_s = used_s
        # A stall may have begun before the question was put, but not much: so long one has to last after it.
        if since_answer_s >= STALL_S and since_question_s >= STALL_S - _EVERY_S:
            self._note(since_answer_s)
        self._answered.set()

    def _note(self, lasted_s: float) -> None:
        before = self._stalls
        is_longest = lasted_s > before.longest_s
        self._stalls = Stalls(
            before.count + 1,
            max(lasted_s, before.longest_s),
            self._seen if is_longest else before.where,
        )
        log.warning("loop_stalled", processor_time_ms=round(lasted_s * 1000), where=self._seen)


def _place(frame: FrameType | None) -> str:
    """The innermost of our own code, or of whatever ran."""
    place = ""
    while frame is not None:
        _, found, path = frame.f_code.co_filename.rpartition("/moorage/")
        name = f"{path}:{frame.f_lineno}" if found else f"{frame.f_code.co_name}:{frame.f_lineno}"
        if found:
            return name
        place = place or name
        frame = frame.f_back
    return place
