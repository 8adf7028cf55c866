"""More replicas than the limit: asked for, granted, refused."""

from typing import Any

from api_support import SMALL, Api, Home, assert_problem, container_body, new_home
from api_support import api_fixture as api_fixture

from moorage.containers.replica_limits.service import MOST_WAITING


def wide(replicas: int, name: str = "wide") -> dict[str, Any]:
    resources = {"mode": "autoscaling", "instance_type": SMALL, "min_replicas": 1, "max_replicas": replicas}
    return container_body(name, resources=resources)


async def requests(api: Api, home: Home) -> list[dict[str, Any]]:
    answer = await api.get(home.admin, f"/projects/{home.project_id}/replica-limit-requests")
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


async def decide(api: Api, request_id: str, verb: str, answer: str | None = None) -> Any:
    body = {"answer": answer} if answer else None
    return await api.post(api.operator, f"/operator/replica-limit-requests/{request_id}/{verb}", body)


async def test_thirty_need_nobody(api: Api) -> None:
    home = await new_home(api)
    created = await api.post(home.admin, f"/projects/{home.project_id}/containers", wide(30))
    assert (created.status_code, created.json()["reason"]) == (201, None)
    assert await requests(api, home) == []


async def test_above_thirty_waits_and_asks(api: Api) -> None:
    home = await new_home(api)
    created = await api.post(home.admin, f"/projects/{home.project_id}/containers", wide(40))
    assert created.status_code == 202, created.text
    shown = created.json()
    assert (shown["state"], shown["reason"]) == ("PENDING", "awaiting_approval")
    assert "40 replicas" in shown["message"]
    [request] = await requests(api, home)
    assert (request["container_id"], request["replicas"], request["state"]) == (shown["id"], 40, "pending")
    listed = (await api.get(api.operator, "/operator/replica-limit-requests?state=pending")).json()["items"]
    assert [one["id"] for one in listed] == [request["id"]]
    assert (listed[0]["organization_id"], listed[0]["current_limit"]) == (home.organization_id, 30)

    approved = await decide(api, request["id"], "approve")
    assert (approved.status_code, approved.json()["current_limit"]) == (200, 40)
    assert_problem(await decide(api, request["id"], "refuse"), 409, "already_decided")
    again = await api.post(home.admin, f"/projects/{home.project_id}/containers", wide(40, "second"))
    assert again.status_code == 201, "the project may have forty now"


async def test_refused_and_asked_again(api: Api) -> None:
    home = await new_home(api)
    created = await api.post(home.admin, f"/projects/{home.project_id}/containers", wide(40))
    container_id = created.json()["id"]
    [request] = await requests(api, home)
    refused = await decide(api, request["id"], "refuse", "The GPUs are all taken.")
    assert (refused.json()["state"], refused.json()["current_limit"]) == ("refused", 30)
    await api.execute("UPDATE containers SET state = 'FAILED', failed_generation = generation")
    started = await api.post(home.admin, f"/containers/{container_id}/start")
    assert (started.status_code, started.json()["reason"]) == (202, "awaiting_approval")
    assert [one["state"] for one in await requests(api, home)] == ["pending", "refused"]
    activity = (await api.get(home.admin, f"/containers/{container_id}/activity")).json()["items"]
    assert {"replica_limit.requested", "replica_limit.refused"} <= {one["kind"] for one in activity}


async def test_asked_ahead(api: Api) -> None:
    home = await new_home(api)
    path = f"/projects/{home.project_id}/replica-limit-requests"
    asked = await api.post(home.admin, path, {"replicas": 50, "note": "launch"})
    assert asked.status_code == 201, asked.text
    assert (await decide(api, asked.json()["id"], "approve")).status_code == 200
    assert_problem(await api.post(home.admin, path, {"replicas": 50}), 409, "replica_limit_suffices")
    assert_problem(await api.post(home.admin, path, {"replicas": 1001}), 422, "invalid_input")


async def test_a_draft_does_not_stop_what_runs_to_wait(api: Api) -> None:
    home = await new_home(api)
    created = await api.post(home.admin, f"/projects/{home.project_id}/containers", container_body())
    container_id = created.json()["id"]
    await api.execute("UPDATE containers SET state = 'RUNNING', serving_generation = generation")
    body = {"resources": wide(40)["resources"]}
    saved = await api.ask(home.admin, "PUT", f"/api/v1/containers/{container_id}/draft", json=body)
    assert saved.status_code == 200, saved.text
    applied = await api.post(home.admin, f"/containers/{container_id}/draft/apply")
    assert_problem(applied, 409, "replica_limit")


async def scale(api: Api, home: Home, container_id: str, **policy: int) -> Any:
    return await api.post(home.admin, f"/containers/{container_id}/scale", policy)


async def running(api: Api, home: Home) -> str:
    created = await api.post(home.admin, f"/projects/{home.project_id}/containers", wide(20))
    await api.execute("UPDATE containers SET state = 'RUNNING', reason = NULL, message = NULL")
    container_id: str = created.json()["id"]
    return container_id


