"""The files to which the parts of Moorage write their own logs: closed to other users, and with an end.

Programs that outlive us (Postgres, HAProxy, dockerd) write to the file that they were started with and know of no other.
So a full file is not moved away: it is copied to `<name>.1` and emptied. All of them append, so they go on at its
beginning; a line that is written between the two steps is lost. Several processes may do this at once, one does it.
"""

import asyncio
import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import structlog

from moorage.kit.clock import Clock

log = structlog.get_logger()

MODE = 0o600
LOOK_EVERY_S = 5.0


@dataclass(frozen=True)
class LogFiles:
    """What there is of them."""

    files: int
    bytes: int
    largest_bytes: int


def open_log_file(path: Path) -> int:
    """A descriptor that appends; also a file from before that others could read is closed to them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, MODE)
    os.fchmod(descriptor, MODE)
    return descriptor


async def keep_log_files(log_dir: Path, max_bytes: int, clock: Clock) -> None:
    """For ever: none grows much beyond its limit."""
    while True:
        try:
            for path in await asyncio.to_thread(end_full_log_files, log_dir, max_bytes):
                log.info("log_file_ended", file=path.name)
        except OSError as exc:  # a full disk above all; the next round may find room
            log.warning("log_files_not_kept", error=repr(exc))
        await clock.sleep(LOOK_EVERY_S)


def end_full_log_files(log_dir: Path, max_bytes: int) -> list[Path]:
    """Keep what is too long once, and begin it anew. Returns which ones were."""
    return [path for path in sorted(log_dir.glob("*.log")) if _end_if_full(path, max_bytes)]


def measured(log_dir: Path) -> LogFiles:
    sizes = [path.stat().st_size for pattern in ("*.log", "*.log.1") for path in log_dir.glob(pattern)]
    return LogFiles(len(sizes), sum(sizes), max(sizes, default=0))


def _end_if_full(path: Path, max_bytes: int) -> bool:
    # One that was begun by an earlier version may be open to others.
    if path.stat().st_mode & 0o077:
        path.chmod(MODE)
    if path.stat().st_size <= max_bytes:
        return False
    with _locked(path) as full:
        size = os.fstat(full).st_size
        if size <= max_bytes:
            return False  # Another process was faster.
        kept = path.with_name(f"{path.name}.1")
        unfinished = path.with_name(f"{path.name}.1.new")
        try:
            with os.fdopen(os.dup(full), "rb") as source, open(_open_empty(unfinished), "wb") as target:
                # The newest part: a file that nobody looked after for long does not need as much room again.
                source.seek(max(0, size - max_bytes))
                shutil.copyfileobj(source, target)
            unfinished.replace(kept)
        except OSError:
            # Without room for what is kept, the rest must end all the same: that is what makes room.
            unfinished.unlink(missing_ok=True)
            os.ftruncate(full, 0)
            raise
        os.ftruncate(full, 0)
    return True


def _open_empty(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, MODE)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)
