"""SQL of what a container's requests cost."""

from collections import Counter, defaultdict
from datetime import timedelta

from sqlalchemy import select, text
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.identity.api_keys.models import ApiKeyRow
from moorage.kit.errors import InvalidInputError
from moorage.telemetry.bounded_search import bounded_search
from moorage.telemetry.requests.cost import PaidHour, Span, divide
from moorage.telemetry.requests.figures import STEP_S
from moorage.telemetry.requests.schemas import Cost, KeyCost

LONGEST_SEARCH_S = 5
"""A week of a container with many replicas and keys is millions of counts."""
_COUNTED = text(
    """
    WITH paid AS (
        SELECT id, price_microusd, coalesce(begins_at, bought_at) AS begins_at, expires_at FROM hours
        WHERE container_id = :container_id AND state = 'paid'
          AND coalesce(begins_at, bought_at) >= :first AND coalesce(begins_at, bought_at) < :end
    ), told AS (
        SELECT * FROM paid
        UNION ALL
        -- All of them together, each moment once: the hours of several replicas are about the same requests.
        SELECT NULL, NULL, lower(stretch), upper(stretch)
        FROM (SELECT unnest(range_agg(tstzrange(begins_at, greatest(begins_at, expires_at)))) AS stretch FROM paid) AS any_of_them
    )
    SELECT told.id, told.price_microusd, counted.key_id, counted.requests
    FROM told LEFT JOIN LATERAL (
        SELECT one.key_id, sum(one.requests)::bigint AS requests
        FROM request_histograms AS step CROSS JOIN LATERAL (
            SELECT known.key_id, known.requests FROM unnest(step.key_ids, step.key_counts) AS known(key_id, requests)
            UNION ALL
            SELECT NULL, (SELECT sum(n) FROM unnest(step.statuses) AS n)
                - coalesce((SELECT sum(n) FROM unnest(step.key_counts) AS n), 0)
        ) AS one
        WHERE step.container_id = :container_id
          -- What is counted together belongs to the hour in which it ends, so that the first requests to what just came up do.
          AND step.time > told.begins_at - CAST(:step AS interval) AND step.time <= told.expires_at - CAST(:step AS interval)
          -- None is written before its time: days before that need not be looked at.
          AND step.written_at >= CAST(:first AS timestamptz) - CAST(:step AS interval)
        GROUP BY one.key_id HAVING sum(one.requests) > 0
    ) AS counted ON true
    """
)


async def cost_of(session: AsyncSession, container_id: str, span: Span) -> Cost:
    """Within a transaction."""
    refusal = InvalidInputError(
        f"The costs were not added up within {LONGEST_SEARCH_S} s. Ask for a shorter time.",
        code="cost_search_too_broad",
    )
    step = timedelta(seconds=STEP_S)
    values = {"container_id": container_id, "first": span.first, "end": span.end, "step": step}
    prices: dict[str, int] = {}
    by_hour: dict[str, Counter[str | None]] = defaultdict(Counter)
    requests: Counter[str | None] = Counter()
    async with bounded_search(session, LONGEST_SEARCH_S, refusal):
        for hour_id, price, key_id, count in await session.execute(_COUNTED, values):
            if hour_id is not None:
                prices[hour_id] = price
            if count is not None:
                (requests if hour_id is None else by_hour[hour_id])[key_id] += count
        hours = (PaidHour(price, by_hour[hour_id]) for hour_id, price in prices.items())
        division = divide(hours, requests)
        known = select(ApiKeyRow.id, ApiKeyRow.name, ApiKeyRow.hint).where(
            ApiKeyRow.id.in_([key_id for key_id in division.keys if key_id is not None])
        )
        names = {key_id: (name, hint) for key_id, name, hint in await session.execute(known)}
    keys = []
    for key_id, share in division.keys.items():
        name, hint = names.get(key_id or "", (None, None))
        keys.append(KeyCost(key_id, name, hint, share.requests, share.cost_microusd))
    return Cost(
        from_time=span.first,
        to_time=span.end,
        hours=division.hours,
        spent_microusd=division.spent_microusd,
        idle_hours=division.idle_hours,
        idle_microusd=division.idle_microusd,
        requests=division.requests,
        per_request_microusd=division.per_request_microusd,
        keys=sorted(keys, key=lambda one: (-one.cost_microusd, one.key_id or "")),
    )