async def test_one_that_runs_scales_on_once_it_may(api: Api) -> None:
    home = await new_home(api)
    container_id = await running(api, home)
    asked = await scale(api, home, container_id, max_replicas=40, min_replicas=2)
    assert (asked.status_code, asked.json()["reason"]) == (202, "awaiting_approval"), asked.text
    assert "scales as before" in asked.json()["message"]
    shown = (await api.get(home.admin, f"/containers/{container_id}")).json()
    assert (shown["state"], shown["reason"], shown["resources"]["max_replicas"]) == ("RUNNING", None, 20)
    again = await scale(api, home, container_id, max_replicas=50)
    assert again.json()["reason"] == "awaiting_approval"
    [request] = await requests(api, home)
    assert (request["replicas"], request["container_id"]) == (50, container_id), "one request, the last wish"

    approved = await decide(api, request["id"], "approve")
    assert approved.json()["current_limit"] == 50
    shown = (await api.get(home.admin, f"/containers/{container_id}")).json()
    assert shown["resources"]["max_replicas"] == 50
    kinds = [
        one["kind"]
        for one in (await api.get(home.admin, f"/containers/{container_id}/activity")).json()["items"]
    ]
    assert set(kinds[:2]) == {"container.scale", "replica_limit.approved"}
    within = await scale(api, home, container_id, max_replicas=45)
    assert (within.json()["reason"], within.json()["resources"]["max_replicas"]) == (None, 45)


async def test_one_that_runs_stays_as_it_is_when_refused(api: Api) -> None:
    home = await new_home(api)
    container_id = await running(api, home)
    await scale(api, home, container_id, max_replicas=40)
    [request] = await requests(api, home)
    await decide(api, request["id"], "refuse", "The GPUs are all taken.")
    shown = (await api.get(home.admin, f"/containers/{container_id}")).json()
    assert (shown["state"], shown["resources"]["max_replicas"]) == ("RUNNING", 20)
    assert (await scale(api, home, container_id, max_replicas=1001)).status_code == 422


async def test_one_that_is_stopped_asks_when_it_starts(api: Api) -> None:
    home = await new_home(api)
    container_id = await api.new_container(home.project_id, "chat")
    scaled = await scale(api, home, container_id, max_replicas=40)
    assert (scaled.json()["resources"]["max_replicas"], scaled.json()["reason"]) == (40, None)
    assert await requests(api, home) == []
    started = await api.post(home.admin, f"/containers/{container_id}/start")
    assert started.json()["reason"] == "awaiting_approval"
    assert len(await requests(api, home)) == 1


async def test_an_approval_does_not_override_a_newer_choice(api: Api) -> None:
    home = await new_home(api)
    container_id = await running(api, home)
    await scale(api, home, container_id, max_replicas=40)
    [request] = await requests(api, home)
    chosen = await scale(api, home, container_id, max_replicas=5)
    assert chosen.json()["resources"]["max_replicas"] == 5
    [request] = await requests(api, home)
    assert request["state"] == "withdrawn"
    assert_problem(await decide(api, request["id"], "approve"), 409, "already_decided")
    shown = (await api.get(home.admin, f"/containers/{container_id}")).json()
    assert shown["resources"]["max_replicas"] == 5


async def test_asking_for_what_there_is_calls_off_the_wish_for_more(api: Api) -> None:
    home = await new_home(api)
    container_id = await running(api, home)
    await scale(api, home, container_id, max_replicas=40)
    await scale(api, home, container_id, max_replicas=20)
    assert [one["state"] for one in await requests(api, home)] == ["withdrawn"]


async def test_new_settings_and_a_delete_call_off_the_wish_for_more(api: Api) -> None:
    home = await new_home(api)
    edited, deleted = await running(api, home), await api.new_container(home.project_id, "other")
    await api.execute("UPDATE containers SET desired_state = 'running', state = 'RUNNING'")
    for container_id in (edited, deleted):
        assert (await scale(api, home, container_id, max_replicas=40)).status_code == 202
    await api.execute(
        f"UPDATE containers SET state = 'STOPPED', desired_state = 'stopped' WHERE id = '{edited}'"
    )
    patch = {"resources": wide(4)["resources"]}
    assert (await api.ask(home.admin, "PATCH", f"/api/v1/containers/{edited}", json=patch)).status_code == 200
    assert (await api.ask(home.admin, "DELETE", f"/api/v1/containers/{deleted}")).status_code == 202
    assert [one["state"] for one in await requests(api, home)] == ["withdrawn", "withdrawn"]


async def test_one_that_waits_to_start_and_wants_still_more_goes_on_asking(api: Api) -> None:
    home = await new_home(api)
    created = await api.post(home.admin, f"/projects/{home.project_id}/containers", wide(40))
    container_id = created.json()["id"]
    same = await scale(api, home, container_id, max_replicas=40)
    assert same.status_code == 200, "nothing changed"
    assert [one["state"] for one in await requests(api, home)] == ["pending"]
    await scale(api, home, container_id, max_replicas=50)
    pending = [one for one in await requests(api, home) if one["state"] == "pending"]
    assert [one["replicas"] for one in pending] == [50], "or nobody could ever allow it"


async def test_few_wait_for_the_operator_at_once(api: Api) -> None:
    """The operator reads all of them: no project fills the list."""
    home = await new_home(api)
    path = f"/projects/{home.project_id}/replica-limit-requests"
    for number in range(MOST_WAITING):
        assert (await api.post(home.admin, path, {"replicas": 31 + number})).status_code == 201
    assert_problem(await api.post(home.admin, path, {"replicas": 40}), 409, "too_many_limit_requests")
    asked = (await api.get(api.operator, "/operator/replica-limit-requests?state=pending")).json()["items"]
    await decide(api, asked[0]["id"], "refuse")
    assert (await api.post(home.admin, path, {"replicas": 40})).status_code == 201
