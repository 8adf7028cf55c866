"""What a start waits for, from how its cache grows. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

LOOKS_BACK_S = 10.0
LEAST_BYTES_PER_S = 16 * 1024
"""Less is a log or a lock, not a download."""


@dataclass(frozen=True)
class Sample:
    at_s: float
    """On the monotonic clock."""
    size_bytes: int
    compiled_bytes: int

    @property
    def downloaded_bytes(self) -> int:
        return self.size_bytes - self.compiled_bytes


def with_sample(samples: Sequence[Sample], new: Sample) -> tuple[Sample, ...]:
    """Those that are still looked at: one from before the window, so that all of it is covered."""
    recent = [one for one in samples if one.at_s > new.at_s - LOOKS_BACK_S]
    older = [one for one in samples if one.at_s <= new.at_s - LOOKS_BACK_S]
    return (*older[-1:], *recent, new)


def step_of(samples: Sequence[Sample]) -> dict[str, Any]:
    """For the container's progress: `download` with bytes and rate, `compile` or `load`."""
    if not samples:
        return {}
    first, last = samples[0], samples[-1]
    passed_s = last.at_s - first.at_s
    if passed_s <= 0:
        return {"step": "load", "cache_bytes": last.size_bytes}
    download_per_s = (last.downloaded_bytes - first.downloaded_bytes) / passed_s
    compile_per_s = (last.compiled_bytes - first.compiled_bytes) / passed_s
    known = {"cache_bytes": last.size_bytes}
    if download_per_s >= LEAST_BYTES_PER_S:
        return {"step": "download", **known, "bytes_per_s": round(download_per_s)}
    if compile_per_s >= LEAST_BYTES_PER_S:
        return {"step": "compile", **known}
    return {"step": "load", **known}
