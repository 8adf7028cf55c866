"""What asyncpg asks each new connection about Postgres's types, asked once per seed.

The answer is the same for every connection of an installation, the question is by far the dearest of all, and a day on
which processes are killed makes many connections. Per seed, not for good: whatever ran before must not be felt.
"""

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

from asyncpg.connection import Connection


@contextlib.contextmanager
def types_learnt_once() -> Iterator[None]:
    ask = Connection._introspect_types
    answers: dict[tuple[int, ...], Any] = {}

    async def ask_once(connection: Any, types: Iterable[int], timeout_s: float | None) -> Any:
        key = tuple(sorted(types))
        if key not in answers:
            answers[key] = await ask(connection, key, timeout_s)
        return answers[key]

    Connection._introspect_types = ask_once
    try:
        yield
    finally:
        Connection._introspect_types = ask
