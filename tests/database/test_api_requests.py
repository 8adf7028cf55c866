"""`GET /requests/{id}` and a container's requests: who may ask is in the route table; here is what the answers say."""

from datetime import UTC, datetime, timedelta

import pytest
from api_support import Api, Asker, assert_problem, bearer, new_home
from api_support import api_fixture as api_fixture
from sqlalchemy import text

from moorage.kit.ids import new_container_id, new_replica_id
from moorage.telemetry.requests import list_repository
from tests.database.request_support import LINES, new_waking_request

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


async def test_a_request_is_told_in_numbers_and_words(api: Api) -> None:
    home = await new_home(api)
    key_id, key = await api.new_key(home.project_id, "inference", name="mobile-app")
    container_id, replica_id = new_container_id(), new_replica_id()
    request_id = await api.new_request(
        home.project_id,
        key_id,
        container_id=container_id,
        replica_id=replica_id,
        queue_ms=1200,
        connect_ms=1,
        first_byte_ms=1301,
        total_ms=42_000,
        status=200,
        ended="client_left",
        retries=2,
        method="POST",
        path="/v1/embeddings",
    )
    answer = (await api.get(home.admin, f"/requests/{request_id}")).json()
    assert answer == {
        "request_id": request_id,
        "project_id": home.project_id,
        "container_id": container_id,
        "container": None,
        "key_id": key_id,
        "key": {"id": key_id, "name": "mobile-app", "hint": key[-4:], "scope": "inference"},
        "replica_id": replica_id,
        "replica": {
            "id": replica_id,
            "version": None,
            "node": None,
            "instance_type": None,
            "gpu_model": None,
            "gpu_count": None,
        },
        "gateway_id": "gtw_test",
        "started_at": "2026-01-31T12:00:00Z",
        "queue_ms": 1200,
        "connect_ms": 1,
        "first_byte_ms": 1301,
        "total_ms": 42000,
        "status": 200,
        "request_bytes": 100,
        "response_bytes": 200,
        "ended": "client_left",
        "retries": 2,
        "method": "POST",
        "path": "/v1/embeddings",
        "held_ms": None,
        "held_comments": 0,
        "wake": None,
        "cost": None,
        "kept_days": 7,
        "lines": {
            "instance_id": replica_id,
            "from_time": "2026-01-31T12:00:00Z",
            "to_time": "2026-01-31T12:00:43Z",
        },
        "phases": [
            {"name": "queued", "duration_ms": 1200, "what": "It waited for a free replica."},
            {"name": "connected", "duration_ms": 1, "what": "The gateway connected to the replica."},
            {
                "name": "to_first_byte",
                "duration_ms": 100,
                "what": "The request was read, and the container worked on it.",
            },
            {"name": "answering", "duration_ms": 40_699, "what": "The answer was sent."},
        ],
        "moments": [
            {"at": "2026-01-31T12:00:00Z", "teller": "gateway", "what": "POST /v1/embeddings arrived"},
            {"at": "2026-01-31T12:00:01.201000Z", "teller": "gateway", "what": f"sent to {replica_id}"},
            {"at": "2026-01-31T12:00:01.301000Z", "teller": "gateway", "what": "first byte"},
            {
                "at": "2026-01-31T12:00:42Z",
                "teller": "gateway",
                "what": "200, 200 bytes, the client had left",
            },
        ],
        "explanation": [
            "The request arrived at 2026-01-31 12:00:00.000 UTC and was answered with 200; it took 42.0 s.",
            "It waited 1200 ms for a free replica.",
            f"It reached replica {replica_id} after 1 ms.",
            "The answer began 1301 ms after the request did.",
            "The client closed the connection before the answer was complete.",
            "100 bytes came in, 200 bytes went out.",
        ],
    }


