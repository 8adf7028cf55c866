"""The file that says that an upgrade is under way, and how far. It is there from before the first change until every role serves on one
version, so whoever finds it without its process knows that somebody has to go back.

There is no step of each kind in it: going back looks at what is, and may be repeated.
"""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from moorage.entrypoints.service.places import Installation
from moorage.kit.errors import SetupError
from moorage.kit.lock_files import open_lock_file
from moorage.kit.whole_files import write_whole


class Stage(StrEnum):
    PREPARING = "preparing"
    """Everything runs on the version before."""
    SWITCHING = "switching"
    """Any part may run on either."""


@dataclass(frozen=True)
class Entry:
    stage: Stage
    before: Path
    """The environment that ran."""
    after: Path
    made: bool
    """The folder `after` is the upgrade's own, and half of it nobody's use."""


@dataclass(frozen=True)
class Journal:
    installation: Installation

    def read(self) -> Entry | None:
        try:
            found = json.loads(self.installation.journal.read_text())
            return Entry(Stage(found["stage"]), Path(found["before"]), Path(found["after"]), found["made"])
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):
            # We leave no half of one. Whoever wrote this: it does not say where to go back to, and what runs goes on.
            return None

    def write(self, entry: Entry) -> None:
        told = {
            "stage": entry.stage,
            "before": str(entry.before),
            "after": str(entry.after),
            "made": entry.made,
        }
        write_whole(self.installation.journal, json.dumps(told) + "\n", 0o600)

    def remove(self) -> None:
        self.installation.journal.unlink(missing_ok=True)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """By one process at a time; free when it, and what it started, has ended."""
        with open_lock_file(self.installation.lock) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as exc:
                raise UnderWayError("Another `moor upgrade` is under way. Wait until it ends.") from exc
            # What it starts may outlive it: a migration, an installer. They hold it too.
            os.set_inheritable(lock.fileno(), True)
            yield


class UnderWayError(SetupError):
    """Somebody else sees to it."""
