"""What the replicas of a container used, in the finest steps that are kept."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.telemetry.metrics.samples import start_of
from moorage.telemetry.steps import Steps
from moorage.telemetry.usage import repository
from moorage.telemetry.usage.blocks import RUNGS, Block, Values, device_and_figure, longer_blocks, means

MOST_REPLICAS = 50
"""Shown at once; the newest."""


@dataclass
class ReplicaFigures:
    replica_id: str
    slot: int
    series: dict[str, Values] = field(default_factory=dict)
    gpus: dict[str, dict[str, Values]] = field(default_factory=dict)
    """By device."""


async def read_usage(session: AsyncSession, container_id: str, steps: Steps) -> list[ReplicaFigures]:
    """Of the replicas that ran in this time, oldest first."""
    since = start_of(steps.first, RUNGS[-1].block_s)
    slots = await repository.list_slots(session, container_id, since, steps.end, MOST_REPLICAS)
    # One after the other, so that others have their turn on the loop.
    figures = [
        _figures(replica_id, slot, steps, await _blocks(session, container_id, replica_id, steps))
        for replica_id, slot in slots.items()
    ]
    return [one for one in figures if one.series or one.gpus]


async def lengthen(session: AsyncSession, since: datetime, until: datetime) -> None:
    """Makes the longer blocks that ended by `until` and are not there yet, and drops what is too old. `since` is where
    to begin where there is none."""
    for finer, rung in itertools.pairwise(RUNGS):
        newest = await repository.newest_block_at(session, rung)
        length = timedelta(seconds=rung.block_s)
        begin = newest + length if newest is not None else start_of(since, rung.block_s)
        end = start_of(until, rung.block_s)
        if begin < end:
            blocks = await repository.list_blocks(session, finer, begin, end)
            await repository.store_blocks(session, longer_blocks(blocks, rung))
    await repository.purge(session)


async def _blocks(session: AsyncSession, container_id: str, replica_id: str, steps: Steps) -> list[Block]:
    """The longest that are short enough. A block is stored when it is over, a long one later than a short one: the
    newest time comes in short ones."""
    found: list[Block] = []
    rungs = [rung for rung in RUNGS if rung.step_s <= steps.step_s]
    since = steps.first
    for rung in reversed(rungs):
        begin = start_of(since, rung.block_s)
        some = await repository.list_blocks(session, rung, begin, steps.end, container_id, replica_id)
        found += some
        since = max((block.end for block in some), default=since)
    return found


def _figures(replica_id: str, slot: int, steps: Steps, blocks: Sequence[Block]) -> ReplicaFigures:
    found = ReplicaFigures(replica_id, slot)
    for name, values in means(steps, blocks).items():
        device_id, figure = device_and_figure(name)
        of = found.series if device_id is None else found.gpus.setdefault(device_id, {})
        of[figure] = values
    return found