async def test_a_request_that_woke_its_container(api: Api) -> None:
    home = await new_home(api)
    key_id, _ = await api.new_key(home.project_id, "inference")
    container_id = await api.new_container(home.project_id, "support-router")
    replica_id = await api.new_replica(container_id, node="gpu-node-04")
    await api.execute(
        "UPDATE replicas SET version = 3, instance_type = 'l4-24gb' WHERE id = :id", id=replica_id
    )
    started_at = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=5)
    woken = await new_waking_request(api, home.project_id, container_id, key_id, replica_id, started_at)

    answer = (await api.get(home.admin, f"/requests/{woken.request_id}")).json()
    assert answer["container"] == {"id": container_id, "name": "support-router", "deleted": False}
    assert (answer["replica"]["version"], answer["replica"]["node"]) == (3, "gpu-node-04")
    assert (answer["replica"]["gpu_count"], answer["replica_id"]) == (1, replica_id)
    assert [(phase["name"], phase["duration_ms"]) for phase in answer["phases"]] == [
        ("queued", 50),
        ("woken.placed", 10),
        ("woken.started", 780),
        ("woken.loaded", 1760),
        ("woken.routed", 20),
        ("to_first_byte", 180),
        ("answering", 1400),
    ]
    assert datetime.fromisoformat(answer["wake"]["asleep_at"]) == started_at - timedelta(minutes=41)
    assert answer["retries"] is None
    cost = answer["cost"]
    assert (cost["price_microusd"], cost["requests"], cost["share_microusd"]) == (800_000, 37, 21_622)
    assert (cost["replicas"], cost["bought_by_wake"]) == (1, True)
    assert [moment["teller"] for moment in answer["moments"]] == [
        "gateway", "controller", "controller", "controller", "controller", "gateway", "gateway", "gateway",
    ]  # fmt: skip
    where = answer["lines"]
    lines = await api.get(
        home.admin,
        f"/projects/{home.project_id}/logs",
        params={
            "container": container_id,
            "instance": where["instance_id"],
            "from": where["from_time"],
            "to": where["to_time"],
        },
    )
    assert [line["text"] for line in reversed(lines.json()["items"])] == [text for _, text in LINES]


async def test_a_receipt_outlives_what_it_names(api: Api) -> None:
    home = await new_home(api)
    key_id, _ = await api.new_key(home.project_id, "inference")
    container_id = await api.new_container(home.project_id, "gone")
    request_id = await api.new_request(home.project_id, key_id, container_id=container_id, status=503)
    await api.execute("UPDATE containers SET deleted_at = now() WHERE id = :id", id=container_id)
    await api.execute("DELETE FROM api_keys WHERE id = :id", id=key_id)
    answer = (await api.get(home.admin, f"/requests/{request_id}")).json()
    assert answer["container"] == {"id": container_id, "name": "gone", "deleted": True}
    assert answer["key"] == {"id": key_id, "name": None, "hint": None, "scope": None}
    assert (answer["replica"], answer["lines"]) == (None, None)
    assert [phase["name"] for phase in answer["phases"]] == ["answering"]
    assert_problem(await api.get(home.admin, f"/containers/{container_id}/requests"), 404, "not_found")


async def test_a_request_that_left_no_record(api: Api) -> None:
    home = await new_home(api)
    for wrong in ("req_0", "nonsense", "%00", "x" * 500):
        assert_problem(await api.get(home.admin, f"/requests/{wrong}"), 404, "not_found")


async def test_only_who_may_see_the_container_sees_its_requests(api: Api) -> None:
    """A member of the organization who has not joined the project is a stranger to it, as is anybody else."""
    home = await new_home(api)
    key_id, _ = await api.new_key(home.project_id, "inference")
    container_id = await api.new_container(home.project_id, "chat")
    replica_id = await api.new_replica(container_id)
    woken = await new_waking_request(api, home.project_id, container_id, key_id, replica_id, NOON)
    other = await new_home(api, "eve@example.com")
    colleague_id, colleague = await api.new_person("bob@example.com")
    await api.join(home.organization_id, colleague_id)
    joined_id, joined = await api.new_person("ann@example.com")
    await api.join(home.organization_id, joined_id)
    await api.execute(
        "INSERT INTO project_members (project_id, user_id) VALUES (:project, :user)",
        project=home.project_id,
        user=joined_id,
    )
    _, own_key = await api.new_key(home.project_id, "manage")
    _, foreign_key = await api.new_key(other.project_id, "manage")
    paths = (f"/requests/{woken.request_id}", f"/containers/{container_id}/requests")

    async def statuses(asker: Asker) -> list[int]:
        return [(await api.get(asker, path)).status_code for path in paths]

    for asker in (home.admin, bearer("joined", joined), bearer("own key", own_key)):
        assert await statuses(asker) == [200, 200], asker.name
    for asker in (other.admin, bearer("colleague", colleague), bearer("foreign key", foreign_key)):
        assert await statuses(asker) == [404, 404], asker.name
        absent = (await api.get(asker, "/requests/req_absent")).json()
        foreign = (await api.get(asker, paths[0])).json()
        assert {**foreign, "request_id": None} == {**absent, "request_id": None}, "as if it were not there"


