"""How long requests took, counted in buckets that grow by 5 %. Pure.

Up to 20 ms every millisecond, which is what HAProxy measures in, has its own bucket; from there on a bucket ends 5 %
above the one before it, so that the middle of a bucket is at most 2.5 % away from anything in it. A day fits into 340.
Histograms of several gateways and times add up bucket by bucket, which percentiles do not.
"""

import math
from collections.abc import Mapping

Histogram = Mapping[int, int]
"""How many requests by bucket; buckets without any are absent."""

GROWTH = 1.05
EXACT_UP_TO_MS = 20
_LOG_GROWTH = math.log(GROWTH)
_LAST_BUCKET = 1000
"""Beyond any duration; a smallint."""


def bucket_of(duration_ms: int) -> int:
    if duration_ms <= EXACT_UP_TO_MS:
        return max(0, duration_ms)
    return min(EXACT_UP_TO_MS + math.ceil(math.log(duration_ms / EXACT_UP_TO_MS) / _LOG_GROWTH), _LAST_BUCKET)


def percentile(histogram: Histogram, q: float) -> float | None:
    """In ms: what a share of `q` of the requests did not exceed, within 2.5 %. None without requests."""
    if not 0 <= q <= 1:
        raise ValueError(f"{q!r} is not a share between 0 and 1")
    total = sum(histogram.values())
    if total == 0:
        return None
    rank = max(1, math.ceil(q * total))
    seen = 0
    for bucket in sorted(histogram):
        seen += histogram[bucket]
        if seen >= rank:
            return _middle_ms(bucket)
    raise AssertionError("the buckets hold fewer requests than their sum")


def add(into: dict[int, int], more: Histogram) -> None:
    for bucket, count in more.items():
        into[bucket] = into.get(bucket, 0) + count


def _middle_ms(bucket: int) -> float:
    if bucket <= EXACT_UP_TO_MS:
        return float(bucket)
    return EXACT_UP_TO_MS * math.exp(_LOG_GROWTH * (bucket - EXACT_UP_TO_MS - 0.5))
