"""A test that measures has the machine to itself: nothing else of the suite runs beside one that is marked `quiet`.

Every test holds the room together with others; a quiet one holds it alone. Whoever comes passes the door first, and a
quiet test keeps the door while it waits for the room, so the others let it in after the tests that they are at.
"""

import fcntl
import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

_FOLDER = pytest.StashKey[str]()


@pytest.hookimpl(wrapper=True, tryfirst=True)  # Outermost: waiting counts for no timeout of a test.
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    given: dict[str, str] | None = getattr(item.config, "workerinput", None)
    if given is None:  # One process runs all tests, one after the other.
        return (yield)
    folder = Path(given["quiet_folder"])
    alone = item.get_closest_marker("quiet") is not None
    with open(folder / "door", "a") as door, open(folder / "room", "a") as room:
        fcntl.flock(door, fcntl.LOCK_EX)
        fcntl.flock(room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(door, fcntl.LOCK_UN)
        return (yield)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tells each process that runs tests where door and room are."""
    stash = node.config.stash
    if _FOLDER not in stash:
        stash[_FOLDER] = tempfile.mkdtemp(prefix="moorage-test-quiet-")
    node.workerinput["quiet_folder"] = stash[_FOLDER]


def pytest_unconfigure(config: pytest.Config) -> None:
    if _FOLDER in config.stash:
        shutil.rmtree(config.stash[_FOLDER])
