"""SQLAlchemy compiles each statement once, not once for every simulated process.

Its cache belongs to an engine, and the dialect, one per engine, is part of the key. All engines of the simulation are made
alike, so one cache serves them all: what is compiled follows from the statement alone.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

from sqlalchemy.dialects.postgresql.asyncpg import PGDialect_asyncpg
from sqlalchemy.util import LRUCache

from moorage.kit.database import Database

_ALL_THERE_ARE = 100_000
"""Statements, so that none is ever put out: an engine that outlives this leaves entries that hash in another way then, and
SQLAlchemy would look for them without end."""


@contextlib.contextmanager
def compiled_once() -> Iterator[None]:
    make, cache = Database.__init__, LRUCache[Any, Any](_ALL_THERE_ARE)

    def make_with_the_cache(database: Database, dsn: str, **options: int) -> None:
        make(database, dsn, **options)
        database._engine.sync_engine._compiled_cache = cache

    Database.__init__ = make_with_the_cache  # type: ignore[method-assign]
    PGDialect_asyncpg.__eq__ = lambda mine, other: type(mine) is type(other)  # type: ignore[method-assign,assignment]
    PGDialect_asyncpg.__hash__ = lambda mine: hash(type(mine))  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        Database.__init__ = make  # type: ignore[method-assign]
        del PGDialect_asyncpg.__eq__, PGDialect_asyncpg.__hash__
