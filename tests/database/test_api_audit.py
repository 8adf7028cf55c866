"""The audit log has what people and keys did to containers: by name, once, and also when these and their project are gone."""

import csv
import io
import json
from datetime import timedelta
from typing import Any

import pytest
from api_support import Api, Asker, Home, assert_problem, bearer, container_body, new_home
from api_support import api_fixture as api_fixture
from sqlalchemy.dialects import postgresql
from test_api_access import ACME, new_town

from moorage.audit.repository import _actions
from moorage.containers.activity import record_activity
from moorage.containers.models import WOKEN_BY_REQUEST
from moorage.containers.retention_repository import purge_activities
from moorage.containers.sleep.service import wake
from moorage.kit.clock import system_clock
from moorage.kit.pagination import PageRequest

SECRETS = ("hunter2-very-secret", "registry-password-1", "kept-in-the-draft")
PENDING = "/operator/replica-limit-requests?state=pending"
CONTAINER = "/api/v1/containers/{container_id}"
ACTIONS = {
    f"PATCH {CONTAINER}": "container.edit",
    f"DELETE {CONTAINER}": "container.delete",
    f"POST {CONTAINER}/start": "container.start",
    f"POST {CONTAINER}/stop": "container.stop",
    f"POST {CONTAINER}/restart": "container.restart",
    f"POST {CONTAINER}/scale": "container.scale",
    f"POST {CONTAINER}/fix": "container.fix",
    f"PUT {CONTAINER}/draft": "container.draft_save",
    f"DELETE {CONTAINER}/draft": "container.draft_discard",
    f"POST {CONTAINER}/draft/apply": "container.draft_apply",
    f"POST {CONTAINER}/rollback": "container.rollback",
    f"POST {CONTAINER}/wake": "container.wake",
    f"POST {CONTAINER}/canary": "container.canary",
    f"POST {CONTAINER}/canary/promote": "container.canary_promote",
    f"POST {CONTAINER}/canary/abort": "container.canary_abort",
    f"POST {CONTAINER}/doctor": "container.doctor",
    "DELETE /api/v1/organizations/{organization_id}/caches/{cache_id}": "cache.delete",
}


async def audit(api: Api, home: Home, **paging: Any) -> list[dict[str, Any]]:
    answer = await api.get(home.admin, f"/organizations/{home.organization_id}/audit", params=paging)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


async def deploy(api: Api, home: Home, name: str, asker: Asker | None = None, **changes: Any) -> str:
    path = f"/projects/{home.project_id}/containers"
    made = await api.post(asker or home.admin, path, container_body(name, **changes))
    assert made.status_code in (201, 202), made.text
    return str(made.json()["id"])


async def gone(api: Api, container_id: str) -> None:
    """As its reconciler leaves it when nothing of it is left."""
    await api.execute(
        "UPDATE containers SET deleted_at = now(), desired_state = 'deleted' WHERE id = :id", id=container_id
    )


async def make_ready(api: Api, route: str, container_id: str) -> None:
    """Some routes need more than a container at rest."""
    if route.endswith("/stop"):
        await api.execute("UPDATE containers SET desired_state = 'running' WHERE id = :id", id=container_id)
    if route.endswith("/wake"):
        await api.execute(
            "UPDATE containers SET desired_state = 'running', state = 'RUNNING', asleep_since = now() WHERE id = :id",
            id=container_id,
        )


@pytest.mark.parametrize("route", ACTIONS)
async def test_each_action_of_a_person_and_of_a_key_is_there_once(api: Api, route: str) -> None:
    town = await new_town(api)
    key_id, key = await api.new_key(town.acme.project_id, "manage", name="deployer")
    listed = f"/organizations/{town.acme.organization_id}/audit"
    for asker, by in ((town.askers["admin"], "person"), (bearer("key", key), "key")):
        if by == "key" and "/caches/" in route:
            continue  # Of an organization, which keys do not see.
        ids = await town.ids(town.acme, ACME, route)
        container_id = await container_of(api, ids, route)
        await make_ready(api, route, container_id)
        [(name,)] = await api.rows("SELECT name FROM containers WHERE id = :id", id=container_id)
        answer = await town.request(asker, route, ids)
        assert answer.status_code < 300, f"{by}: {answer.text}"
        items = (await api.get(town.askers["admin"], listed)).json()["items"]
        [record] = [one for one in items if one["target"] == container_id]
        assert record["action"] == ACTIONS[route]
        assert record["details"].get("name_before", record["details"]["name"]) == name
        assert record["details"]["project_id"] == town.acme.project_id
        assert record["details"]["project_name"]
        if by == "key":
            assert (record["actor"], record["actor_name"], record["actor_email"]) == (
                key_id,
                "deployer",
                None,
            )
        else:
            assert (record["actor_name"], record["actor_email"]) == (None, town.acme.admin_email)


