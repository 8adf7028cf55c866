"""Which reconcilers a seed runs besides the containers' and the renewals'.

Not all in every seed: each costs statements, and days with fewer parts get further in those that they have.
"""

import random

PARTS: dict[str, tuple[str, ...]] = {
    "payments": ("card-payments", "top-ups"),
    "papers": ("documents", "ledger", "alerts"),
    "housekeeping": ("housekeeping",),
    "demand": ("autoscaling", "capsules"),
}
_CHANCE = {"payments": 0.5, "papers": 0.25, "housekeeping": 0.25, "demand": 0.25}

DUE = {"payments": "SELECT min(ask_at) FROM card_payments"}
"""When a part has something to do next; time is not skipped beyond it."""


def draw_parts(seed: int) -> frozenset[str]:
    chance = random.Random(f"parts of {seed}")
    return frozenset(name for name in PARTS if chance.random() < _CHANCE[name])


def reconcilers_of(parts: frozenset[str]) -> frozenset[str]:
    return frozenset(("renewals", *(name for part in parts for name in PARTS[part])))
