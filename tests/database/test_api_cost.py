"""`GET /containers/{id}/cost`: hours and counts as they are stored. Who may ask is in the route table; how an hour is divided,
in `tests/unit/test_request_cost.py`."""

from datetime import UTC, datetime, timedelta
from typing import Any

from api_support import Api, Home, assert_problem, bearer, new_home
from api_support import api_fixture as api_fixture

from moorage.kit.ids import new_hour_id
from moorage.telemetry.requests.figures import Figures, step_of
from moorage.telemetry.requests.record import Ending
from moorage.telemetry.requests.repository import store

HOUR = timedelta(hours=1)


async def buy(
    api: Api, home: Home, container_id: str, price: int, begins_at: datetime, slot: int = 0, **columns: Any
) -> None:
    bought = {"state": "paid", "bought_at": begins_at, "begins_at": begins_at, "expires_at": begins_at + HOUR}
    values = bought | columns
    names = ", ".join(values)
    await api.execute(
        f"INSERT INTO hours (id, organization_id, project_id, container_id, instance_type, slot, price_microusd, {names}) "
        f"VALUES (:id, :organization, :project, :container, 'l4-24gb', :slot, :price, {', '.join(f':{one}' for one in values)})",
        id=new_hour_id(),
        organization=home.organization_id,
        project=home.project_id,
        container=container_id,
        slot=slot,
        price=price,
        **values,
    )


async def count(
    api: Api, container_id: str, at: datetime, keys: dict[str, int], gateway: str = "gtw_a"
) -> None:
    figures = Figures()
    for key_id, requests in keys.items():
        for _ in range(requests):
            figures.count(200, 100, 10, key_id)
    async with api.database.transaction() as session:
        told = {(container_id, step_of(at.timestamp())): figures}
        await store(session, gateway, datetime.now(UTC), [], told)


async def cost(api: Api, home: Home, container_id: str, **params: Any) -> dict[str, Any]:
    answer = await api.get(home.admin, f"/containers/{container_id}/cost", params=params)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_hours_are_divided_among_keys(api: Api) -> None:
    home = await new_home(api)
    container_id = await api.new_container(home.project_id, "chat")
    other = await api.new_container(home.project_id, "other")
    app, app_key = await api.new_key(home.project_id, "inference", name="app")
    gone = "key_" + "a" * 20
    # On a step's beginning, so that no count lies across two hours.
    first = datetime.fromtimestamp(step_of(datetime.now(UTC).timestamp()), UTC) - 5 * HOUR
    await buy(api, home, container_id, 3_000_000, first)
    # The next one was bought before this one ended, and begins where it ends.
    await buy(api, home, container_id, 1_000_000, first + HOUR, bought_at=first + HOUR - timedelta(minutes=1))
    await buy(api, home, container_id, 500_000, first + 3 * HOUR)
    held = {"state": "held", "bought_at": None, "expires_at": None}
    await buy(api, home, container_id, 9_000_000, first, slot=1, **held)
    await buy(api, home, other, 7_000_000, first)
    await count(api, container_id, first, {app: 100})
    await count(api, container_id, first + HOUR / 2, {app: 100}, gateway="gtw_b")
    await count(api, container_id, first + HOUR / 2, {gone: 100})
    await count(api, container_id, first + HOUR, {gone: 3, "": 1})
    await count(api, container_id, first + 2.5 * HOUR, {app: 50})  # served when nothing was paid: by no hour
    await count(api, other, first, {app: 1})
    found = await cost(api, home, container_id)
    assert [
        (one["key_id"], one["name"], one["hint"], one["requests"], one["cost_microusd"])
        for one in found["keys"]
    ] == [
        (app, "app", app_key[-4:], 200, 2_000_000),
        (gone, None, None, 103, 1_750_000),
        (None, None, None, 1, 250_000),
    ]
    assert (found["hours"], found["spent_microusd"]) == (3, 4_500_000)
    assert (found["idle_hours"], found["idle_microusd"]) == (1, 500_000)
    assert found["requests"] == 304
    assert found["per_request_microusd"] == round(4_500_000 / 304)
    later = await cost(api, home, container_id, **{"from": (first + 30 * timedelta(minutes=1)).isoformat()})
    assert (later["hours"], later["spent_microusd"]) == (2, 1_500_000)


