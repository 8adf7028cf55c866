"""One cache for all simulated engines leaves the caches alone in which other engines of the process keep theirs."""

import pytest
from sqlalchemy.dialects.postgresql.asyncpg import PGDialect_asyncpg
from sqlalchemy.util import LRUCache

from moorage.kit.database import Database
from tests.simulation.compiled_once import compiled_once

DSN = "postgresql://nobody@/nothing"


def test_all_engines_of_a_simulation_have_one_cache() -> None:
    with compiled_once():
        one, another = (Database(DSN)._engine.sync_engine for _ in range(2))
    assert one._compiled_cache is another._compiled_cache
    assert one.dialect == another.dialect
    assert hash(one.dialect) == hash(another.dialect)
    assert Database(DSN)._engine.sync_engine.dialect != one.dialect


@pytest.mark.timeout(10)
def test_what_others_compiled_can_still_be_put_out() -> None:
    """As in a mapper's cache, which outlives engines: SQLAlchemy looked there without end."""
    cache = LRUCache[object, str](capacity=100, threshold=0.5)
    for statement in range(150):
        cache[(PGDialect_asyncpg(), statement)] = "compiled for an engine of before"
    with compiled_once():
        simulated = Database(DSN)._engine.sync_engine.dialect
        cache[(simulated, "a statement")] = "compiled in the simulation"
    assert len(cache) == 100
    assert cache[(simulated, "a statement")]
