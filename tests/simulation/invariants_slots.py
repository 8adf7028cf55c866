"""How many processes a slot may have at once."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tests.simulation.world import World

_FAILED = "SELECT id FROM replicas WHERE state = 'draining' AND ended_badly"
_MOVING = "SELECT id FROM replicas WHERE moving_since IS NOT NULL"


@dataclass(frozen=True)
class Running:
    """A process, and what it is for."""

    container_id: str
    generation: int
    slot: int
    failed: bool
    """It drains because it failed. Its successor does not wait for its end, which may take as long as a process that answers
    nothing likes (decision 13); but the successor's successor does."""
    moving: bool
    """It serves on until its successor does, on another machine."""


def running_processes(world: World, *, without: Iterable[str]) -> list[Running]:
    failed, moving = ({row[0] for row in world.query(which)} for which in (_FAILED, _MOVING))
    return [
        Running(
            one.spec.container_id,
            one.spec.generation,
            one.spec.slot,
            failed=one.spec.replica_id in failed,
            moving=one.spec.replica_id in moving,
        )
        for one in world.running()
        if one.spec.replica_id not in without
    ]


def too_many(running: Iterable[Running]) -> Iterator[str]:
    """One of each generation, or two of which one failed at least; beside what has to leave its machine."""
    by_slot: dict[tuple[str, int, int], list[bool]] = {}
    for one in running:
        if one.moving:
            continue
        by_slot.setdefault((one.container_id, one.generation, one.slot), []).append(one.failed)
    for (container, generation, slot), failed in by_slot.items():
        if failed.count(False) > 1 or len(failed) > 2:
            yield f"{len(failed)} processes run for slot {slot} of {container}, generation {generation}"
