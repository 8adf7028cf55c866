"""Where the data of a test's own Postgres lies."""

import shutil
import tempfile
from pathlib import Path

_MEMORY = Path("/dev/shm")
_ROOM_BYTES = 2 * 2**30


def folder_for_a_database() -> Path:
    """In memory where there is room: a database is hundreds of files, and to make and drop one takes 30 ms there and
    300 on a disk. Its path is short enough for a Unix socket."""
    roomy = _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _ROOM_BYTES
    folder = Path(tempfile.mkdtemp(prefix="moor-", dir=_MEMORY if roomy else "/tmp"))
    folder.chmod(0o755)
    return folder
