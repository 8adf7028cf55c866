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
"""Statements, so that none is put out and compiled again."""


class _AlikeDialect(PGDialect_asyncpg):
    """A class of its own, because the dialects of other engines lie in caches too: those of the mappers serve the whole
    process, and SQLAlchemy looks without end for an entry whose hash is no longer what it was."""

    supports_statement_cache = True

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))


@contextlib.contextmanager
def compiled_once() -> Iterator[None]:
    make, cache = Database.__init__, LRUCache[Any, Any](_ALL_THERE_ARE)

    def make_with_the_cache(database: Database, dsn: str, **options: int) -> None:
        make(database, dsn, **options)
        engine = database._engine.sync_engine
        engine._compiled_cache = cache
        engine.dialect.__class__ = _AlikeDialect

    Database.__init__ = make_with_the_cache  # type: ignore[method-assign]
    try:
        yield
    finally:
        Database.__init__ = make  # type: ignore[method-assign]
