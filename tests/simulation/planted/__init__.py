"""Bugs put in on purpose, one switch each: a simulation that does not find them would not find others.

To add one: a function that is given `patch(object, name, replacement)`, in the file of its subject, and listed there with
the invariant that has to break. Signatures are not spelled out, so that the bugs survive changes of the functions
that they replace. `python -m tests.simulation.find_planted` says which seed finds it.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

from tests.simulation.planted import fleet, gpus, growth, leading, money, passes, people, rights, sleep
from tests.simulation.planted.bug import Bug
from tests.simulation.server import Server

OF_AFTERNOONS: tuple[Bug, ...] = (*rights.BUGS, *gpus.BUGS)
OF_EVENINGS: tuple[Bug, ...] = fleet.BUGS
OF_NIGHTS: tuple[Bug, ...] = (*sleep.BUGS, *passes.BUGS_OF_NIGHTS)
BUGS: tuple[Bug, ...] = (
    *(*money.BUGS, *passes.BUGS, *leading.BUGS, *people.BUGS, *growth.BUGS),
    *OF_AFTERNOONS,
    *OF_EVENINGS,
    *OF_NIGHTS,
)


def part_of(bug: Bug) -> str | None:
    """The part of a day in which it shows, if it needs no other."""
    if bug in OF_AFTERNOONS:
        return "afternoon"
    if bug in OF_NIGHTS:
        return "night"
    return "evening" if bug in OF_EVENINGS else None


def bug_named(name: str) -> Bug:
    return next(bug for bug in BUGS if bug.name == name)


@contextlib.contextmanager
def planted(server: Server, bug: Bug) -> Iterator[None]:
    before: list[tuple[Any, str, Any]] = []

    def patch(of: Any, name: str, replacement: Any) -> None:
        before.append((of, name, getattr(of, name)))
        setattr(of, name, replacement)

    with _without_rule(server, *bug.without) if bug.without else contextlib.nullcontext():
        try:
            bug.plant(patch)
            yield
        finally:
            for of, name, original in reversed(before):
                setattr(of, name, original)


@contextlib.contextmanager
def _without_rule(server: Server, table: str, name: str) -> Iterator[None]:
    """Where Postgres holds an invariant as well, a bug has to be in both places to show."""
    connection = server.plain()
    constraints = connection.query(
        f"SELECT pg_get_constraintdef(oid) FROM pg_catalog.pg_constraint WHERE conname = '{name}'"
    )
    if constraints:
        drop, add = (
            f"ALTER TABLE {table} DROP CONSTRAINT {name}",
            f"ALTER TABLE {table} ADD CONSTRAINT {name} ",
        )
        add += constraints[0][0] or ""
    else:
        ((index,),) = connection.query(f"SELECT pg_get_indexdef('{name}'::regclass)")
        drop, add = f"DROP INDEX {name}", index or ""
    connection.query(drop)
    try:
        yield
    finally:
        server.empty(connection)
        connection.query(add)
        connection.close()
