"""`GET /requests/{id}`: who may ask is in the route table; here is what the answer says."""

from api_support import Api, assert_problem, new_home
from api_support import api_fixture as api_fixture

from moorage.kit.ids import new_container_id, new_replica_id


async def test_a_request_is_told_in_numbers_and_words(api: Api) -> None:
    home = await new_home(api)
    key_id, _ = await api.new_key(home.project_id, "inference")
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
    )
    answer = (await api.get(home.admin, f"/requests/{request_id}")).json()
    assert answer == {
        "request_id": request_id,
        "project_id": home.project_id,
        "container_id": container_id,
        "key_id": key_id,
        "replica_id": replica_id,
        "started_at": "2026-01-31T12:00:00Z",
        "queue_ms": 1200,
        "connect_ms": 1,
        "first_byte_ms": 1301,
        "total_ms": 42000,
        "status": 200,
        "request_bytes": 100,
        "response_bytes": 200,
        "ended": "client_left",
        "held_ms": None,
        "phases": [],
        "explanation": [
            "The request arrived at 2026-01-31 12:00:00.000 UTC and was answered with 200; it took 42.0 s.",
            "It waited 1200 ms for a free replica.",
            f"It reached replica {replica_id} after 1 ms.",
            "The answer began 1301 ms after the request did.",
            "The client closed the connection before the answer was complete.",
            "100 bytes came in, 200 bytes went out.",
        ],
    }


async def test_a_request_that_left_no_record(api: Api) -> None:
    home = await new_home(api)
    for wrong in ("req_0", "nonsense", "%00", "x" * 500):
        assert_problem(await api.get(home.admin, f"/requests/{wrong}"), 404, "not_found")
