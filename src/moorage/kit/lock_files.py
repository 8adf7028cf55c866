"""Files that say, by a lock of the kernel, who is at work. Nobody else may open one: whoever may read a file may lock it, and other users of
this machine would keep a service from starting."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO


@contextmanager
def open_lock_file(path: Path) -> Iterator[IO[str]]:
    """With what was written there, and not locked yet."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "r+") as file:
        with suppress(PermissionError):
            # One of an earlier version was open to others. On a volume that is shared it may be somebody else's.
            os.fchmod(descriptor, 0o600)
        yield file
