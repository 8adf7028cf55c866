"""Many things a few at a time. Pure."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


def portions(things: Iterable[T], size: int) -> Iterator[list[T]]:
    remaining = iter(things)
    while some := list(islice(remaining, size)):
        yield some
