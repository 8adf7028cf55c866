"""For whom work is done right now, so that what is scarce can be shared: a person with their keys, or an address.

The edge sets it for each request; whoever hands out something scarce asks for it. Work of our own has no client.
"""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass

from moorage.kit.fair_slots import FairSlots


@dataclass
class Client:
    """Of one request."""

    name: str
    connections: FairSlots
    """To the database."""
    note: Callable[[str], None]
    """Takes the name under which its next request shares."""
    connections_held: int = 0


current_client: ContextVar[Client | None] = ContextVar("current_client", default=None)


def note_client(name: str) -> None:
    """Who it turned out to be. What this request uses still counts for the name it began with: to change queues with
    something in hand is how everybody comes to wait for everybody."""
    client = current_client.get()
    if client is not None:
        client.note(name)
