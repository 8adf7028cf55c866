"""What a start that came to its end says about the next one, from looks at its cache. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from moorage.containers.caches.filling import LEAST_BYTES_PER_S, Sample

LEAST_PULLED_BYTES = 16 * 2**20
LEAST_PULL_S = 1.0
LEAST_DOWNLOADED_BYTES = 64 * 2**20
LEAST_DOWNLOAD_S = 4.0
"""Less says more about when we looked than about the line."""
_SEEN_FROM_ITS_START_S = 10.0


class Step(StrEnum):
    PULL = "pull"
    """Of the layers that were not there; unpacking included."""
    DOWNLOAD = "download"
    """Of weights, into an empty cache or one that lacks something."""
    LOAD = "load"
    """From the last downloaded byte until it answers: weights into memory, kernels compiled. The bytes are what the cache holds."""
    AGAIN = "again"
    """From its start until it answers, where the cache holds all: nothing was downloaded."""


@dataclass(frozen=True)
class Measured:
    step: Step
    bytes: int
    took_s: float


@dataclass(frozen=True)
class PastStep:
    """Of any start of some time ago."""

    organization_id: str
    infrastructure: str
    instance_type: str
    image: str
    step: Step
    bytes: int
    took_s: float

    @property
    def bytes_per_s(self) -> float:
        return self.bytes / self.took_s


@dataclass(frozen=True)
class Filled:
    """How the cache grew while something started on it; moments on the monotonic clock."""

    began_s: float
    """The first look."""
    grew_until_s: float
    """The last look that found more."""
    fetched_bytes: int
    """Since the first look."""
    last: Sample


def with_look(filled: Filled | None, new: Sample) -> Filled:
    if filled is None:
        return Filled(new.at_s, new.at_s, 0, new)
    more = new.downloaded_bytes - filled.last.downloaded_bytes
    if more < LEAST_BYTES_PER_S * max(new.at_s - filled.last.at_s, 0.0) or more <= 0:
        # Nothing, a log, or something that was trimmed.
        return replace(filled, last=new)
    return replace(filled, grew_until_s=new.at_s, fetched_bytes=filled.fetched_bytes + more, last=new)


def of_pull(pulled_bytes: int, took_s: float) -> Sequence[Measured]:
    if pulled_bytes < LEAST_PULLED_BYTES or took_s < LEAST_PULL_S:
        return ()
    return (Measured(Step.PULL, pulled_bytes, took_s),)


def of_start(filled: Filled | None, running_s: float, now_s: float) -> Sequence[Measured]:
    """Of a replica that just became ready, `running_s` after its process began. Nothing where nobody looked from the beginning: what
    it downloaded before would count as loading."""
    if filled is None or filled.began_s > now_s - running_s + _SEEN_FROM_ITS_START_S:
        return ()
    held_bytes = filled.last.downloaded_bytes
    if held_bytes < LEAST_DOWNLOADED_BYTES:
        # Its weights are elsewhere, or so small that nobody waits for them.
        return ()
    if not filled.fetched_bytes:
        return (Measured(Step.AGAIN, held_bytes, running_s),) if running_s > 0 else ()
    found = []
    downloading_s, loading_s = filled.grew_until_s - filled.began_s, now_s - filled.grew_until_s
    if filled.fetched_bytes >= LEAST_DOWNLOADED_BYTES and downloading_s >= LEAST_DOWNLOAD_S:
        found.append(Measured(Step.DOWNLOAD, filled.fetched_bytes, downloading_s))
    if loading_s > 0:
        found.append(Measured(Step.LOAD, held_bytes, loading_s))
    return found