async def test_the_requests_of_a_container(api: Api) -> None:
    home = await new_home(api)
    key_id, _ = await api.new_key(home.project_id, "inference", name="mobile-app")
    container_id = await api.new_container(home.project_id, "chat")
    other_id = await api.new_container(home.project_id, "other")
    replica_id, woken_replica = new_replica_id(), await api.new_replica(container_id)

    async def asked(minutes: float, **changes: object) -> str:
        values = {"container_id": container_id, "replica_id": replica_id, "status": 200, "ended": "completed"}
        began = NOON + timedelta(minutes=minutes)
        return await api.new_request(
            home.project_id, key_id, started_at=began, total_ms=2000, **(values | changes)
        )

    first, second = await asked(0), await asked(1)
    failed = await asked(2, status=500)
    cut = await asked(3, ended="client_left")
    await asked(4, container_id=other_id)
    woken = await new_waking_request(
        api, home.project_id, container_id, key_id, woken_replica, NOON + timedelta(minutes=5)
    )

    async def found(**query: object) -> list[str]:
        answer = await api.get(home.admin, f"/containers/{container_id}/requests", params=query)
        assert answer.status_code == 200, answer.text
        return [one["request_id"] for one in answer.json()["items"]]

    def at(seconds: float) -> str:
        return (NOON + timedelta(seconds=seconds)).isoformat()

    assert await found() == [woken.request_id, cut, failed, second, first]
    assert await found(failed=True) == [cut, failed]
    assert await found(**{"from": at(60), "to": at(180)}) == [failed, second]
    assert await found(instance=woken_replica) == [woken.request_id], "known to whoever held it"
    assert await found(at=at(-1)) == []
    assert [await found(at=at(seconds)) for seconds in (0, 2, 3)] == [[first]] * 3
    assert await found(at=at(3.1)) == []
    page = (await api.get(home.admin, f"/containers/{container_id}/requests", params={"limit": 3})).json()
    rest = await found(cursor=page["next_cursor"])
    assert [one["request_id"] for one in page["items"]] + rest == [
        woken.request_id,
        cut,
        failed,
        second,
        first,
    ]
    newest = page["items"][0]
    assert (newest["key_name"], newest["held_ms"], newest["path"]) == (
        "mobile-app",
        2620,
        "/api/v1/chat/completions",
    )
    for wrong in ({"at": "0001-01-01T00:00:00Z"}, {"instance": "rep_1"}, {"from": "yesterday"}):
        answer = await api.get(home.admin, f"/containers/{container_id}/requests", params=wrong)
        assert answer.status_code == 422, wrong


async def test_a_search_that_takes_too_long_is_a_clear_refusal(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of a replica that answered nothing looks through all records that there are."""
    home = await new_home(api)
    container_id = await api.new_container(home.project_id, "busy")
    monkeypatch.setattr(list_repository, "LONGEST_SEARCH_S", 0.5)
    async with api.database.transaction() as other:
        # However fast the machine searches, it does not find anything before this ends.
        await other.execute(text("LOCK TABLE request_records IN ACCESS EXCLUSIVE MODE"))
        answer = await api.get(home.admin, f"/containers/{container_id}/requests?instance={new_replica_id()}")
    assert_problem(answer, 422, "request_search_too_broad")
