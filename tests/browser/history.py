"""An hour in which a container that scales had a burst: demand, requests, replicas and the decisions about them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import text

from moorage.autoscaling.decide import (
    HISTORY_S,
    TICK_S,
    Decision,
    Fleet,
    Policy,
    Samples,
    State,
    decide,
)
from moorage.kit.histogram import bucket_of
from moorage.kit.ids import new_activity_id, new_replica_id
from moorage.telemetry.partition_repository import create_partition
from moorage.telemetry.usage.blocks import Block
from moorage.telemetry.usage.repository import store_blocks
from tests.browser.world import HERE
from tests.database.api_support import Api

STEP = timedelta(seconds=10)
STEPS = 360
PEAK_MINUTE = 24.5
SECONDS = 900
"""Single seconds are kept for a quarter of an hour."""
DRAINS_S = 8
POLICY = Policy(min_replicas=1, max_replicas=4, target_concurrency=4, scale_down_delay_s=300)
STARTUP_S = 42.0
BEFORE = 2
"""Replicas when the hour begins."""


@dataclass(frozen=True)
class Decided:
    second: int
    """Of the hour."""
    before: int
    decision: Decision


async def add_history(
    api: Api,
    container_id: str,
    now: datetime,
    *,
    first_port: int = 29_000,
    machine: tuple[str, str] = HERE,
    key_ids: Sequence[str] = (),
) -> None:
    """Each container of a world has its own ports, also those of its replicas that are gone."""
    first = datetime.fromtimestamp(now.timestamp() // 10 * 10, now.tzinfo) - STEP * STEPS
    await _add_demand(api, container_id, first, now)
    await _add_requests(api, container_id, first, key_ids)
    for decided in DECISIONS:
        await _add_decision(api, container_id, first + timedelta(seconds=decided.second), decided)
    for slot, began, ended in _more_replicas():
        values = {"began": first + timedelta(seconds=began), "ended": first + timedelta(seconds=ended)}
        await api.execute(
            "INSERT INTO replicas (id, container_id, slot, generation, version, instance_type, state, engine, node, "
            "gpu_device_ids, host, host_port, created_at, started_at, ready_at, draining_at, ended_at, ended_badly) SELECT :id, "
            "id, :slot, generation, version, instance_type, 'removed', :engine, :node, '{}', '127.0.0.1', :port, :began, :began, "
            ":ready, :ended, :ended, false FROM containers WHERE id = :container_id",
            id=new_replica_id(),
            slot=slot,
            engine=machine[0],
            node=machine[1],
            port=first_port + slot,
            ready=values["began"] + timedelta(seconds=STARTUP_S),
            container_id=container_id,
            **values,
        )
    await _add_usage(api, container_id, first)


async def _add_decision(api: Api, container_id: str, at: datetime, decided: Decided) -> None:
    decision = decided.decision
    values = {
        "container_id": container_id,
        "at": at,
        "before": decided.before,
        "after": decision.replicas,
        "limit": decision.limit,
        "reason": decision.reason,
    }
    await api.execute(
        "INSERT INTO autoscaling_decisions (container_id, at, replicas_before, replicas, wanted, limited_by, reason, inputs) "
        "VALUES (:container_id, :at, :before, :after, :wanted, :limit, :reason, '{}')",
        wanted=decision.wanted,
        **values,
    )
    await api.execute(
        "INSERT INTO activities (id, project_id, container_id, actor, kind, at, reason, message, details) SELECT :id, "
        "project_id, id, 'system', 'container.autoscale', :at, :limit, :reason, "
        "jsonb_build_object('from', CAST(:before AS int), 'to', CAST(:after AS int)) FROM containers WHERE id = :container_id",
        id=new_activity_id(),
        **values,
    )


def _more_replicas() -> list[tuple[int, int, int]]:
    """Those beyond the first two, which came and went: the slot, and the seconds of the hour in which it began and ended."""
    began, gone = dict[int, int](), list[tuple[int, int, int]]()
    for decided in DECISIONS:
        for slot in range(decided.before, decided.decision.replicas):
            began[slot] = decided.second
        for slot in range(decided.decision.replicas, decided.before):
            gone.append((slot, began[slot], decided.second + DRAINS_S))
    return gone


def demand(step: float) -> float:
    """Requests in flight: a low tide, a steep rise in the middle of the hour, a slow fall. With waves, as demand has them."""
    after = step / 6 - PEAK_MINUTE
    burst = 15 * (math.exp(-((after / 0.35) ** 2)) if after < 0 else math.exp(-after / 8))
    slope = 2.5 * (1 / (1 + math.exp(-(after + PEAK_MINUTE - 14) / 2)) if after < 0 else math.exp(-after / 8))
    waves = 0.35 * math.sin(step * 0.9) + 0.3 * math.sin(step * 2.3 + 1) + 0.2 * math.sin(step * 0.31)
    return 4.2 + burst + slope + waves * (1 + burst / 10)


def _decided() -> list[Decided]:
    """As the autoscaler decides of that demand: what changes something."""
    seconds = [float(round(demand(second / 10))) for second in range(-HISTORY_S, STEPS * 10)]
    state, coming_at, found = State(BEFORE), list[int](), list[Decided]()
    for second in range(0, STEPS * 10, TICK_S):
        known = seconds[: second + HISTORY_S]
        coming = sum(at > second for at in coming_at)
        samples = Samples(known[-HISTORY_S:], sum(known[-300:]) / 300)
        fleet = Fleet(state.replicas - coming, coming, startup_s=STARTUP_S)
        decision = decide(POLICY, samples, fleet, state, float(second))
        if decision.replicas != state.replicas:
            found.append(Decided(second, state.replicas, decision))
        coming_at += [second + round(STARTUP_S)] * (decision.replicas - state.replicas)
        state = decision.state
    return found


DECISIONS = _decided()


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
    found = await api.rows(
        "SELECT id, ready_at, coalesce(ended_at, now()) FROM replicas WHERE container_id = :id AND ready_at IS NOT NULL "
        "ORDER BY slot",
        id=container_id,
    )
    begin = datetime.fromtimestamp(first.timestamp() // 60 * 60, first.tzinfo)
    blocks = []
    for number, (replica_id, ready_at, ended_at) in enumerate(found):
        for minute in range(60):
            at = begin + timedelta(minutes=minute)
            if not ready_at <= at <= ended_at:
                continue
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
            blocks.append(Block(container_id, replica_id, at, 10, figures))
    async with api.database.transaction() as session:
        await store_blocks(session, blocks)


async def _add_requests(api: Api, container_id: str, first: datetime, key_ids: Sequence[str]) -> None:
    """Most of them with the first of the keys."""
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
                "key_ids": list(key_ids),
                "key_counts": _shared(count, len(key_ids)),
            }
        )
    insert = text(
        "INSERT INTO request_histograms (container_id, time, gateway_id, written_at, statuses, buckets, counts, key_ids, "
        "key_counts) VALUES (:id, :at, 'gw', :at, :statuses, :buckets, :counts, :key_ids, :key_counts)"
    )
    async with api.database.transaction() as session:
        for day in {row["at"].date() for row in rows}:
            await create_partition(session, "request_histograms", day)
        await session.execute(insert, rows)


def _shared(count: int, keys: int) -> list[int]:
    """One in five with each key but the first."""
    others = [count // 5] * (keys - 1)
    return [count - sum(others), *others] if keys else []