async def container_of(api: Api, ids: dict[str, str], route: str) -> str:
    if "{cache_id}" not in route:
        return ids["container_id"]
    [(container_id,)] = await api.rows(
        "SELECT container_id FROM container_caches WHERE id = :id", id=ids["cache_id"]
    )
    return str(container_id)


async def test_names_stay_when_container_and_project_are_gone(api: Api) -> None:
    """Each as it was: a record from before a rename has the name from before."""
    home = await new_home(api)
    home = Home(
        home.admin,
        home.token,
        home.user_id,
        home.organization_id,
        await api.new_project(home.organization_id, "trials"),
    )
    _, key = await api.new_key(home.project_id, "manage", name="ci")
    container = await deploy(api, home, "chat", bearer("ci", key))
    await api.post(home.admin, f"/containers/{container}/stop")
    await api.execute("UPDATE containers SET state = 'STOPPED' WHERE id = :id", id=container)
    renamed = await api.ask(home.admin, "PATCH", f"/api/v1/containers/{container}", json={"name": "talk"})
    assert renamed.status_code == 200, renamed.text
    assert (await api.ask(home.admin, "DELETE", f"/api/v1/containers/{container}")).status_code == 202
    before = await audit(api, home)
    await gone(api, container)
    removed = await api.ask(
        home.admin, "DELETE", f"/api/v1/projects/{home.project_id}", params={"name": "trials"}
    )
    assert removed.status_code == 204, removed.text
    assert_problem(await api.get(home.admin, f"/containers/{container}/activity"), 404)
    found = await audit(api, home)
    assert found[0]["action"] == "project.remove"
    assert found[1:] == before
    actions = [
        (one["action"], one["details"]["name"], one["actor_email"] or one["actor_name"]) for one in before
    ]
    assert actions == [
        ("container.delete", "talk", "ada@example.com"),
        ("container.edit", "talk", "ada@example.com"),
        ("container.stop", "chat", "ada@example.com"),
        ("container.create", "chat", "ci"),
    ]
    assert before[1]["details"]["name_before"] == "chat"
    assert {one["details"]["project_name"] for one in before} == {"trials"}
    # Also when nothing is left of the container but what it cost.
    await api.execute("DELETE FROM container_versions")
    await api.execute("DELETE FROM hours")
    await api.execute("DELETE FROM containers WHERE id = :id", id=container)
    assert (await audit(api, home))[1:] == before
    given_up = {"name": "acme", "gives_up_microusd": 10**12}
    organization = f"/organizations/{home.organization_id}"
    ended = await api.ask(home.admin, "DELETE", f"/api/v1{organization}", params=given_up)
    assert ended.status_code == 204, ended.text
    of_operator = (await api.get(api.operator, f"/operator{organization}/audit")).json()["items"]
    assert [one for one in of_operator if one["target"] == container] == before


async def test_an_activity_of_an_earlier_version_has_the_last_name(api: Api) -> None:
    home = await new_home(api)
    container = await api.new_container(home.project_id, "whisper")
    await activity(api, home, container, home.user_id, "container.start")
    [record] = await audit(api, home)
    assert record["details"] == {"name": "whisper", "project_id": home.project_id, "project_name": "default"}


async def activity(
    api: Api, home: Home, container: str, actor: str, kind: str, message: str | None = None
) -> None:
    async with api.database.transaction() as session:
        record_activity(
            session,
            project_id=home.project_id,
            container_id=container,
            actor=actor,
            kind=kind,
            message=message,
        )


async def test_what_moorage_does_by_itself_is_not_in_it(api: Api) -> None:
    """Nor what a request does with the key that it came with: only what somebody asked for."""
    home = await new_home(api)
    container = await api.new_container(home.project_id, "chat")
    for kind in (
        "container.state",
        "container.autoscale",
        "container.stop",
        "container.sleep",
        "cache.evict",
    ):
        await activity(api, home, container, "system", kind)
    asleep = "UPDATE containers SET desired_state = 'running', state = 'RUNNING', asleep_since = now()"
    key_id, _ = await api.new_key(home.project_id, "inference")
    for by, by_request in ((key_id, True), (home.user_id, False)):
        await api.execute(asleep)
        async with api.database.transaction() as session:
            woken = await wake(
                session, container, by, by_request=by_request, settings=api.settings, clock=system_clock
            )
            assert woken.anything
    assert [(one["action"], one["actor"]) for one in await audit(api, home)] == [
        ("container.wake", home.user_id)
    ]
    rows = await api.rows("SELECT message FROM activities WHERE actor = :id", id=key_id)
    assert [tuple(row) for row in rows] == [(WOKEN_BY_REQUEST,)]


