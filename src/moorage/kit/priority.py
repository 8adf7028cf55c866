"""Who comes first where several want the processor.

Two ways of saying the same, because a kernel with autogroups, which most have, weighs a session as a whole and heeds
niceness only within it; inside a control group, as under systemd, it is the other way round. So a process whose priority
counts is the first of a session of its own.
"""

import contextlib
import os
from pathlib import Path

FIRST = -5
"""Three times the weight of the rest: for what people wait for, the gateway, the API and the database. Beside an organization that stops
and starts ten containers without end, the p99 of others' pages was 2.2 to 3.7 times as long as in calm without it."""
BEHIND = 10
"""A tenth of the weight of the rest, and only while somebody else wants the processor."""


def set_priority(pid: int, niceness: int) -> None:
    """Of a process, with all its threads and with the session that it began. Only root may put one first: left alone else."""
    # There is no such file where there are no autogroups; a thread may be gone by the time it is its turn.
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text(str(niceness))
    with contextlib.suppress(FileNotFoundError, PermissionError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(ProcessLookupError):
                os.setpriority(os.PRIO_PROCESS, int(thread.name), niceness)
