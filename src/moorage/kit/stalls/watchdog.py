"""Notices when an event loop's own thread computes for long at a stretch: meanwhile nobody else is served.

A thread of its own sends the loop a word every few milliseconds; when the loop takes it, it says how much processor
time its thread has used. That a machine is busy with something else is no stall: only the thread's own time counts. Nor is
a crowd one, of which each takes little: while it waits for the answer the watchdog looks which call of the loop's is at
work, and adds up what the same one uses.
"""

import asyncio
import itertools
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

import structlog

from moorage.kit.clock import processor_time_of_thread_s, processor_time_s

log = structlog.get_logger()

STALL_S = 0.05
_EVERY_S = 0.02
_LOOK_EVERY_S = 0.01
_GIVE_UP_S = 5.0
_FILES_OF_LOOPS = ("asyncio/runners.py", "asyncio/base_events.py", "asyncio/events.py", "uvloop/__init__.py")


@dataclass(frozen=True)
class _Look:
    used_s: float
    call: FrameType | None
    """What the loop called, that has not returned."""


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
        self._used_at_beat_s = self._used_at_answer_s
        self._longest_turn_s = 0.0
        self._beats: asyncio.TimerHandle | None = None
        self._looks: list[_Look] = []
        self._seen = ""
        self._stalls = Stalls()

    @contextmanager
    def watching(self) -> Iterator[None]:
        thread = threading.Thread(target=self._watch, name="stall-watchdog", daemon=True)
        thread.start()
        self._beat()
        try:
            yield
        finally:
            if self._beats is not None:
                self._beats.cancel()
            self._ended.set()
            self._answered.set()
            thread.join(_GIVE_UP_S)

    def take(self) -> Stalls:
        """To be called on the loop."""
        taken, self._stalls = self._stalls, Stalls()
        return taken

    def _beat(self) -> None:
        """On the loop, whether or not the machine lets the watchdog's thread run: between two beats is one turn at most,
        and little else."""
        used_s = processor_time_s()
        self._longest_turn_s = max(self._longest_turn_s, used_s - self._used_at_beat_s)
        self._used_at_beat_s = used_s
        self._beats = self._loop.call_later(_EVERY_S, self._beat)

    def _watch(self) -> None:
        while not self._ended.wait(_EVERY_S):
            self._answered.clear()
            self._looks, self._seen = [], ""
            self._used_at_question_s = processor_time_of_thread_s(self._thread_id)
            try:
                self._loop.call_soon_threadsafe(self._answer)
            except RuntimeError:  # the loop is closed
                return
            while not self._answered.wait(_LOOK_EVERY_S):
                used_s = processor_time_of_thread_s(self._thread_id)
                frame = sys._current_frames().get(self._thread_id)
                self._looks.append(_Look(used_s, _call(frame)))
                if not self._seen and used_s - self._used_at_question_s > STALL_S - _EVERY_S:
                    self._seen = _place(frame)

    def _answer(self) -> None:
        used_s = processor_time_s()
        since_answer_s = used_s - self._used_at_answer_s
        longest_turn_s = max(self._longest_turn_s, used_s - self._used_at_beat_s)
        self._longest_turn_s = 0.0
        if longest_turn_s >= STALL_S:
            moments_s = (self._used_at_answer_s, self._used_at_question_s)
            looks = [*(_Look(moment_s, None) for moment_s in moments_s), *self._looks, _Look(used_s, None)]
            by_one_s = _longest_of_one_call(looks)
            # It began up to one question before the first look, and ended up to one look after the last.
            if by_one_s >= STALL_S - _EVERY_S - _LOOK_EVERY_S:
                self._note(min(longest_turn_s, since_answer_s))
        self._used_at_answer_s = used_s
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


def _longest_of_one_call(looks: Sequence[_Look]) -> float:
    """Between two looks that saw the same call it was at work all the time. So it was where nobody could look for as
    long as a stall: it let no other thread run."""
    longest_s = begun_s = 0.0
    for before, after in itertools.pairwise(looks):
        same = before.call is not None and before.call is after.call
        begun_s = begun_s + after.used_s - before.used_s if same else 0.0
        gap_s = after.used_s - before.used_s
        longest_s = max(longest_s, begun_s, gap_s if gap_s >= STALL_S else 0.0)
    return longest_s


def _call(frame: FrameType | None) -> FrameType | None:
    """The outermost frame inside of the loop's own."""
    inner: FrameType | None = None
    while frame is not None and not frame.f_code.co_filename.endswith(_FILES_OF_LOOPS):
        inner, frame = frame, frame.f_back
    return inner


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
