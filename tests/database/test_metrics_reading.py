"""A container's figures over HTTP, from rows as the gateway and the keeper write them."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from api_support import Api, bearer
from api_support import api_fixture as api_fixture
from sqlalchemy import text

from moorage.containers.models import ReplicaRow
from moorage.kit.ids import new_replica_id
from moorage.telemetry.metrics import repository
from moorage.telemetry.metrics.samples import Sample, Step
from moorage.telemetry.requests.figures import Figures, step_of
from moorage.telemetry.requests.repository import list_merged_figures, store
from moorage.telemetry.steps import steps_for

DEFAULT = {
    "replica_count", "request_rate", "response_time_p50_ms", "response_time_p95_ms", "response_time_p99_ms",
    "first_byte_p50_ms", "first_byte_p95_ms", "in_flight", "queued",
}  # fmt: skip
"""What every answer has, whatever the resolution and however long ago."""


async def metrics(api: Api, container_id: str, project_id: str, **query: Any) -> dict[str, Any]:
    _, key = await api.new_key(project_id, "manage")
    answer = await api.get(bearer("key", key), f"/containers/{container_id}/metrics", params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    assert all(len(series) == len(found["times"]) for series in found["series"].values())
    return found


async def new_container(api: Api) -> tuple[str, str]:
    user_id, _ = await api.new_person("someone@example.com")
    project_id = await api.new_project(
        await api.new_organization("acme", {user_id: "admin"}), "main", user_id
    )
    return project_id, await api.new_container(project_id, "chat")


async def test_the_last_minutes(api: Api) -> None:
    project_id, container_id = await new_container(api)
    now = datetime.now(UTC).replace(microsecond=0)
    began_s = step_of(now.timestamp()) - 60
    began = datetime.fromtimestamp(began_s, UTC)
    figures = Figures()
    for number in range(100):
        figures.count(200 if number else 500, 10 * (number + 1), number + 1)
    async with api.database.transaction() as session:
        samples = [
            Sample(container_id, "gtw_a", began + timedelta(seconds=n), 4, 1, 10, 0, 50) for n in range(10)
        ]
        await repository.store_samples(session, "gtw_a", samples, began, began + timedelta(seconds=49))
        await store(session, "gtw_a", now, [], {(container_id, began_s): figures})
        session.add(
            ReplicaRow(
                id=new_replica_id(), container_id=container_id, slot=0, generation=1, instance_type="cpu-nano",
                state="routed", node="here", host_port=20000, ready_at=began - timedelta(hours=1),
            )
        )  # fmt: skip
    query = {
        "from": (began - timedelta(seconds=20)).isoformat(),
        "to": began + timedelta(seconds=30),
        "step": 10,
    }
    found = await metrics(api, container_id, project_id, **query)
    series = found["series"]
    assert found["step_s"] == 10
    at = found["times"].index(began.isoformat().replace("+00:00", "Z"))
    assert series["replica_count"] == [1.0] * 5
    assert series["request_rate"] == [0, 0, 10, 0, 0]
    assert (series["in_flight"][at], series["queued"][at]) == (4.0, 1.0)
    assert series["response_time_p50_ms"][at] == pytest.approx(500, rel=0.025)
    assert series["response_time_p95_ms"][at] == pytest.approx(950, rel=0.025)
    assert series["response_time_p99_ms"][at] == pytest.approx(990, rel=0.025)
    assert series["response_time_p50_ms"][at + 1] is None
    assert series["first_byte_p50_ms"][at] == pytest.approx(50, rel=0.025)
    assert (series["responses_2xx"][at], series["responses_5xx"][at]) == (99, 1)
    seconds = await metrics(api, container_id, project_id, **{**query, "step": 1})
    assert seconds["step_s"] == 1
    assert sum(seconds["series"]["request_rate"]) == 100
    assert seconds["series"]["response_time_p50_ms"][20:30] == [series["response_time_p50_ms"][at]] * 10
    assert seconds["series"].keys() >= DEFAULT


async def test_figures_that_are_written_meanwhile_are_seen_whole_or_not_at_all(api: Api) -> None:
    _, container_id = await new_container(api)
    now_s = step_of(datetime.now(UTC).timestamp())
    steps = steps_for(datetime.fromtimestamp(now_s - 3600, UTC), datetime.fromtimestamp(now_s, UTC), 1000, 10)

    async def write() -> None:
        for number in range(100):
            figures = Figures()
            figures.count(200, 10, 1)
            async with api.database.transaction() as session:
                told = {(container_id, now_s - 10 * (number + 1)): figures}
                await store(session, "gtw_a", datetime.now(UTC), [], told)

    writing = asyncio.create_task(write())
    seen: set[int] = set()
    while not writing.done():
        async with api.database.reading() as session:
            found = await list_merged_figures(session, container_id, steps)
        seen.add(len(found))
        for figures in found.values():
            assert sum(figures.histogram.values()) == sum(figures.first_bytes.values()) == figures.requests
    await writing
    assert len(seen) > 5


async def test_what_is_not_known_yet_is_null(api: Api) -> None:
    """Also in steps that are made of seconds later on: what is shown now does not become something else."""
    project_id, container_id = await new_container(api)
    now = datetime.now(UTC).replace(microsecond=0)
    # The second gateway is five seconds behind, and may still say something; a third one is gone for good.
    behind = now - timedelta(seconds=5)
    began = now - timedelta(minutes=10)
    async with api.database.transaction() as session:
        await session.execute(text("DELETE FROM gateway_reports"))
        for gateway_id, last in (("gtw_a", now), ("gtw_b", behind), ("gtw_c", began)):
            seconds = [began + timedelta(seconds=n) for n in range(int((last - began).total_seconds()) + 1)]
            samples = [Sample(container_id, gateway_id, at, 4, 1, 10, 0, 50) for at in seconds]
            await repository.store_samples(session, gateway_id, samples, began, last)
    for hours in (0.1, 1, 30):
        found = await metrics(
            api,
            container_id,
            project_id,
            **{"from": (now - timedelta(hours=hours)).isoformat(), "to": now + timedelta(minutes=10)},
        )
        answered = datetime.now(UTC)
        assert found["series"].keys() >= DEFAULT
        times = [datetime.fromisoformat(time) for time in found["times"]]
        for name in ("in_flight", "queued", "request_rate", "response_time_p50_ms", "replica_count"):
            ahead = [v for time, v in zip(times, found["series"][name], strict=True) if time > answered]
            assert ahead
            assert set(ahead) == {None}, name
        # Of ten minutes, one longest step at least begins after they did and is known, whatever time of the hour it is;
        # and of the ten to come one that is not.
        lately = [
            value for time, value in zip(times, found["series"]["in_flight"], strict=True) if began < time
        ]
        known = [value for value in lately if value is not None]
        assert known == pytest.approx([8.0] * len(known)), "both gateways, in every step that is shown"
        assert known
        edge = [time for time in times if behind < time <= now]
        assert all(found["series"]["in_flight"][times.index(time)] is None for time in edge)


@pytest.mark.parametrize(("age", "kept_s"), [(timedelta(hours=2), 10), (timedelta(days=20), 60)])
async def test_longer_ago_in_longer_steps(api: Api, age: timedelta, kept_s: int) -> None:
    project_id, container_id = await new_container(api)
    day = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - age
    async with api.database.transaction() as session:
        rows = [
            Step(container_id, day + timedelta(seconds=number * kept_s), 2.0, 3, 0.5, 5 * kept_s, 0, 20.0)
            for number in range(10)
        ]
        await repository.store_steps(session, kept_s, rows)
    found = await metrics(
        api,
        container_id,
        project_id,
        **{"from": day.isoformat(), "to": day + timedelta(minutes=10), "step": 1},
    )
    assert found["step_s"] == kept_s
    assert found["series"].keys() >= DEFAULT
    assert found["series"]["in_flight"] == [2.0] * 10 + [0.0] * (len(found["times"]) - 10)
    # Requests are counted where they ended, as long as that is kept; nothing is counted twice.
    rate = 0.0 if kept_s == 10 else 5.0
    assert found["series"]["request_rate"][:10] == [rate] * 10


@pytest.mark.parametrize(
    "query",
    [
        {"from": "2026-05-02T00:00:00Z", "to": "2026-05-01T00:00:00Z"},
        {"from": "yesterday"},
        {"from": "0001-01-01T00:00:00+14:00"},
        {"to": "9999-12-31T23:59:59Z"},
        {"to": "0001-01-01T00:00:01Z"},
        {"step": 0},
    ],
)
async def test_bad_input(api: Api, query: dict[str, Any]) -> None:
    project_id, container_id = await new_container(api)
    _, key = await api.new_key(project_id, "manage")
    answer = await api.get(bearer("key", key), f"/containers/{container_id}/metrics", params=query)
    assert answer.status_code == 422, answer.text
