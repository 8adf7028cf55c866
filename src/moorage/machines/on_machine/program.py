"""Moorage itself on this machine, as the join script laid it down."""

import shutil
import sys
from pathlib import Path

_COMMAND = Path("/usr/local/bin/moor-node")


def remove_program(environment: Path | None = None, command: Path = _COMMAND) -> None:
    """Only what the join script made: a folder of versions, with a link to the current one and a mark in each that is complete.
    A checkout that somebody works in has neither, and stays. Safe to repeat.

    The program that does this runs from there: nothing may be imported after it.
    """
    version = (environment or Path(sys.prefix)).parent
    versions = version.parent
    if not ((version / ".complete").exists() and (versions / "current").is_symlink()):
        return
    if command.is_symlink() and command.readlink().is_relative_to(versions):
        command.unlink()
    shutil.rmtree(versions)
