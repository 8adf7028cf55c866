"""The one thread that talks to NVML.

A GPU that hangs makes NVML hang, and nobody can interrupt it. So the thread is a daemon: a process that wants to end does not
wait for the driver, as it would for a thread of `ThreadPoolExecutor`.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any, ParamSpec, TypeVar

Answer = TypeVar("Answer")
Arguments = ParamSpec("Arguments")


class NvmlThread(Executor):
    """One question at a time, in the order in which they were asked. Those that nobody waits for any more are dropped."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._questions: list[tuple[Future[Any], Callable[[], Any]]] = []
        self._thread: threading.Thread | None = None

    def submit(
        self,
        question: Callable[Arguments, Answer],
        /,
        *arguments: Arguments.args,
        **named: Arguments.kwargs,
    ) -> Future[Answer]:
        future: Future[Answer] = Future()
        with self._changed:
            # While the driver hangs somebody asks every second: only those that still wait are kept.
            self._questions = [one for one in self._questions if not one[0].cancelled()]
            self._questions.append((future, partial(question, *arguments, **named)))
            if self._thread is None:
                self._thread = threading.Thread(target=self._answer, name="nvml", daemon=True)
                self._thread.start()
            self._changed.notify()
        return future

    def _answer(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._questions)
                future, question = self._questions.pop(0)
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(question())
            except BaseException as exc:  # noqa: BLE001 - whoever asked gets it
                future.set_exception(exc)


nvml_thread = NvmlThread()
