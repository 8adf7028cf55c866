"""How many processes a slot may have at once."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tests.simulation.world import World

_FAILED = "SELECT id FROM replicas WHERE state = 'draining' AND ended_badly"


@dataclass(frozen=True)
class Running:
    """A process, and what it is for."""

    container_id: str
    generation: int
    slot: int
    failed: bool
    """It drains because it failed. Its successor does not wait for its end, which may take as long as a process that answers
    nothing likes (decision 13); but the successor's successor does."""


def running_processes(world: World, *, without: Iterable[str]) -> list[Running]:
    failed = {row[0] for row in world.query(_FAILED)}
    return [
        Running(
            one.spec.container_id, one.spec.generation, one.spec.slot, failed=one.spec.replica_id in failed
        )
        for one in world.running()
        if one.spec.replica_id not in without
    ]


def too_many(running: Iterable[Running]) -> Iterator[str]:
    """One of each generation, or two of which one failed at least."""
    by_slot: dict[tuple[str, int, int], list[bool]] = {}
    for one in running:
        by_slot.setdefault((one.container_id, one.generation, one.slot), []).append(one.failed)
    for (container, generation, slot), failed in by_slot.items():
        if failed.count(False) > 1 or len(failed) > 2:
            yield f"{len(failed)} processes run for slot {slot} of {container}, generation {generation}"
