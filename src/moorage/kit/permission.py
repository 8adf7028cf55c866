"""Whether work that began with a permission may still act on the world outside.

Nothing outside knows our leases. An engine call takes several requests, and between any two of them a process can be
stopped for a minute and go on as if nothing had happened. So the work carries its permission with it, and whatever
speaks to the outside asks immediately before it sends (`engines/permitted_connector.py`).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_check: ContextVar[Callable[[], None] | None] = ContextVar("permission", default=None)


@contextmanager
def permitted_by(check: Callable[[], None]) -> Iterator[None]:
    """For everything in the block and every task that it begins: `check` raises once it may act no more."""
    token = _check.set(check)
    try:
        yield
    finally:
        _check.reset(token)


def require_permission() -> None:
    """Work that was begun without one needs none: requests of people, commands of the operator."""
    check = _check.get()
    if check is not None:
        check()
