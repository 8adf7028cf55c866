"""Work that takes the processor for long, in processes of its own: the loop that serves everybody never waits for it.

A job is a function of a module and its arguments. Few run at once, one for each owner; the others wait in turn. Each has a
bound in time, processor time and memory, and gives way to everything else on the machine.
"""

import asyncio
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import structlog

from moorage.kit.errors import UnavailableError
from moorage.kit.fair_slots import FairSlots

log = structlog.get_logger()

P = ParamSpec("P")
ResultT = TypeVar("ResultT")

MOST_WAITING = 4
"""Jobs of one owner."""
WAIT_S = 30.0
BUDGET_S = 60
_MOST_ERROR_CHARACTERS = 2000
# No variable of ours: they hold secrets, and a job needs none.
_ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C.UTF-8"}


class JobTooLongError(UnavailableError):
    """It did not end within its budget: whoever asked can ask for less, or later, because a busy machine leaves little for jobs."""

    code = "job_too_long"


class Jobs:
    def __init__(self, at_once: int, budget_s: float = BUDGET_S, wait_s: float = WAIT_S) -> None:
        self._slots = FairSlots(at_once, 1, MOST_WAITING, wait_s)
        self._budget_s = budget_s

    async def run(
        self, owner: str, function: Callable[P, ResultT], *arguments: P.args, **named: P.kwargs
    ) -> ResultT:
        """No connection to the database may be held meanwhile."""
        question = await asyncio.to_thread(pickle.dumps, (self._budget_s, function, arguments, named))
        async with self._slots.taken(owner):
            # In a thread: to start a process from the loop means to copy the tables of all our memory there.
            answer = await asyncio.to_thread(self._answer_of, question)
        return cast(ResultT, await asyncio.to_thread(pickle.loads, answer))

    def _answer_of(self, question: bytes) -> bytes:
        command = [sys.executable, "-m", "moorage.kit.jobs.process"]
        try:
            ended = subprocess.run(
                command,
                input=question,
                capture_output=True,
                timeout=self._budget_s,
                env=_ENVIRONMENT,
                # Or it would have a share in the priority of whoever asks.
                start_new_session=True,
                check=False,
            )
        except subprocess.TimeoutExpired as exc:
            raise JobTooLongError("This took too long. Try again later.") from exc
        status, answer, said = ended.returncode, ended.stdout, ended.stderr
        if status == 0:
            return answer
        if status < 0:  # the kernel ended it, for the processor time or memory that it took
            raise JobTooLongError("This needs too much computing time or memory. Try again later.")
        log.error("job_failed", status=status, said=said.decode(errors="replace")[-_MOST_ERROR_CHARACTERS:])
        raise UnavailableError("This could not be computed. Try again later.")
