"""SQL of starting time that nobody pays for. It is counted from the rows of replicas, by organization and day, so that a
container that is deleted and made again changes nothing."""

from sqlalchemy import String, bindparam, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.containers.start_limit import NOT_ITS_FAULT


async def unpaid_starts_microusd(session: AsyncSession, organization_id: str) -> int:
    """What the organization's replicas that never became ready used today (in UTC), at their price, less what lies in
    paid hours of their slots and was not used there by a replica that served. What still starts counts up to now. So does the
    time in which one waited for another to fill its cache: it held room that nobody else got."""
    values = {"organization_id": organization_id, "not_its_fault": list(NOT_ITS_FAULT)}
    return int((await session.execute(_UNPAID, values)).scalar_one())


_UNPAID = text("""
WITH day AS (SELECT date_trunc('day', now(), 'UTC') AS began_at)
SELECT coalesce(ceil(sum(extract(epoch FROM upper(unpaid) - lower(unpaid)) * t.price_per_hour_microusd / 3600)), 0)
FROM day
CROSS JOIN replicas r
JOIN containers c ON c.id = r.container_id
JOIN projects p ON p.id = c.project_id AND p.organization_id = :organization_id
JOIN instance_types t ON t.name = r.instance_type
CROSS JOIN LATERAL (
    -- A start takes an hour at most. Whatever lasted longer did so because nobody was there to end it.
    SELECT CASE WHEN r.started_at IS NOT NULL THEN least(r.started_at + interval '1 hour', CASE
        WHEN r.state IN ('starting', 'draining') THEN clock_timestamp()
        ELSE coalesce(r.ended_at, r.started_at)
    END) END AS ended_at
) life
CROSS JOIN LATERAL (
    SELECT CASE WHEN r.waits_since IS NOT NULL THEN least(r.waits_since + interval '1 hour', coalesce(r.turn_at, CASE
        WHEN r.state IN ('requested', 'draining') THEN clock_timestamp()
        ELSE coalesce(r.ended_at, r.waits_since)
    END)) END AS ended_at
) wait
CROSS JOIN LATERAL (
    SELECT coalesce(range_agg(tstzrange(h.bought_at, greatest(h.expires_at, h.bought_at))), '{}') AS hours
    FROM hours h WHERE h.container_id = r.container_id AND h.slot = r.slot AND h.state = 'paid'
) paid
CROSS JOIN LATERAL (
    SELECT coalesce(range_agg(tstzrange(s.ready_at, greatest(coalesce(s.ended_at, 'infinity'), s.ready_at))), '{}')
        AS times
    FROM replicas s WHERE s.container_id = r.container_id AND s.slot = r.slot AND s.ready_at IS NOT NULL
) served
CROSS JOIN LATERAL unnest(
    tstzmultirange(
        tstzrange(greatest(r.started_at, day.began_at), greatest(life.ended_at, r.started_at, day.began_at)),
        tstzrange(greatest(r.waits_since, day.began_at), greatest(wait.ended_at, r.waits_since, day.began_at))
    ) - (paid.hours - served.times)
) AS unpaid
WHERE r.ready_at IS NULL AND coalesce(r.started_at, r.waits_since) IS NOT NULL
    -- Whatever began earlier ended before today.
    AND r.created_at > day.began_at - interval '1 day'
    AND (r.reason IS NULL OR r.reason <> ALL (:not_its_fault))
""").bindparams(bindparam("organization_id", type_=String), bindparam("not_its_fault", type_=ARRAY(String)))
