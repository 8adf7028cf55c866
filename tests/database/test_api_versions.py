"""History through the API: who changed what, when one can go back, and what an update needs."""

from typing import Any

from api_support import SMALL, Api, Home, assert_problem, new_home
from api_support import api_fixture as api_fixture
from test_api_drafts import deployed, save


async def versions(api: Api, home: Home, container_id: str, **query: Any) -> dict[str, Any]:
    answer = await api.ask(home.admin, "GET", f"/api/v1/containers/{container_id}/versions", params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def apply(api: Api, home: Home, container_id: str, body: Any) -> Any:
    return await api.post(home.admin, f"/containers/{container_id}/draft/apply", body)


async def test_every_edit_is_a_version_and_no_secret_is_told(api: Api) -> None:
    home = await new_home(api)
    container_id = await deployed(api, home, state="STOPPED")
    await api.execute("UPDATE containers SET desired_state = 'stopped'")
    path = f"/api/v1/containers/{container_id}"
    for body in ({"env": {"KEEP": "other-secret"}}, {"port": 9000}, {"name": "renamed"}):
        answer = await api.ask(home.admin, "PATCH", path, json=body)
        assert answer.status_code == 200, answer.text
    found = (await versions(api, home, container_id))["items"]
    assert [one["version"] for one in found] == [3, 2, 1], "a name is no setting of what runs"
    assert found[0]["changes"] == [{"field": "port", "from": None, "to": 9000}]
    assert found[1]["changes"] == [{"field": "env.KEEP", "from": "***", "to": "***"}]
    assert {one["created_by"] for one in found} == {home.user_id}
    assert {(one["strategy"], one["outcome"], one["served_s"]) for one in found} == {(None, None, 0)}
    assert "secret" not in "".join(api.answers)
    page = await versions(api, home, container_id, limit=2)
    rest = await versions(api, home, container_id, limit=2, cursor=page["next_cursor"])
    assert [one["version"] for one in (*page["items"], *rest["items"])] == [3, 2, 1]
    assert rest["next_cursor"] is None


async def test_an_update_is_a_version_from_the_moment_it_is_asked_for(api: Api) -> None:
    home = await new_home(api)
    container_id = await deployed(api, home)
    saved = (await save(api, home, container_id, {"image": "acme/chat:2"})).json()
    needs = saved["rolling"]
    assert (needs["cost_microusd"], needs["beside_at_least"], needs["beside_at_most"]) == (0, 1, 1)
    assert_problem(await apply(api, home, container_id, {"strategy": "boldly"}), 422, "invalid_input")
    assert (await versions(api, home, container_id))["items"][0]["version"] == 1
    applied = await apply(api, home, container_id, {"strategy": "rolling"})
    assert applied.status_code == 202, applied.text
    rollout = applied.json()["rollout"]
    assert (rollout["strategy"], rollout["version"], rollout["from_version"]) == ("rolling", 2, 1)
    assert (applied.json()["version"], rollout["beside"]) == (1, False), (
        "the settings are those from before until then"
    )
    newest = (await versions(api, home, container_id))["items"][0]
    assert (newest["version"], newest["strategy"], newest["outcome"]) == (2, "rolling", None)
    assert_problem(await apply(api, home, container_id, {"strategy": "rolling"}), 409, "draft_being_applied")


async def test_another_type_costs_hours_and_says_so(api: Api) -> None:
    home = await new_home(api)
    container_id = await deployed(api, home)
    resources = {"mode": "autoscaling", "instance_type": "cpu-small", "min_replicas": 2, "max_replicas": 2}

    async def costs(**changes: Any) -> tuple[int, int]:
        saved = (await save(api, home, container_id, {"resources": {**resources, **changes}})).json()
        return saved["rolling"]["cost_microusd"], saved["replace_cost_microusd"]

    assert await costs() == (2 * 10_000, 2 * 10_000)
    assert await costs(instance_type=SMALL, min_replicas=1) == (0, 0), "the hour of its slot"
    assert await costs(instance_type=SMALL) == (5_000, 5_000), "and one of the second slot"
    # One that stops and starts begins with the fewest.
    await api.execute("UPDATE containers SET desired_replicas = 2")
    assert await costs(min_replicas=1) == (2 * 10_000, 10_000)
    # An hour of that type is left over from before.
    await api.execute(
        "INSERT INTO hours (id, organization_id, project_id, container_id, instance_type, slot, price_microusd, state, "
        "bought_at, begins_at, length, expires_at, due_at) SELECT 'hour_left', organization_id, project_id, container_id, "
        "'cpu-small', 0, 10000, 'paid', now(), now(), interval '1 hour', now() + interval '1 hour', now() + interval '50 minutes' "
        "FROM hours WHERE container_id = :id AND state = 'held'",
        id=container_id,
    )
    assert await costs() == (10_000, 10_000)


async def test_where_one_cannot_go_back_to(api: Api) -> None:
    home = await new_home(api)
    container_id = await deployed(api, home)
    path = f"/containers/{container_id}/rollback"
    assert_problem(await api.post(home.admin, path, {"version": 7}), 404, "not_found")
    assert_problem(await api.post(home.admin, path, {"version": 1}), 409, "version_is_present")
    await save(api, home, container_id, {"image": "acme/chat:2"})
    await api.execute("UPDATE containers SET state = 'STOPPED', desired_state = 'stopped'")
    assert (await apply(api, home, container_id, None)).status_code == 202
    await api.execute("UPDATE containers SET state = 'FAILED', failed_generation = generation")
    assert_problem(await api.post(home.admin, path, {"version": 1}), 409, "version_never_ran")
    await api.execute(
        'UPDATE container_versions SET image = \'{"ref": "sha256:1", "digest": "sha256:2", "port": 8000,'
        ' "gpu_environment": null}\' WHERE version = 1'
    )
    back = await api.post(home.admin, path, {"version": 1})
    assert back.status_code == 202, back.text
    assert (back.json()["version"], back.json()["image"]) == (3, "docker.io/acme/chat:1")
    rows = await api.rows("SELECT image_ref, image_digest, image_generation = generation FROM containers")
    assert [tuple(row) for row in rows] == [("sha256:1", "sha256:2", True)]
