"""What webhooks were sent of the scene: most of it arrived, one message is tried again, one receiver is gone."""

from datetime import datetime, timedelta

from tests.database.api_support import Api

GONE = timedelta(hours=29, minutes=58)
"""Since then there is no receiver at the second address."""
GONE_BECAUSE = "https://chat.northwind.example answered 410"
_SHOWN = timedelta(days=2)
_OF_THE_MESSAGE = "SELECT id FROM webhook_deliveries WHERE webhook_id = :webhook"


async def settle_deliveries(api: Api, served: str, gone: str, now: datetime) -> None:
    """`served` answers, `gone` did until it was switched off. Everything was queued as it happened."""
    ours = [served, gone]
    await api.execute(
        "UPDATE webhook_deliveries SET created_at = coalesce(CAST(payload->'data'->>'at' AS timestamptz), created_at) "
        "WHERE webhook_id = ANY(:ours)",
        ours=ours,
    )
    await api.execute(
        "DELETE FROM webhook_deliveries WHERE webhook_id = ANY(:ours) AND (created_at < :shown "
        "OR payload->'data'->>'kind' = 'usage' OR (webhook_id = :gone AND created_at > :gone_at))",
        ours=ours,
        shown=now - _SHOWN,
        gone=gone,
        gone_at=now - GONE,
    )
    await api.execute(
        "UPDATE webhook_deliveries SET tries = 1, status = 200, next_try_at = NULL, "
        "delivered_at = created_at + interval '310 milliseconds' WHERE webhook_id = ANY(:ours)",
        ours=ours,
    )
    await api.execute(
        "UPDATE webhook_deliveries SET tries = 4, status = 503, delivered_at = NULL, next_try_at = :next, "
        "error = 'https://hooks.northwind.example answered 503' WHERE id = "
        f"({_OF_THE_MESSAGE} AND event = 'container.state' AND payload->'data'->'details'->>'to' = 'FAILED' "
        "ORDER BY created_at DESC LIMIT 1)",
        webhook=served,
        next=now + timedelta(minutes=6),
    )
    await api.execute(
        "UPDATE webhook_deliveries SET status = 410, delivered_at = NULL, "
        "error = :error WHERE id = "
        f"({_OF_THE_MESSAGE} ORDER BY created_at DESC LIMIT 1)",
        webhook=gone,
        error=GONE_BECAUSE,
    )
    await api.execute(
        "UPDATE webhooks SET disabled_at = :at, disabled_reason = :reason WHERE id = :id",
        at=now - GONE,
        reason=f"Switched off because {GONE_BECAUSE}.",
        id=gone,
    )
