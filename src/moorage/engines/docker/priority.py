"""A dockerd of ours gives way to what it carries.

Whatever a container prints, dockerd copies, line for line and outside the container's own limits. On a busy machine that
work must come after the gateway's and the replicas', so dockerd runs at a lower priority. Not so containerd and its
shims, which look into no line and must see at once when a container ends, and why; nor dockerd's proxies, each of which
carries the requests of one replica: they go into sessions of their own.

Beside a flood of log lines a neighbour's p99 was 19 ms at best with a niceness of 0, 5 ms with 5 and 4 ms with 10; alone it
is 3 ms.
"""

import shlex
import shutil
from pathlib import Path

from moorage.kit.priority import BEHIND, set_priority


def lower(pid: int) -> None:
    """After it has started containerd, which would inherit it."""
    set_priority(pid, BEHIND)


def write_proxy(path: Path, search_path: str) -> bool:
    """A `docker-proxy` of ordinary priority, in front of the engine's own. False where a part of it is missing."""
    programs = [shutil.which(name, path=search_path) for name in ("renice", "setsid", "docker-proxy")]
    if None in programs:
        return False
    renice, setsid, proxy = (shlex.quote(str(program)) for program in programs)
    path.write_text(f'#!/bin/sh\n{renice} 0 -p $$ >/dev/null\nexec {setsid} {proxy} "$@"\n')
    path.chmod(0o755)
    return True
