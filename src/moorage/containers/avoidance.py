"""Machines that one deployment of a container stays away from, because a person asked for others. Pure.

It belongs to one generation and ends: once that generation serves it has moved, and after a while any machine is better
than none. So it can never be why a container stays down.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

AVOID_FOR = timedelta(minutes=10)


@dataclass(frozen=True)
class Avoidance:
    generation: int
    nodes: tuple[str, ...]
    until: datetime

    @classmethod
    def from_json(cls, value: dict[str, Any] | None) -> "Avoidance | None":
        if value is None:
            return None
        return cls(value["generation"], tuple(value["nodes"]), datetime.fromisoformat(value["until"]))

    def to_json(self) -> dict[str, Any]:
        return {
            "generation": self.generation,
            "nodes": list(self.nodes),
            "until": self.until.isoformat(),
        }


def avoided_nodes(
    avoidance: Avoidance | None, *, generation: int, serving_generation: int, now: datetime
) -> tuple[str, ...]:
    if avoidance is None or avoidance.generation != generation:
        return ()
    return avoidance.nodes if serving_generation != generation and now < avoidance.until else ()


def why_no_other_room(what: str, nodes: Sequence[str], until: datetime) -> str:
    return (
        f"Waits for {what} on another machine than {', '.join(nodes)}, which this restart avoids until "
        f"{until:%H:%M} UTC. To use it at once, restart without avoiding it."
    )
