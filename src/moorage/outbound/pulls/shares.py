import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Shares:
    """So many at the same time for each owner; others of the same owner wait, in the order they came."""

    def __init__(self, per_owner: int) -> None:
        self._per_owner = per_owner
        self._places: dict[str, asyncio.Semaphore] = {}
        self._interested: dict[str, int] = {}

    @asynccontextmanager
    async def place(self, owner: str) -> AsyncIterator[None]:
        places = self._places.setdefault(owner, asyncio.Semaphore(self._per_owner))
        self._interested[owner] = self._interested.get(owner, 0) + 1
        try:
            async with places:
                yield
        finally:
            self._interested[owner] -= 1
            if not self._interested[owner]:
                del self._interested[owner], self._places[owner]
