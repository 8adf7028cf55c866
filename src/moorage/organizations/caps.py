"""How many things one may have. Each number is a setting; whoever reaches it is told so, with a code of its own.

Everything that people make costs everybody something: a gateway holds every key, a reconciler looks at every container.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.kit.database import take_turn
from moorage.kit.errors import ConflictError


@dataclass(frozen=True)
class Cap:
    code: str
    whose: str
    """The sentence's subject, e.g. "A project"."""
    what: str
    instead: str


ORGANIZATIONS = Cap(
    "too_many_organizations",
    "A person",
    "organizations of which they are an admin",
    "Use one of yours, or hand one over",
)
PROJECTS = Cap("too_many_projects", "An organization", "projects", "Remove one first")
API_KEYS = Cap("too_many_api_keys", "A project", "working keys", "Revoke one first")
CONTAINERS = Cap("too_many_containers", "A project", "containers", "Delete one first")
MACHINES = Cap("too_many_machines", "An organization", "machines", "Remove one first")
REMOVED_MACHINES = Cap(
    "too_many_machines_removed",
    "An organization",
    "machines that it removed within a week",
    "Lend the next one later",
)
TRANSFERS = Cap(
    "too_many_top_ups",
    "An organization",
    "bank transfers that have not arrived",
    "Pay with the reference of one of them",
)
CARD_PAGES = Cap("too_many_top_ups", "An organization", "open pages to pay at", "Pay at one of them")
TOP_UP_TURN = TRANSFERS.code
"""Whoever announces a payment has this turn of the organization. So has whoever sees to it that none is."""
LIMIT_REQUESTS = Cap(
    "too_many_limit_requests",
    "A project",
    "requests for more replicas that wait",
    "Wait for the operator's answer to one of them",
)
WEBHOOKS = Cap("too_many_webhooks", "An organization", "webhooks", "Remove one first")


async def require_room(
    session: AsyncSession,
    cap: Cap,
    owner_id: str,
    count: Callable[[AsyncSession, str], Awaitable[int]],
    most: int,
) -> None:
    """Whoever makes one of the same kind for the same owner waits until this transaction ends: two that are made at
    once must not both be the last."""
    await take_turn(session, f"{cap.code}:{owner_id}")
    refuse_beyond(cap, await count(session, owner_id), most)


def refuse_beyond(cap: Cap, there: int, most: int) -> None:
    if there >= most:
        message = (
            f"{cap.whose} can have at most {most} {cap.what}. {cap.instead}, or ask the operator for more."
        )
        raise ConflictError(message, code=cap.code)
