"""Seconds become blocks of longer steps, and both become what a chart shows."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.engines.base import GpuUsage
from moorage.telemetry.steps import Steps
from moorage.telemetry.usage.blocks import (
    CPU,
    RUNGS,
    Block,
    device_and_figure,
    gpu_figures,
    longer_blocks,
    means,
)

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
SECONDS, TENS, MINUTES, _ = RUNGS


def block(offset_s: int, values: list[float | None], step_s: int = 1, replica_id: str = "rep_a") -> Block:
    return Block("ctr_a", replica_id, NOON + timedelta(seconds=offset_s), step_s, {CPU: values})


def test_ten_seconds_become_one_value_of_a_minute() -> None:
    blocks = [
        block(10, [100.0, None, 200.0, *[None] * 7]),
        block(50, [30.0] * 10),
        block(50, [7.0] * 10, replica_id="rep_b"),
    ]
    first, second = longer_blocks(blocks, TENS)
    assert (first.at, first.step_s, first.replica_id) == (NOON, 10, "rep_a")
    assert first.figures == {CPU: [None, 150.0, None, None, None, 30.0]}
    assert second.figures == {CPU: [*[None] * 5, 7.0]}
    assert first.end == NOON + timedelta(minutes=1)


@given(st.lists(st.floats(0, 1e6) | st.none(), max_size=60))
def test_a_mean_of_means_is_the_mean(values: list[float | None]) -> None:
    """Where all or none of ten seconds are known."""
    seconds = [block(10 * number, [value] * 10) for number, value in enumerate(values)]
    found = [
        value for one in longer_blocks(longer_blocks(seconds, TENS), MINUTES) for value in one.figures[CPU]
    ]
    known = [[value for value in values[at : at + 6] if value is not None] for at in range(0, 60, 6)]
    expected = [sum(some) / len(some) if some else None for some in known]
    for one, other in zip(found, expected, strict=False):
        assert one == pytest.approx(other, abs=0.11)


def test_a_chart_of_blocks_of_different_lengths() -> None:
    """The long ones end where the short ones begin; nothing is known after them."""
    blocks = [block(0, [10.0] * 6, step_s=10), block(60, [40.0] * 10)]
    assert means(Steps(NOON, 30, 4), blocks) == {CPU: [10.0, 10.0, 40.0, None]}
    assert means(Steps(NOON, 120, 1), blocks) == {CPU: [pytest.approx(14.3)]}
    assert means(Steps(NOON + timedelta(seconds=65), 5, 2), blocks) == {CPU: [40.0, None]}


def test_figures_of_a_gpu() -> None:
    kept = gpu_figures("GPU-1", GpuUsage(87.0, 5, None, 300.5))
    assert {device_and_figure(name): value for name, value in kept.items()} == {
        ("GPU-1", "utilization_percent"): 87.0,
        ("GPU-1", "memory_bytes"): 5,
        ("GPU-1", "power_watts"): 300.5,
    }
    assert device_and_figure(CPU) == (None, CPU)
