"""What a machine that is lent has shown that it has, to hold against what it says later. Pure.

A proof is of what a machine claims at that moment. Whatever it claims beyond that, it says alone: nothing is placed there until
it has proven that, too.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

from moorage.engines.base import GpuDevice, NodeCapacity

UNPROVEN = "It says that it has more than it has proven"
"""The machine's `closed_because` then."""
_MEMORY_SLACK = 1.02
"""A kernel that was updated may find a little more than the one before."""


@dataclass(frozen=True)
class Proven:
    cpu_millis: int
    memory_bytes: int
    gpus: frozenset[tuple[str, str, int]]
    """Device, model and bytes of each."""

    @classmethod
    def of(cls, node: NodeCapacity, gpus: Iterable[GpuDevice]) -> Self:
        shown = ((gpu.device_id, gpu.model, gpu.memory_bytes or 0) for gpu in gpus)
        return cls(node.cpu_millis, node.memory_bytes, frozenset(shown))

    @classmethod
    def from_json(cls, written: dict[str, Any]) -> Self:
        gpus = frozenset((gpu["device_id"], gpu["model"], gpu["memory_bytes"]) for gpu in written["gpus"])
        return cls(written["cpu_millis"], written["memory_bytes"], gpus)

    def to_json(self) -> dict[str, Any]:
        names = ("device_id", "model", "memory_bytes")
        gpus = [dict(zip(names, gpu, strict=True)) for gpu in sorted(self.gpus)]
        return {"cpu_millis": self.cpu_millis, "memory_bytes": self.memory_bytes, "gpus": gpus}

    def covers(self, node: NodeCapacity) -> bool:
        """All that could be used of it."""
        usable = Proven.of(node, (gpu for gpu in node.gpus if gpu.unusable_because is None))
        return (
            usable.cpu_millis <= self.cpu_millis
            and usable.memory_bytes <= self.memory_bytes * _MEMORY_SLACK
            and usable.gpus <= self.gpus
        )
