"""Files that are there whole or not at all, whenever the process or the machine ends, and never readable by more than may."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def write_whole(path: Path, text: str, mode: int) -> None:
    """In place of what was there."""
    with _unfinished(path, text, mode) as unfinished:
        unfinished.replace(path)


def create_whole(path: Path, text: str, mode: int) -> None:
    """Raises `FileExistsError` where something is there already: of several that create it at once, one does."""
    with _unfinished(path, text, mode) as unfinished:
        path.hardlink_to(unfinished)


@contextmanager
def _unfinished(path: Path, text: str, mode: int) -> Iterator[Path]:
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "w") as file:
            os.fchmod(descriptor, mode)  # The process's umask has no say in it.
            file.write(text)
            file.flush()
            os.fsync(descriptor)
        yield unfinished
    finally:
        unfinished.unlink(missing_ok=True)
