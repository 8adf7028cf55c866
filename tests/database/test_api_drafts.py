"""Drafts through the API: saving, looking, discarding, and when they can be applied."""

from typing import Any

import httpx
import pytest
from api_support import SMALL, Api, Home, assert_problem, container_body, new_home
from api_support import api_fixture as api_fixture


async def deployed(api: Api, home: Home, state: str = "RUNNING", **changes: Any) -> str:
    body = container_body(env={"KEEP": "keep-secret", "DROP": "drop-secret"}, **changes)
    created = await api.post(home.admin, f"/projects/{home.project_id}/containers", body)
    assert created.status_code == 201, created.text
    await api.execute(
        "UPDATE containers SET state = :state, serving_generation = generation, image_ref = 'sha256:1',"
        " image_generation = generation, port = 8000, reconcile_at = NULL",
        state=state,
    )
    return str(created.json()["id"])


async def save(api: Api, home: Home, container_id: str, body: dict[str, Any]) -> httpx.Response:
    return await api.ask(home.admin, "PUT", f"/api/v1/containers/{container_id}/draft", json=body)


async def test_saved_shown_and_discarded(api: Api) -> None:
    home = await new_home(api)
    container_id = await deployed(api, home)
    path = f"/containers/{container_id}"
    before = (await api.get(home.admin, path)).json()
    draft = {
        "image": "acme/chat:2",
        "env": {"DROP": None, "NEW": "new-secret"},
        "resources": {
            "mode": "autoscaling",
            "instance_type": "cpu-small",
            "min_replicas": 2,
            "max_replicas": 2,
        },
    }
    saved = await save(api, home, container_id, draft)
    assert saved.status_code == 200, saved.text
    shown = saved.json()
    changes = {one["field"]: (one["from"], one["to"]) for one in shown["changes"]}
    assert changes["image"] == ("docker.io/acme/chat:1", "docker.io/acme/chat:2")
    assert changes["resources.instance_type"] == (SMALL, "cpu-small")
    assert (changes["env.DROP"], changes["env.NEW"]) == (("***", None), (None, "***"))
    assert "env.KEEP" not in changes
    assert shown["price_per_hour_microusd"] == {"from": 5_000, "to": 10_000}
    assert shown["least_cost_per_hour_microusd"] == {"from": 5_000, "to": 20_000}
    assert (shown["saved_by"], shown["applying"]) == (home.user_id, False)
    assert (await api.get(home.admin, f"{path}/draft")).json() == shown
    after = (await api.get(home.admin, path)).json()
    assert after.pop("draft")["saved_by"] == home.user_id
    assert before.pop("draft") is None
    assert after == before, "a draft changes nothing else"
    assert "secret" not in "".join(api.answers)
    assert "new-secret" not in await api.dump()

    discarded = await api.ask(home.admin, "DELETE", f"/api/v1{path}/draft")
    assert discarded.status_code == 204
    assert (await api.get(home.admin, f"{path}/draft")).json()["changes"] == []
    kinds = [one["kind"] for one in (await api.get(home.admin, f"{path}/activity")).json()["items"]]
    assert kinds[:2] == ["container.draft_discard", "container.draft_save"]


async def test_a_draft_is_checked_as_a_new_container_is(api: Api) -> None:
    home = await new_home(api)
    container_id = await deployed(api, home)
    wrong = {"image": "Wrong Image", "health_check": {"path": "no-slash"}}
    problem = assert_problem(await save(api, home, container_id, wrong), 422, "invalid_input")
    assert {one["field"] for one in problem["errors"]} == {"image", "health_check.path"}
    assert (await api.get(home.admin, f"/containers/{container_id}")).json()["draft"] is None
    assert_problem(await save(api, home, container_id, {"name": "other"}), 422, "invalid_input")


