"""Whoever leads writes under its lease, checked in every transaction that a test's own process runs.

A former leader that goes on writing is what leases are there to prevent, and one transaction that does not begin with
`lease.guard` is enough. Statements are read as they go to Postgres. One that writes, in a transaction that took no lock on
its lease's row, is asked who sent it: if a function of ours on the way there has a lease in hand, it fails the test.
"""

import re
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from types import FrameType
from typing import Any
from weakref import WeakSet

import pytest
from greenlet import getcurrent
from sqlalchemy import event
from sqlalchemy.engine import Connection, Engine

import moorage
from moorage.reconcile.lease import Lease

_WRITES = re.compile(r"\b(?:INSERT INTO|DELETE FROM|UPDATE)\s+(?!leases\b)\w+(?!\s*(?:OF|SKIP|$))")
_GUARD = re.compile(r"\bFROM leases\b.*\bFOR KEY SHARE\b", re.DOTALL)
_LOCKING = re.compile(r"\bFOR (?:NO KEY )?UPDATE\b(?: OF \w+)?(?: SKIP LOCKED| NOWAIT)?")
_PRODUCT = Path(moorage.__file__).parent
_TESTS = Path(__file__).parent


@lru_cache(maxsize=4096)
def writes(statement: str) -> bool:
    """Whether it changes rows; those of `leases` are what the leases themselves are made of."""
    return _WRITES.search(_LOCKING.sub("", statement)) is not None


@lru_cache(maxsize=4096)
def guards(statement: str) -> bool:
    return _GUARD.search(statement) is not None


class Recorder:
    """Listens to all engines of the process."""

    def __init__(self) -> None:
        self.unguarded: list[str] = []
        self._guarded: WeakSet[Connection] = WeakSet()

    def before_statement(self, connection: Connection, _cursor: Any, statement: str, *_: Any) -> None:
        if guards(statement):
            self._guarded.add(connection)
        elif writes(statement) and connection not in self._guarded and (leader := _leader()) is not None:
            self.unguarded.append(f"{leader}, in: {' '.join(statement.split())[:200]}")

    def end(self, connection: Connection) -> None:
        self._guarded.discard(connection)


def _leader() -> str | None:
    """The function of ours that has a lease in hand. SQLAlchemy runs its statements in a greenlet; who asked for one
    stands in the frames of the greenlet's parent. What a test does while a leader waits for it is the test's own."""
    parent = getcurrent().parent
    frame: FrameType | None = sys._getframe() if parent is None else parent.gr_frame
    while frame is not None:
        if _is_product(frame.f_code.co_filename):
            values = frame.f_locals
            in_hand = (values.get("lease"), getattr(values.get("self"), "lease", None))
            if any(isinstance(one, Lease) for one in in_hand):
                return frame.f_code.co_qualname
        elif _is_test(frame.f_code.co_filename):
            return None
        frame = frame.f_back
    return None


@lru_cache(maxsize=4096)
def _is_product(path: str) -> bool:
    return Path(path).is_relative_to(_PRODUCT)


@lru_cache(maxsize=4096)
def _is_test(path: str) -> bool:
    return Path(path).is_relative_to(_TESTS)


recorder = Recorder()
event.listen(Engine, "before_cursor_execute", recorder.before_statement)
for moment in ("begin", "commit", "rollback"):
    event.listen(Engine, moment, recorder.end)


@pytest.fixture(autouse=True)
def leaders_write_under_their_lease() -> Iterator[None]:
    recorder.unguarded.clear()
    yield
    found, recorder.unguarded = recorder.unguarded, []
    assert found == [], "written without the lease (docs/reconcilers.md): " + "; ".join(dict.fromkeys(found))