async def test_replicas_beyond_the_limit(api: Api) -> None:
    """Asked for, refused and withdrawn, of a container and of a project; with the operator's answer."""
    home = await new_home(api)
    await api.post(home.admin, f"/projects/{home.project_id}/replica-limit-requests", {"replicas": 60})
    many = {"mode": "autoscaling", "instance_type": "cpu-nano", "min_replicas": 1, "max_replicas": 40}
    container = await deploy(api, home, "chat", resources=many)
    given_up = await deploy(api, home, "trial", resources=many)
    assert (await api.ask(home.admin, "DELETE", f"/api/v1/containers/{given_up}")).status_code == 202
    for request in (await api.get(api.operator, PENDING)).json()["items"]:
        path = f"/operator/replica-limit-requests/{request['id']}/refuse"
        answer = await api.post(api.operator, path, {"answer": "No room before May"})
        assert answer.status_code == 200, answer.text
    found = await audit(api, home)
    of_container = sorted(one["action"] for one in found if one["target"] == container)
    assert of_container == ["container.create", "replica_limit.refused", "replica_limit.requested"]
    assert {one["details"]["name"] for one in found if one["target"] == container} == {"chat"}
    of_given_up = {(one["action"], one["details"]["name"]) for one in found if one["target"] == given_up}
    assert ("replica_limit.withdrawn", "trial") in of_given_up
    of_project = [one for one in found if one["target"] == home.project_id]
    assert sorted(one["action"] for one in of_project) == ["replica_limit.refused", "replica_limit.requested"]
    refused = [one for one in found if one["action"] == "replica_limit.refused"]
    assert [one["details"]["message"] for one in refused] == ["No room before May"] * 2
    assert all(one["details"].get("name") is None for one in of_project)


async def test_no_secret_is_in_it(api: Api) -> None:
    home = await new_home(api)
    private = {"provider": "docker-hub", "username": "acme", "password": SECRETS[1]}
    container = await deploy(api, home, "chat", env={"TOKEN": SECRETS[0]}, registry=private)
    draft = await api.ask(
        home.admin, "PUT", f"/api/v1/containers/{container}/draft", json={"env": {"TOKEN": SECRETS[2]}}
    )
    assert draft.status_code == 200, draft.text
    await api.post(home.admin, f"/containers/{container}/stop")
    await api.execute("UPDATE containers SET state = 'STOPPED'")
    edit = {"env": {"TOKEN": SECRETS[0] + "-2"}, "registry": private}
    assert (
        await api.ask(home.admin, "PATCH", f"/api/v1/containers/{container}", json=edit)
    ).status_code == 200
    path = f"/organizations/{home.organization_id}/audit"
    shown = (await api.get(home.admin, path)).text + (await api.get(home.admin, f"{path}/export")).text
    for action in ("container.create", "container.draft_save", "container.edit"):
        assert action in shown
    assert [secret for secret in SECRETS if secret in shown] == []


async def test_a_change_that_failed_is_not_in_it(api: Api) -> None:
    home = await new_home(api)
    await deploy(api, home, "taken")
    container = await deploy(api, home, "chat")
    await api.execute("UPDATE containers SET desired_state = 'stopped', state = 'STOPPED'")
    before = await audit(api, home)
    edited = await api.ask(home.admin, "PATCH", f"/api/v1/containers/{container}", json={"name": "taken"})
    assert edited.status_code == 409
    # Recorded first, and then there is nothing to pay it with.
    await api.execute("UPDATE credit_accounts SET available_microusd = 0")
    path = f"/projects/{home.project_id}/containers"
    assert (await api.post(home.admin, path, container_body("unpaid"))).status_code == 402
    assert await audit(api, home) == before