async def test_a_draft_says_nothing_about_other_fields(api: Api) -> None:
    """What changes between saving and applying stays changed."""
    home = await new_home(api)
    container_id = await deployed(api, home, "STOPPED")
    await api.execute("UPDATE containers SET desired_state = 'stopped'")
    await save(api, home, container_id, {"port": 9000})
    await api.ask(home.admin, "PATCH", f"/api/v1/containers/{container_id}", json={"category": "chat"})
    applied = await api.post(home.admin, f"/containers/{container_id}/draft/apply")
    assert (applied.json()["port"], applied.json()["category"]) == (9000, "chat")


async def test_applied_to_a_stopped_container_it_is_an_edit_and_a_start(api: Api) -> None:
    home = await new_home(api)
    container_id = await deployed(api, home, "STOPPED")
    await api.execute("UPDATE containers SET desired_state = 'stopped'")
    await save(api, home, container_id, {"image": "acme/chat:2"})
    applied = await api.post(home.admin, f"/containers/{container_id}/draft/apply")
    assert applied.status_code == 202, applied.text
    shown = applied.json()
    assert (shown["image"], shown["state"], shown["draft"]) == ("docker.io/acme/chat:2", "PENDING", None)


async def test_applied_to_a_running_container_nothing_changes_yet(api: Api) -> None:
    home = await new_home(api)
    container_id = await deployed(api, home)
    path = f"/containers/{container_id}"
    await save(api, home, container_id, {"image": "acme/chat:2"})
    applied = await api.post(home.admin, f"{path}/draft/apply")
    assert applied.status_code == 202, applied.text
    shown = applied.json()
    assert (shown["image"], shown["state"]) == ("docker.io/acme/chat:1", "RUNNING")
    assert shown["draft"]["applying"] is True
    assert [one["field"] for one in (await api.get(home.admin, f"{path}/draft")).json()["changes"]] == [
        "image"
    ]
    for method, change in (
        ("PUT", "draft"),
        ("DELETE", "draft"),
        ("POST", "draft/apply"),
        ("POST", "restart"),
    ):
        how = {"json": {"port": 1}} if method == "PUT" else {}
        refused = await api.ask(home.admin, method, f"/api/v1{path}/{change}", **how)
        assert_problem(refused, 409, "draft_being_applied")
    stopped = (await api.post(home.admin, f"{path}/stop")).json()
    assert (stopped["draft"]["applying"], stopped["image"]) == (False, "docker.io/acme/chat:1")


async def test_while_suspended_nothing_is_applied(api: Api) -> None:
    home = await new_home(api)
    container_id = await deployed(api, home)
    await save(api, home, container_id, {"image": "acme/chat:2"})
    await api.execute("UPDATE organizations SET suspended_at = now() WHERE id = :id", id=home.organization_id)
    refused = await api.post(home.admin, f"/containers/{container_id}/draft/apply")
    assert_problem(refused, 403, "suspended")


async def test_there_is_no_draft(api: Api) -> None:
    home = await new_home(api)
    container_id = await deployed(api, home)
    assert_problem(await api.post(home.admin, f"/containers/{container_id}/draft/apply"), 409, "no_draft")
    discarded = await api.ask(home.admin, "DELETE", f"/api/v1/containers/{container_id}/draft")
    assert discarded.status_code == 204


@pytest.mark.parametrize("state", ["PENDING", "STARTING", "STOPPING"])
async def test_only_what_is_settled_takes_a_draft(api: Api, state: str) -> None:
    home = await new_home(api)
    container_id = await deployed(api, home, state)
    await save(api, home, container_id, {"port": 9000})
    refused = await api.post(home.admin, f"/containers/{container_id}/draft/apply")
    assert state in assert_problem(refused, 409, "container_not_settled")["detail"]


async def test_a_failed_restart_cannot_be_gone_back_to(api: Api) -> None:
    home = await new_home(api)
    container_id = await deployed(api, home)
    await save(api, home, container_id, {"port": 9000})
    await api.execute("UPDATE containers SET generation = 2, failed_generation = 2")
    refused = await api.post(home.admin, f"/containers/{container_id}/draft/apply")
    assert_problem(refused, 409, "container_not_settled")
