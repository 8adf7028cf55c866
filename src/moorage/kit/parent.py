"""Ending with the process that started us."""

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """A role that `moor up` started must not outlive it: the next `moor up` starts its own. Linux only."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    if os.getppid() == 1:
        # It died before we asked.
        os.kill(os.getpid(), signal.SIGTERM)
