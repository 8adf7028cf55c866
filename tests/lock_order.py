"""The order of locks, checked in every transaction that a test's own process runs.

`docs/locking.md` says what the order is and why. Statements are read as they go to Postgres: which tables they lock rows
of, and which advisory lock they take. One that locks something that comes before what its transaction holds already is
an inversion: two of those, the other way round, can wait for each other for ever. It fails the test that it happened in.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import pytest
from greenlet import getcurrent
from sqlalchemy import event
from sqlalchemy.engine import Connection, Engine

import moorage
from moorage.containers.capacity_repository import CAPACITY_LOCK

CAPACITY = "the capacity lock"
TURN = "a turn"
ORDER = (
    "leases",
    TURN,
    "gateways",
    "replica_routes",
    "organizations",
    "projects",
    "containers",
    CAPACITY,
    "credit_accounts",
)
TURNS = ("sign-in-origin", "sign-in-code")
"""Kinds of turns of which one transaction may take several, in this order. Of any other it takes one."""
PARTS_OF_A_CONTAINER = frozenset(
    {"replicas", "hours", "log_cursors", "container_caches", "container_versions", "container_sleeps"}
)
"""Under the lock of their container they may be locked at any time; without it, nothing of the order comes after them."""

_LOCKING = re.compile(
    r"(?<!FOR )(?<!KEY )(?<!DO )\bUPDATE\s+(?P<updated>\w+)\s+(?:AS\s+\w+\s+)?SET"
    r"|\bDELETE FROM\s+(?P<deleted>\w+)"
    r"|\bFOR (?:NO KEY )?UPDATE(?: OF (?P<of>\w+))?(?P<selected>)"
    r"|\bINSERT INTO\s+(?P<inserted>\w+)"
)


@lru_cache(maxsize=4096)
def locked_tables(statement: str) -> tuple[str, ...]:
    """In the order in which the statement names them. Key-share locks are left out: they wait for nothing here."""
    tables = []
    for found in _LOCKING.finditer(statement):
        if found["inserted"]:
            # A new row is nobody else's; one that is there already is locked.
            tables += [found["inserted"]] if "DO UPDATE" in statement else []
        elif found["selected"] is not None:
            source = re.search(r"\bFROM\s+(\w+)", statement)
            tables.append(found["of"] or (source[1] if source else ""))
        else:
            tables.append(found["updated"] or found["deleted"])
    return tuple(tables)


@lru_cache(maxsize=4096)
def inserted_tables(statement: str) -> tuple[str, ...]:
    return () if "DO UPDATE" in statement else tuple(re.findall(r"\bINSERT INTO\s+(\w+)", statement))


def turn_taken(statement: str, parameters: Sequence[Any]) -> str | None:
    """What the turn is about that the statement takes (`take_turn` in `kit/database.py`, or a document's number)."""
    if "pg_advisory_xact_lock(hashtext" not in statement or CAPACITY_LOCK in parameters:
        return None
    return next(str(one) for one in parameters if isinstance(one, str))


def turn_out_of_order(held: Sequence[str], wanted: str) -> str | None:
    """Which turn, of those that are held, keeps another from being taken."""
    if wanted in held:
        return None
    kinds = [_kind(one) for one in (*held, wanted)]
    in_order = all(kind in TURNS for kind in kinds) and kinds == sorted(set(kinds), key=TURNS.index)
    return None if not held or in_order else held[-1]


def _kind(turn: str) -> str:
    return turn.partition(":")[0]


def inversion(held: Sequence[str], wanted: str) -> str | None:
    """What is held that should have come after the one that is wanted."""
    if wanted in held or wanted not in ORDER:
        return None
    later = ORDER[ORDER.index(wanted) + 1 :]
    parts = PARTS_OF_A_CONTAINER if "containers" not in held else frozenset()
    part_is_late = ORDER.index(wanted) <= ORDER.index("containers")
    return next((one for one in held if one in later or (one in parts and part_is_late)), None)


class Recorder:
    """Listens to all engines of the process."""

    def __init__(self) -> None:
        self.inversions: list[str] = []
        self._locked: WeakKeyDictionary[Connection, list[str]] = WeakKeyDictionary()
        self._inserted: WeakKeyDictionary[Connection, set[str]] = WeakKeyDictionary()
        self._turns: WeakKeyDictionary[Connection, list[str]] = WeakKeyDictionary()

    def before_statement(
        self, connection: Connection, _cursor: Any, statement: str, parameters: Any, *_: Any
    ) -> None:
        held = self._locked.setdefault(connection, [])
        # A transaction may change what it has just made: nobody else knows of it.
        own = self._inserted.setdefault(connection, set())
        wanted = [table for table in locked_tables(statement) if table not in own]
        own.update(inserted_tables(statement))
        if "pg_advisory_xact_lock" in statement and CAPACITY_LOCK in tuple(parameters):
            wanted.append(CAPACITY)
        if (turn := turn_taken(statement, tuple(parameters))) is not None:
            wanted.append(TURN)
            turns = self._turns.setdefault(connection, [])
            if (before := turn_out_of_order(turns, turn)) is not None and not _asked_by_a_test():
                self.inversions.append(f"the turn {turn} after the turn {before}")
            turns.append(turn)
        for table in wanted:
            if (before := inversion(held, table)) is not None and not _asked_by_a_test():
                self.inversions.append(f"{table} after {before}, in: {' '.join(statement.split())[:300]}")
            held.append(table)

    def end(self, connection: Connection) -> None:
        self._locked.pop(connection, None)
        self._inserted.pop(connection, None)
        self._turns.pop(connection, None)


def _asked_by_a_test() -> bool:
    """A test may write what it likes into rows, in any order; so may a migration, which is alone. SQLAlchemy runs its statements in a greenlet; who asked for
    one stands in the frames of the greenlet's parent."""
    parent = getcurrent().parent
    frame = sys._getframe() if parent is None else parent.gr_frame
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path == _MIGRATE or (path.is_relative_to(_TESTS) and path != Path(__file__)):
            return True
        if path.is_relative_to(_PRODUCT):
            return False
        frame = frame.f_back
    return False


_TESTS, _PRODUCT = Path(__file__).parent, Path(moorage.__file__).parent
_MIGRATE = _PRODUCT / "entrypoints" / "migrate.py"
recorder = Recorder()
event.listen(Engine, "before_cursor_execute", recorder.before_statement)
for moment in ("begin", "commit", "rollback"):
    event.listen(Engine, moment, recorder.end)


@pytest.fixture(autouse=True)
def locks_in_order() -> Iterator[None]:
    recorder.inversions.clear()
    yield
    found, recorder.inversions = recorder.inversions, []
    assert found == [], "locks out of order (docs/locking.md): " + "; ".join(dict.fromkeys(found))
