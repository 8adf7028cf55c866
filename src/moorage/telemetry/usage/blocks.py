"""What replicas use: values at an even pace, put together in blocks, and how short steps become longer ones. Pure.

A block is one row of the database: ten seconds, a minute, ten minutes or an hour of one replica. Nothing is there of a
time in which a replica did not run or could not be looked at.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from moorage.engines.base import GpuUsage
from moorage.telemetry.metrics.samples import KEEP_SECONDS, STEPS, start_of
from moorage.telemetry.steps import Steps

Values = list[float | None]

CPU = "cpu_millis"
MEMORY = "memory_bytes"
_GPU = "gpu"


@dataclass(frozen=True)
class Rung:
    """One resolution in which figures are kept."""

    step_s: int
    length: int
    """Steps in a block."""
    kept: timedelta

    @property
    def block_s(self) -> int:
        return self.step_s * self.length


RUNGS = (
    Rung(1, 10, KEEP_SECONDS),
    *(Rung(step_s, length, kept) for (step_s, kept), length in zip(STEPS, (6, 10), strict=True)),
    # No finer than the one before is asked for of a month, but a chart of a month has fewer rows to read.
    Rung(600, 6, STEPS[-1][1]),
)
"""Each is made from the one before."""


@dataclass(frozen=True)
class Block:
    container_id: str
    replica_id: str
    at: datetime
    """When it begins: a multiple of its length."""
    step_s: int
    figures: Mapping[str, Sequence[float | None]]
    """Values by name, one for each step; None where nothing is known."""

    @property
    def end(self) -> datetime:
        return self.at + timedelta(seconds=self.step_s * max(map(len, self.figures.values()), default=0))


def gpu_figures(device_id: str, usage: GpuUsage) -> dict[str, float]:
    """By the names under which they are kept."""
    told = vars(usage).items()
    return {f"{_GPU}/{device_id}/{name}": value for name, value in told if value is not None}


def device_and_figure(name: str) -> tuple[str | None, str]:
    """Which device a figure speaks of, None where it speaks of the replica."""
    if not name.startswith(f"{_GPU}/"):
        return None, name
    _, device_id, figure = name.split("/")
    return device_id, figure


def longer_blocks(blocks: Iterable[Block], rung: Rung) -> list[Block]:
    """Means of what is known."""
    grouped: dict[tuple[str, str, datetime], list[Block]] = {}
    for block in blocks:
        begin = start_of(block.at, rung.block_s)
        grouped.setdefault((block.container_id, block.replica_id, begin), []).append(block)
    return [
        Block(container_id, replica_id, at, rung.step_s, means(Steps(at, rung.step_s, rung.length), some))
        for (container_id, replica_id, at), some in sorted(grouped.items())
    ]


def means(steps: Steps, blocks: Iterable[Block]) -> dict[str, Values]:
    """For each figure and step the mean of the values that lie in it; those of longer steps weigh more."""
    totals: dict[str, list[float]] = {}
    weights: dict[str, list[int]] = {}
    for block in blocks:
        # In whole seconds, because dates are slow and there are many values.
        begin_s = int((block.at - steps.first).total_seconds())
        indexes = [
            (begin_s + number * block.step_s) // steps.step_s
            for number in range(max(map(len, block.figures.values()), default=0))
        ]
        for name, values in block.figures.items():
            total = totals.setdefault(name, [0.0] * steps.count)
            weight = weights.setdefault(name, [0] * steps.count)
            for index, value in zip(indexes, values, strict=False):
                if value is not None and 0 <= index < steps.count:
                    total[index] += value * block.step_s
                    weight[index] += block.step_s
    return {
        name: [round(one / by, 1) if by else None for one, by in zip(total, weights[name], strict=True)]
        for name, total in totals.items()
    }
