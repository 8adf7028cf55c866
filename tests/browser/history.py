"""An hour in which a container that scales had a burst: demand, requests, replicas and the decisions about them."""

import math
from datetime import datetime, timedelta

from sqlalchemy import text

from moorage.kit.histogram import bucket_of
from moorage.kit.ids import new_replica_id
from moorage.telemetry.partition_repository import create_partition
from moorage.telemetry.usage.blocks import Block
from moorage.telemetry.usage.repository import store_blocks
from tests.database.api_support import Api

STEP = timedelta(seconds=10)
STEPS = 360
SECONDS = 900
"""Single seconds are kept for a quarter of an hour."""
DECISIONS = [
    # minutes ago, before, after, wanted, limited by, reason
    (45, 2, 3, 3, None, "7.9 in flight over 60 s + headroom 3.7 = 11.6, ÷ 4 → 3 replicas."),
    (
        34,
        3,
        4,
        6,
        "max_replicas",
        "14.9 in flight over the last 6 s + headroom 5.9 = 20.8, ÷ 4 → 6 replicas. Wants 6, capped by max 4.",
    ),
    (16, 4, 3, 3, None, "7.9 in flight over 60 s + headroom 3.7 = 11.6, ÷ 4 → 3 replicas."),
    (5.5, 3, 2, 2, None, "5.2 in flight over 60 s + headroom 2.8 = 8.0, ÷ 4 → 2 replicas."),
]
MORE_REPLICAS = [(2, 44.3, 5.4), (3, 33.2, 15.9)]
"""Slot, ready and ended minutes ago."""


