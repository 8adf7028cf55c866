"""How long it takes until a model answers for the first time, from what earlier starts took. Nothing is guessed: what nobody has
measured is None. Pure."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from moorage.containers.start_times.measuring import PastStep, Step

_NEWEST = 20
"""Lines and machines change."""
_AS_LARGE = 0.05
"""Weights of another size are another model; the same ones differ by a tokenizer or a lock file."""


@dataclass(frozen=True)
class StartEstimate:
    image_bytes_per_s: int | None
    """Of layers that the machine does not have, unpacked."""
    download_s: float | None
    load_s: float | None
    """From the last byte until it answers."""
    again_s: float | None
    """All of a later start on that machine, with its cache."""
    own: bool
    """False where a rate is that of others."""


def estimate(
    past: Sequence[PastStep],
    organization_id: str,
    *,
    infrastructure: str,
    instance_type: str,
    image: str,
    download_bytes: int,
) -> StartEstimate:
    """`past` newest first."""
    there = [one for one in past if one.infrastructure == infrastructure]
    mine = [one for one in there if one.organization_id == organization_id]
    pulls, downloads = (_rate(there, mine, step) for step in (Step.PULL, Step.DOWNLOAD))
    same = [
        one
        for one in mine
        if (one.image, one.instance_type) == (image, instance_type)
        and abs(one.bytes - download_bytes) <= _AS_LARGE * download_bytes
    ]
    known = [one for one in (pulls, downloads) if one is not None]
    return StartEstimate(
        image_bytes_per_s=round(pulls.bytes_per_s) if pulls is not None else None,
        download_s=download_bytes / downloads.bytes_per_s if downloads is not None else None,
        load_s=_typical([one.took_s for one in same if one.step is Step.LOAD]),
        again_s=_typical([one.took_s for one in same if one.step is Step.AGAIN]),
        own=all(one.own for one in known),
    )


@dataclass(frozen=True)
class _Rate:
    bytes_per_s: float
    own: bool


def _rate(there: Sequence[PastStep], mine: Sequence[PastStep], step: Step) -> _Rate | None:
    """Its own where it has one. Of others each organization counts once: whoever pulls slowly a hundred times says it once."""
    own = _typical([one.bytes_per_s for one in mine if one.step is step])
    if own is not None:
        return _Rate(own, own=True)
    by_organization = defaultdict[str, list[float]](list)
    for one in there:
        if one.step is step:
            by_organization[one.organization_id].append(one.bytes_per_s)
    each = [typical for rates in by_organization.values() if (typical := _typical(rates)) is not None]
    return _Rate(median(each), own=False) if each else None


def _typical(newest_first: Sequence[float]) -> float | None:
    return median(newest_first[:_NEWEST]) if newest_first else None