async def test_pages_and_csv_have_each_record_once(api: Api) -> None:
    home = await new_home(api)
    second = await api.new_project(home.organization_id, "second")
    for number in range(3):
        for project in (home.project_id, second):
            await deploy(
                api,
                Home(home.admin, home.token, home.user_id, home.organization_id, project),
                f"chat-{number}",
            )
        path = f"/organizations/{home.organization_id}/projects"
        assert (await api.post(home.admin, path, {"name": f"more-{number}"})).status_code == 201
    # All at once: then only the ids say what comes after what.
    for table in ("activities", "audit_records"):
        await api.execute(f"UPDATE {table} SET at = '2026-11-02T09:30:00Z'")
    every = await audit(api, home)
    assert sorted(one["action"] for one in every) == ["container.create"] * 6 + ["project.create"] * 3
    paged, cursor = [], None
    while cursor != "":
        answer = await api.get(
            home.admin,
            f"/organizations/{home.organization_id}/audit",
            params={"limit": 2, **({"cursor": cursor} if cursor else {})},
        )
        page = answer.json()
        paged += page["items"]
        cursor = page["next_cursor"] or ""
    assert paged == every
    exported = await api.get(home.admin, f"/organizations/{home.organization_id}/audit/export")
    rows = list(csv.DictReader(io.StringIO(exported.text)))
    assert [(row["action"], row["target"]) for row in rows] == [
        (one["action"], one["target"]) for one in every
    ]
    assert [json.loads(row["details"]) for row in rows] == [one["details"] for one in every]


async def test_who_may_read_it_and_whose_it_is(api: Api) -> None:
    home, other = await new_home(api), await new_home(api, "eve@example.com")
    await deploy(api, home, "chat")
    user_id, token = await api.new_person("ben@example.com")
    await api.join(home.organization_id, user_id)
    path = f"/organizations/{home.organization_id}/audit"
    for address in (path, f"{path}/export"):
        assert_problem(await api.get(bearer("ben", token), address), 403, "forbidden")
        assert_problem(await api.get(other.admin, address), 404)
    assert await audit(api, other) == []
    assert (await api.get(api.operator, "/operator/audit")).json()["items"] == []
    of_operator = await api.get(api.operator, f"/operator{path}")
    assert of_operator.json()["items"] == await audit(api, home)


async def test_nobody_is_told_twice(api: Api) -> None:
    """Neither in the console nor by a webhook: the log is read from what both read already."""
    home = await new_home(api)
    user_id, token = await api.new_person("ben@example.com")
    await api.join(home.organization_id, user_id, "admin")
    await api.new_webhook(home.organization_id, "https://hooks.example/all")
    await api.execute("UPDATE webhooks SET events = '{*}'")
    container = await deploy(api, home, "chat")
    await api.post(home.admin, f"/containers/{container}/stop")
    await api.post(home.admin, f"/projects/{home.project_id}/replica-limit-requests", {"replicas": 60})
    [request] = (await api.get(api.operator, "/operator/replica-limit-requests")).json()["items"]
    await api.post(api.operator, f"/operator/replica-limit-requests/{request['id']}/refuse", {"answer": "No"})
    notifications = await api.get(
        bearer("ben", token), f"/organizations/{home.organization_id}/notifications"
    )
    assert [one["event"] for one in notifications.json()["items"]] == ["replica_limit.refused"]
    sent = await api.rows("SELECT event, count(*) FROM webhook_deliveries GROUP BY event ORDER BY event")
    assert {row[0]: row[1] for row in sent if row[0].startswith(("container", "replica_limit"))} == {
        "container.create": 1,
        "container.stop": 1,
        "replica_limit.refused": 1,
        "replica_limit.requested": 1,
    }


async def test_it_ends_when_history_ends(api: Api) -> None:
    home = await new_home(api)
    await deploy(api, home, "chat")
    for kept, left in ((timedelta(days=400), 1), (timedelta(days=31), 0)):
        await api.execute("UPDATE activities SET at = now() - interval '32 days'")
        async with api.database.transaction() as session:
            await purge_activities(session, kept)
        assert len(await audit(api, home)) == left


async def test_a_page_reads_no_further_than_it_goes(api: Api) -> None:
    """What Moorage did by itself is most of the activities, and none of it is read."""
    home = await new_home(api)
    await api.execute(
        "INSERT INTO activities (id, project_id, actor, kind, details)"
        " SELECT 'act_' || number, :project, 'system', 'container.state', '{}' FROM generate_series(1, 3000) AS number",
        project=home.project_id,
    )
    await api.execute("ANALYZE activities")
    query = _actions(home.organization_id, PageRequest(100, None))
    sql = query.compile(dialect=postgresql.dialect(), compile_kwargs={"literal_binds": True})
    plan = "\n".join(str(row[0]) for row in await api.rows(f"EXPLAIN {sql}"))
    assert "ix_activities_actions" in plan, plan
    assert " on containers" not in plan, (
        "names are looked up for the page alone, not for a page of each project"
    )
