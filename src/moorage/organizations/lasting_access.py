"""For answers that take long: whether whoever asked may still have them."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from moorage.kit.clock import Clock
from moorage.kit.errors import ForbiddenError, NotAuthenticatedError, NotFoundError

ASK_AGAIN_EVERY_S = 3.0
"""How long somebody who was removed, or whose key was revoked, still gets something."""

FoundT = TypeVar("FoundT")


@dataclass(frozen=True)
class LastingAccess(Generic[FoundT]):
    found: FoundT
    still_holds: Callable[[], Awaitable[bool]]
    """Asks everything again: the session or key, the membership, what is asked for."""


async def lasting(find: Callable[[], Awaitable[FoundT]]) -> LastingAccess[FoundT]:
    """What `find` finds now, and whether it would find the same later. It raises what an endpoint would."""
    found = await find()

    async def still_holds() -> bool:
        try:
            return await find() == found
        except (NotAuthenticatedError, NotFoundError, ForbiddenError):
            return False

    return LastingAccess(found, still_holds)


class AskedAgain:
    """Whether the access holds, as of a moment ago."""

    def __init__(self, access: LastingAccess[FoundT], clock: Clock) -> None:
        self._still_holds = access.still_holds
        self._clock = clock
        self._asked_at_s = clock.monotonic()

    async def __call__(self) -> bool:
        if self._clock.monotonic() - self._asked_at_s < ASK_AGAIN_EVERY_S:
            return True
        self._asked_at_s = self._clock.monotonic()
        return await self._still_holds()
