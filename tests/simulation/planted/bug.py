"""What a planted bug is, and what several of them need."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import TextClause, text

Patch = Callable[[Any, str, Any], None]


@dataclass(frozen=True)
class Bug:
    name: str
    breaks: tuple[str, ...]
    """Any of these invariants. Others may break as well, but are not there for it."""
    plant: Callable[[Patch], None]
    needs: tuple[str, ...] = ()
    """Acts and rates of faults without which it cannot show: seeds with more of them are tried first."""
    without: tuple[str, str] | None = None
    """Table and name of the constraint, or unique index, that would hold the invariant by itself."""


async def nothing(*_: Any, **__: Any) -> None:
    return None


async def nothing_slowly(*_: Any, **__: Any) -> None:
    """What is done at once is followed by the next pass at once, and so on: true to the bug, but a seed takes minutes."""
    await asyncio.sleep(10)


async def none_of_them(*_: Any, **__: Any) -> int:
    return 0


def rewritten(statement: TextClause, *changes: tuple[str, str]) -> TextClause:
    """The same statement with a mistake in it."""
    broken = statement.text
    for right, wrong in changes:
        assert broken.count(right) == 1, f"the bug is in: {right}"
        broken = broken.replace(right, wrong)
    return text(broken).bindparams(*statement._bindparams.values())
