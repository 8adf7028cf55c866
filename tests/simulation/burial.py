"""What killed processes leave behind is kept until the seed is over, and then thrown away in silence.

A task that is collected before it has ended is closed: its `finally` blocks run, of a process that is long dead, on a loop
that is closed, and each complains in its own way. During the seed that must not happen at all; afterwards it means
nothing. Only then nobody listens: what asyncio or Python complain about during a seed is somebody's mistake.
"""

import contextlib
import gc
import logging
import sys
import warnings
from collections.abc import Iterator

from tests.simulation.loop import NumberedTask

_MOST_TIMES = 20


@contextlib.contextmanager
def buried_afterwards() -> Iterator[None]:
    gc.disable()
    gc.freeze()  # What is there already need not be looked at when the seed is over.
    try:
        yield
    finally:
        with _nobody_listens():
            _collect_all()
        gc.unfreeze()
        gc.enable()


def _collect_all() -> None:
    """Those `finally` blocks bring back to life what they touch: it goes the next time. A task that was killed in a statement
    waits in a greenlet, which the collector does not look into, and holds all of the seed: it is closed by hand."""
    for _ in range(_MOST_TIMES):
        _close_what_waits()
        if not gc.collect():
            return


def _close_what_waits() -> None:
    for task in [one for one in gc.get_objects() if isinstance(one, NumberedTask) and not one.done()]:
        task._log_destroy_pending = False
        with contextlib.suppress(BaseException):
            task.get_coro().close()


@contextlib.contextmanager
def _nobody_listens() -> Iterator[None]:
    hook, quiet_below = sys.unraisablehook, logging.root.manager.disable
    sys.unraisablehook = lambda _: None
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(quiet_below)
        sys.unraisablehook = hook
