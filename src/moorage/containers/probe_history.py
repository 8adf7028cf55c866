"""How a replica's health checks went, as runs of equal outcomes. Pure.

A server that refuses for a minute and then answers 500 for another is two entries, not a hundred and twenty.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from moorage.containers.verdict import Probe

MOST_RUNS = 20


@dataclass(frozen=True)
class ProbeRun:
    by: str
    """`controller` while it starts, `gateway` once it serves."""
    probe: Probe
    first_at: datetime
    last_at: datetime
    count: int = 1

    def to_json(self) -> dict[str, Any]:
        return {
            "by": self.by,
            "outcome": self.probe.failure or "ok",
            "status": self.probe.status,
            "first_at": self.first_at.isoformat(),
            "last_at": self.last_at.isoformat(),
            "count": self.count,
        }


def with_probe(history: Sequence[ProbeRun], by: str, probe: Probe, at: datetime) -> list[ProbeRun]:
    last = history[-1] if history else None
    outcome = (by, probe.failure, probe.status)
    if last is not None and (last.by, last.probe.failure, last.probe.status) == outcome:
        return [*history[:-1], replace(last, last_at=at, count=last.count + 1)]
    return [*history, ProbeRun(by, probe, at, at)][-MOST_RUNS:]