async def add_history(api: Api, container_id: str, now: datetime, *, first_port: int = 29_000) -> None:
    """Each container of a world has its own ports, also those of its replicas that are gone."""
    first = datetime.fromtimestamp(now.timestamp() // 10 * 10, now.tzinfo) - STEP * STEPS
    await _add_demand(api, container_id, first, now)
    await _add_requests(api, container_id, first)
    await _add_usage(api, container_id, first)
    for minutes_ago, before, after, wanted, limit, reason in DECISIONS:
        await api.execute(
            "INSERT INTO autoscaling_decisions (container_id, at, replicas_before, replicas, wanted, limited_by, reason, "
            "inputs) VALUES (:id, :at, :before, :after, :wanted, :limit, :reason, '{}')",
            id=container_id,
            at=now - timedelta(minutes=minutes_ago),
            before=before,
            after=after,
            wanted=wanted,
            limit=limit,
            reason=reason,
        )
    for slot, ready, ended in MORE_REPLICAS:
        await api.execute(
            "INSERT INTO replicas (id, container_id, slot, generation, instance_type, state, node, gpu_device_ids, "
            "host, host_port, created_at, ready_at, draining_at, ended_at, ended_badly) SELECT :id, id, :slot, generation, instance_type, "
            "'removed', 'node-03', '{}', '127.0.0.1', :port, :ready, :ready, :ended, :ended, false FROM containers WHERE id = :container_id",
            id=new_replica_id(),
            slot=slot,
            port=first_port + slot,
            ready=now - timedelta(minutes=ready),
            ended=now - timedelta(minutes=ended),
            container_id=container_id,
        )


def demand(step: float) -> float:
    """Requests in flight: a low tide, a steep rise after 22 minutes, a slow fall. With waves, as demand has them."""
    minute = step / 6
    burst = 15 * math.exp(-(((minute - 27) / 3) ** 2)) if minute < 27 else 15 * math.exp(-(minute - 27) / 9)
    slope = 3 / (1 + math.exp(-(minute - 14) / 2)) if minute < 27 else 3 * math.exp(-(minute - 27) / 14)
    waves = 0.35 * math.sin(step * 0.9) + 0.3 * math.sin(step * 2.3 + 1) + 0.2 * math.sin(step * 0.31)
    return 6 + burst + slope + waves * (1 + burst / 10)


def _rate(step: float) -> float:
    return demand(step) * 2.2 + 4


async def _add_demand(api: Api, container_id: str, first: datetime, now: datetime) -> None:
    steps = [
        {
            "id": container_id,
            "at": first + STEP * step,
            "mean": demand(step),
            "most": math.ceil(demand(step)),
            "queued": max(0.0, demand(step) - 17) * 0.8,
            "requests": round(_rate(step) * 10),
        }
        for step in range(STEPS)
    ]
    begin = (now - first).total_seconds() - SECONDS
    seconds = [
        {
            "id": container_id,
            "at": now.replace(microsecond=0) - timedelta(seconds=SECONDS - second),
            "in_flight": round(demand((begin + second) / 10)),
            "requests": round(_rate((begin + second) / 10)),
        }
        for second in range(SECONDS)
    ]
    async with api.database.transaction() as session:
        await session.execute(
            text(
                "INSERT INTO container_steps (step_s, at, container_id, in_flight_mean, in_flight_max, queued_mean, requests, "
                "errors, response_ms) VALUES (10, :at, :id, :mean, :most, :queued, :requests, 0, 300)"
            ),
            steps,
        )
        await session.execute(
            text(
                "INSERT INTO container_samples (at, container_id, gateway_id, in_flight, queued, requests, errors, "
                "response_ms) VALUES (:at, :id, 'gw', :in_flight, 0, :requests, 0, 300)"
            ),
            seconds,
        )


async def _add_usage(api: Api, container_id: str, first: datetime) -> None:
    """Of the replicas that are there: processor, memory and one GPU each."""
    found = await api.rows("SELECT id FROM replicas WHERE container_id = :id ORDER BY slot", id=container_id)
    begin = datetime.fromtimestamp(first.timestamp() // 60 * 60, first.tzinfo)
    blocks = []
    for number, (replica_id,) in enumerate(found):
        for minute in range(60):
            load = [
                min(demand(minute * 6 + step) / 22, 1) + 0.02 * math.sin(step * 2 + number)
                for step in range(6)
            ]
            figures = {
                "cpu_millis": [1200 + 2600 * one + 90 * number for one in load],
                "memory_bytes": [(21 + number + one) * 2**30 for one in load],
                "gpu/0/utilization_percent": [52 + 42 * one - 3 * number for one in load],
                "gpu/0/memory_bytes": [(36.5 + 4 * one + number) * 2**30 for one in load],
            }
            blocks.append(Block(container_id, replica_id, begin + timedelta(minutes=minute), 10, figures))
    async with api.database.transaction() as session:
        await store_blocks(session, blocks)


async def _add_requests(api: Api, container_id: str, first: datetime) -> None:
    rows = []
    for step in range(STEPS):
        count = round(_rate(step) * 10)
        crowd = max(0.0, demand(step) - 9) / 12
        middle = 190 * (1 + 0.6 * crowd) + 10 * math.sin(step * 1.7)
        buckets: dict[int, int] = {}
        for request in range(count):
            share = (request + 0.5) / count
            slow = (
                middle * (1 + 1.3 * share**3)
                if share < 0.97
                else middle * (2.6 + 4 * crowd + math.sin(step) * 0.2)
            )
            bucket = bucket_of(round(slow))
            buckets[bucket] = buckets.get(bucket, 0) + 1
        failed = round(count * 0.05) if 2 < crowd * 2 < 4 and step % 3 == 0 else 0
        refused = round(count * 0.03) if step % 4 == 1 else 0
        rows.append(
            {
                "id": container_id,
                "at": first + STEP * step,
                "statuses": [0, 0, count - failed - refused, 0, refused, failed],
                "buckets": list(buckets),
                "counts": list(buckets.values()),
            }
        )
    insert = text(
        "INSERT INTO request_histograms (container_id, time, gateway_id, written_at, statuses, buckets, counts) "
        "VALUES (:id, :at, 'gw', :at, :statuses, :buckets, :counts)"
    )
    async with api.database.transaction() as session:
        for day in {row["at"].date() for row in rows}:
            await create_partition(session, "request_histograms", day)
        await session.execute(insert, rows)
