"""Ports for the servers of tests.

They lie below the ephemeral range, where any client's connection may sit on a port the moment after it was found
free, and below the range that replicas get (21000 and up). Each is handed out once per machine until the range
is used up, so tests that run side by side never pick the same one.
"""

import fcntl
import os
import socket
import tempfile
from pathlib import Path

_FIRST, _LAST = 10_000, 19_999
_REFUSED_BY_BROWSERS = (10_080,)
"""Of what lies in the range: they open no page there, whoever serves it."""
_COUNTER = Path(tempfile.gettempdir()) / f"moorage-test-ports-{os.getuid()}"


def free_port() -> int:
    with open(_COUNTER, "a+") as counter:
        fcntl.flock(counter, fcntl.LOCK_EX)
        counter.seek(0)
        last = int(counter.read() or _LAST)
        for step in range(1, _LAST - _FIRST + 2):
            port = _FIRST + (last - _FIRST + step) % (_LAST - _FIRST + 1)
            if port not in _REFUSED_BY_BROWSERS and _is_free(port):
                counter.truncate(0)
                counter.write(str(port))
                return port
    raise RuntimeError(f"no port from {_FIRST} to {_LAST} is free")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As servers bind: what an earlier connection left in TIME_WAIT is no obstacle.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", port))
        except OSError:
            return False
        return True