async def test_each_request_counts_once(api: Api) -> None:
    """Of two replicas, the second came half an hour later: what ended meanwhile is in the hours of both."""
    home = await new_home(api)
    container_id = await api.new_container(home.project_id, "chat")
    app, _ = await api.new_key(home.project_id, "inference", name="app")
    first = datetime.fromtimestamp(step_of(datetime.now(UTC).timestamp()), UTC) - 5 * HOUR
    await buy(api, home, container_id, 3_000_000, first)
    await buy(api, home, container_id, 3_000_000, first + HOUR / 2, slot=1)
    await count(api, container_id, first, {app: 100})
    await count(api, container_id, first + HOUR / 2, {app: 100})
    await count(api, container_id, first + HOUR, {app: 100})
    await count(api, container_id, first + 2 * HOUR, {app: 100})
    found = await cost(api, home, container_id)
    assert (found["hours"], found["spent_microusd"]) == (2, 6_000_000)
    assert (found["requests"], found["per_request_microusd"]) == (300, 20_000)
    assert [(one["requests"], one["cost_microusd"]) for one in found["keys"]] == [(300, 6_000_000)]


async def test_a_receipt_is_about_the_same_hour(api: Api) -> None:
    """Also in the minute in which the next one is bought already: it begins when this one ends."""
    home = await new_home(api)
    container_id = await api.new_container(home.project_id, "chat")
    app, _ = await api.new_key(home.project_id, "inference", name="app")
    replica_id = await api.new_replica(container_id)
    first = datetime.fromtimestamp(step_of(datetime.now(UTC).timestamp()), UTC) - 3 * HOUR
    ended_at = first + HOUR - timedelta(seconds=10)
    await buy(api, home, container_id, 3_000_000, first)
    await buy(api, home, container_id, 5_000_000, first + HOUR, bought_at=first + HOUR - timedelta(minutes=1))
    await count(api, container_id, first, {app: 299})
    await count(api, container_id, ended_at, {app: 1})
    await count(api, container_id, first + HOUR, {app: 7})
    request_id = await api.new_request(
        home.project_id,
        app,
        container_id=container_id,
        replica_id=replica_id,
        started_at=ended_at,
        total_ms=5,
        status=200,
        ended=Ending.COMPLETED,
    )
    told = (await api.get(home.admin, f"/requests/{request_id}")).json()["cost"]
    assert (told["price_microusd"], told["requests"], told["share_microusd"]) == (3_000_000, 300, 10_000)


async def test_counts_of_an_earlier_version(api: Api) -> None:
    """They know no keys; nothing of the hour is lost for that."""
    home = await new_home(api)
    container_id = await api.new_container(home.project_id, "chat")
    began = datetime.fromtimestamp(step_of(datetime.now(UTC).timestamp()), UTC) - HOUR
    await buy(api, home, container_id, 10, began + timedelta(seconds=4))  # amid what is counted together
    await api.execute(
        "INSERT INTO request_histograms (container_id, time, gateway_id, written_at, statuses, buckets, counts) "
        "VALUES (:id, :at, 'gtw', now(), '{0,0,2,0,1,0}', '{1}', '{3}')",
        id=container_id,
        at=began,
    )
    found = await cost(api, home, container_id)
    assert [(one["key_id"], one["requests"], one["cost_microusd"]) for one in found["keys"]] == [
        (None, 3, 10)
    ]


async def test_without_anything(api: Api) -> None:
    home = await new_home(api)
    container_id = await api.new_container(home.project_id, "chat")
    found = await cost(api, home, container_id)
    assert (found["hours"], found["keys"], found["per_request_microusd"]) == (0, [], None)
    for wrong in (
        {"from": "2020-01-01T00:00:00Z", "to": "2020-02-01T00:00:00Z"},
        {"to": "0001-01-01T00:00:00Z"},
    ):
        assert_problem(await api.get(home.admin, f"/containers/{container_id}/cost", params=wrong), 422)
    _, key = await api.new_key(home.project_id, "inference")
    refused = await api.get(bearer("key", key), f"/containers/{container_id}/cost")
    assert refused.status_code in (401, 403)
