"""How much of the processor a process is given."""

import os
from pathlib import Path


def priority_of(pid: int) -> tuple[int, int]:
    """Among the threads of its session, and of its session among the others. Without autogroups, the same twice."""
    niceness = os.getpriority(os.PRIO_PROCESS, pid)
    autogroup = Path(f"/proc/{pid}/autogroup")
    return niceness, int(autogroup.read_text().split()[-1]) if autogroup.exists() else niceness
