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


SLEEP_DUE = """SELECT min(greatest(c.state_since, (SELECT max(g.since) FROM gateway_reports g),
        (SELECT max(r.routed_at) FROM replicas r WHERE r.container_id = c.id AND r.state = 'routed'),
        (SELECT max(s.at) FROM container_samples s WHERE s.container_id = c.id))
    + make_interval(secs => (c.settings->>'sleep_after_s')::int))
    FROM containers c WHERE c.settings->>'sleep_after_s' IS NOT NULL AND c.deleted_at IS NULL
    AND c.state = 'RUNNING' AND c.desired_state = 'running' AND c.failed_generation <> c.generation
    AND c.asleep_since IS NULL AND c.woken_at IS NULL AND c.trial_settings IS NULL AND c.fallback IS NULL"""
"""When the next container falls asleep, where they do."""


def reconcilers_of(parts: frozenset[str], *, has_fleet: bool, has_sleep: bool) -> frozenset[str]:
    always = ("renewals", *("machines",) * has_fleet, *("sleep",) * has_sleep)
    return frozenset((*always, *(name for part in parts for name in PARTS[part])))
