"""Which reconcilers a seed runs besides the containers' and the renewals'.

Not all in every seed: each costs statements, and days with fewer parts get further in those that they have.
"""

import random

PARTS: dict[str, tuple[str, ...]] = {
    "payments": ("card-payments", "top-ups"),
    "papers": ("documents", "ledger", "alerts"),
    "housekeeping": ("housekeeping",),
    "deliveries": ("mail", "webhooks"),
    "demand": ("autoscaling", "capsules"),
}
_CHANCE = {"payments": 0.5, "papers": 0.25, "housekeeping": 0.25, "deliveries": 0.4, "demand": 0.25}

DUE = {
    "payments": "SELECT min(ask_at) FROM card_payments",
    "deliveries": """SELECT min(at) FROM (SELECT min(next_try_at) AS at FROM mails UNION ALL
        SELECT min(d.next_try_at) FROM webhook_deliveries d JOIN webhooks w ON w.id = d.webhook_id
        WHERE w.disabled_at IS NULL) waiting""",
}
"""When a part has something to do next; time is not skipped beyond it."""


def draw_parts(seed: int) -> frozenset[str]:
    chance = random.Random(f"parts of {seed}")
    return frozenset(name for name in PARTS if chance.random() < _CHANCE[name])


def reconcilers_of(parts: frozenset[str], *, has_fleet: bool) -> frozenset[str]:
    always = ("renewals", "machines") if has_fleet else ("renewals",)
    return frozenset((*always, *(name for part in parts for name in PARTS[part])))
