"""Editing a container's settings, and looking at an image before deploying it."""

from typing import Any

import httpx
import pytest
from api_support import KEYRING, SMALL, Api, Home, assert_problem, container_body, new_home
from api_support import api_fixture as api_fixture

from moorage.containers.preflight import pinned
from moorage.containers.secrets import unseal
from moorage.gateway.repository import Fingerprint, fingerprint, read_named, read_table
from moorage.gateway.table import GatewayTable
from moorage.kit.ids import ContainerId


async def stopped(api: Api, home: Home, **changes: Any) -> str:
    body = container_body(env={"KEEP": "keep-secret", "DROP": "drop-secret"}, **changes)
    created = await api.post(home.admin, f"/projects/{home.project_id}/containers", body)
    assert created.status_code == 201, created.text
    await api.execute("UPDATE containers SET state = 'STOPPED', desired_state = 'stopped'")
    return str(created.json()["id"])


async def patch(api: Api, home: Home, container_id: str, body: dict[str, Any]) -> httpx.Response:
    return await api.ask(home.admin, "PATCH", f"/api/v1/containers/{container_id}", json=body)


async def test_valid(api: Api) -> None:
    home = await new_home(api)
    container_id = await stopped(api, home)
    changes = {
        "name": "renamed",
        "image": "acme/chat:2",
        "port": 9000,
        "health_check": {"path": "/ready"},
        "limits": {"max_body_bytes": 5000, "retry_unanswered": True},
        "env": {"DROP": None, "NEW": "new-secret"},
        "resources": {"mode": "autoscaling", "instance_type": SMALL, "min_replicas": 2, "max_replicas": 3},
    }
    answer = await patch(api, home, container_id, changes)
    assert answer.status_code == 200, answer.text
    shown = answer.json()
    assert (shown["name"], shown["image"], shown["port"]) == ("renamed", "docker.io/acme/chat:2", 9000)
    assert shown["health_check"] == {"path": "/ready", "timeout_s": 300}, "what was not sent stays"
    assert shown["limits"] == {
        "max_body_bytes": 5000,
        "request_timeout_s": 600,
        "idle_timeout_s": 3600,
        "max_concurrency": 100,
        "retry_unanswered": True,
    }
    assert shown["env"] == {"KEEP": None, "NEW": None}
    assert shown["replicas"]["desired"] == 2
    assert "secret" not in answer.text
    records = (await api.get(home.admin, f"/containers/{container_id}/activity")).json()["items"]
    assert (records[0]["kind"], records[0]["actor"]) == ("container.edit", home.user_id)
    renamed = {"name": "renamed", "name_before": "chat"}
    assert records[0]["details"] == {"fields": sorted(changes), **renamed}

    # Its answer was lost, and it is sent again: nothing changes, so nothing is recorded.
    assert (await patch(api, home, container_id, changes)).status_code == 200
    again = (await api.get(home.admin, f"/containers/{container_id}/activity")).json()["items"]
    assert [one["kind"] for one in again] == [one["kind"] for one in records]
    other = await patch(api, home, container_id, {**changes, "env": {"NEW": "newer-secret"}})
    assert other.status_code == 200, "a secret alone is a change"
    changed = (await api.get(home.admin, f"/containers/{container_id}/activity")).json()["items"]
    assert len(changed) == len(records) + 1
    assert changed[0]["details"] == {"fields": ["env"], "name": "renamed"}, "not all that was sent with it"


async def test_a_variable_is_a_secret_or_plain(api: Api) -> None:
    home = await new_home(api)
    container_id = await stopped(api, home, plain_env={"LEVEL": "info", "WORKERS": "2"})

    async def shown() -> tuple[dict[str, None], dict[str, str]]:
        answer = (await api.get(home.admin, f"/containers/{container_id}")).json()
        return answer["env"], answer["plain_env"]

    async def sealed() -> dict[str, str]:
        [[secrets]] = await api.rows("SELECT secrets FROM containers WHERE id = :id", id=container_id)
        return unseal(KEYRING, container_id, secrets).environment

    assert await shown() == ({"KEEP": None, "DROP": None}, {"LEVEL": "info", "WORKERS": "2"})
    # What covers secrets in logs knows no others.
    assert await sealed() == {"KEEP": "keep-secret", "DROP": "drop-secret"}
    changes = {
        "env": {"WORKERS": "4", "KEEP": "keep-secret"},
        "plain_env": {"LEVEL": None, "DROP": "said anew", "NEW": "1"},
    }
    assert (await patch(api, home, container_id, changes)).status_code == 200
    assert await shown() == ({"KEEP": None, "WORKERS": None}, {"DROP": "said anew", "NEW": "1"})
    assert await sealed() == {"KEEP": "keep-secret", "WORKERS": "4"}
    twice = {"env": {"BOTH": "1"}, "plain_env": {"BOTH": "2"}}
    for wrong in (twice, {"plain_env": {"1": "x"}}, {"plain_env": {"A": "x" * 40_000}}):
        problem = assert_problem(await patch(api, home, container_id, wrong), 422, "invalid_input")
        assert [error["field"] for error in problem["errors"]] == ["plain_env"]
    large = {f"N{number}": "x" for number in range(150)}
    both = {"env": large, "plain_env": {f"P{name}": value for name, value in large.items()}}
    assert_problem(await patch(api, home, container_id, both), 422, "invalid_input")


async def test_the_apis_path_reaches_the_gateway(api: Api) -> None:
    home = await new_home(api)
    path = f"/projects/{home.project_id}/containers"
    plain = (await api.post(home.admin, path, container_body("plain"))).json()
    assert plain["api_path"] == "/api/v1"
    assert_problem(
        await api.post(home.admin, path, container_body("odd", api_path="/v2")), 422, "invalid_input"
    )
    container_id = await stopped(api, home, api_path="/v1")

    async def serves_v1() -> dict[str, bool]:
        async with api.database.transaction() as session:
            routes = (await read_table(session)).routes
            before = await fingerprint(session)
            named = await read_named(session, GatewayTable(), {container_id})
        assert named.routes[ContainerId(container_id)] == routes[ContainerId(container_id)]
        fingerprints.append(before)
        return {name: route.serves_v1 for name, route in routes.items()}

    fingerprints: list[Fingerprint] = []
    assert await serves_v1() == {plain["id"]: False, container_id: True}
    assert (await patch(api, home, container_id, {"api_path": "/api/v1"})).json()["api_path"] == "/api/v1"
    assert await serves_v1() == {plain["id"]: False, container_id: False}
    assert fingerprints[0] != fingerprints[1], "the agent hears of it"


async def test_settings_of_a_container_from_before_there_was_a_path(api: Api) -> None:
    home = await new_home(api)
    container_id = await stopped(api, home)
    await api.execute("UPDATE containers SET settings = settings - 'api_path'")
    assert (await api.get(home.admin, f"/containers/{container_id}")).json()["api_path"] == "/api/v1"
    assert (await patch(api, home, container_id, {"port": 9000})).json()["api_path"] == "/api/v1"


async def test_a_known_servers_settings_are_proposed(api: Api) -> None:
    home = await new_home(api)
    path = f"/projects/{home.project_id}/containers/proposal"
    known = (await api.get(home.admin, f"{path}?image=vllm/vllm-openai:v1")).json()["proposal"]
    assert (known["server"], known["api_path"], known["port"], known["health_path"]) == (
        "vLLM",
        "/v1",
        8000,
        "/health",
    )
    assert (await api.get(home.admin, f"{path}?image=acme/chat:1")).json() == {"proposal": None}
    assert_problem(await api.get(home.admin, f"{path}?image=UPPER"), 422, "invalid_input")


async def test_nothing_sent_changes_nothing(api: Api) -> None:
    home = await new_home(api)
    registry = {"provider": "github", "username": "ada", "password": "pass-word"}
    container_id = await stopped(api, home, registry=registry, start_command="serve --fast", category="chat")
    before = (await api.get(home.admin, f"/containers/{container_id}")).json()
    after = (await patch(api, home, container_id, {})).json()
    assert after == before


async def test_registry_credentials_stay_until_they_are_cleared(api: Api) -> None:
    home = await new_home(api)
    registry = {"provider": "github", "username": "ada", "password": "pass-word"}
    container_id = await stopped(api, home, registry=registry)
    kept = (await patch(api, home, container_id, {"image": "acme/chat:3"})).json()
    assert kept["registry"] == {"provider": "github", "username": "ada", "has_password": True}
    cleared = await patch(api, home, container_id, {"registry": {"username": None, "password": None}})
    assert cleared.json()["registry"] == {"provider": "github", "username": None, "has_password": False}
    half = await patch(api, home, container_id, {"registry": {"username": "ada"}})
    assert_problem(half, 422, "invalid_input")


@pytest.mark.parametrize("state", ["PENDING", "PULLING", "STARTING", "RUNNING", "STOPPING"])
@pytest.mark.long
async def test_not_stopped(api: Api, state: str) -> None:
    home = await new_home(api)
    container_id = await stopped(api, home)
    await api.execute(f"UPDATE containers SET state = '{state}'")
    problem = assert_problem(
        await patch(api, home, container_id, {"port": 1234}), 409, "container_not_stopped"
    )
    assert state in problem["detail"]
    assert (await api.get(home.admin, f"/containers/{container_id}")).json()["port"] is None


async def test_failed_counts_as_stopped(api: Api) -> None:
    home = await new_home(api)
    container_id = await stopped(api, home)
    await api.execute(
        "UPDATE containers SET state = 'FAILED', desired_state = 'running', failed_generation = generation"
    )
    assert (await patch(api, home, container_id, {"port": 1234})).json()["port"] == 1234


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": "<b>"}, "name"),
        ({"image": "NOT VALID"}, "image"),
        ({"env": {"1": "x"}}, "env"),
        ({"port": 0}, "port"),
        ({"health_check": {"path": "no-slash"}}, "health_check.path"),
        ({"resources": {"mode": "general", "instance_type": "gold"}}, "resources.instance_type"),
        ({"surprise": 1}, "surprise"),
    ],
)
async def test_bad_field(api: Api, body: dict[str, Any], field: str) -> None:
    home = await new_home(api)
    container_id = await stopped(api, home)
    before = (await api.get(home.admin, f"/containers/{container_id}")).json()
    problem = assert_problem(await patch(api, home, container_id, body), 422)
    assert [error["field"] for error in problem["errors"]] == [field]
    assert (await api.get(home.admin, f"/containers/{container_id}")).json() == before


async def test_private_registries_are_refused_on_edit_as_on_create(api: Api) -> None:
    home = await new_home(api)
    container_id = await stopped(api, home)
    for image in ("127.0.0.1:5000/x:1", "169.254.169.254/x:1", "0x7f.1/x:1", "localhost/x:1"):
        body = {"image": image, "registry": {"provider": "other"}}
        assert_problem(await patch(api, home, container_id, body), 422)
        created = await api.post(
            home.admin, f"/projects/{home.project_id}/containers", container_body("other", **body)
        )
        assert_problem(created, 422)
        asked = await api.post(home.admin, f"/projects/{home.project_id}/containers/preflight", body)
        assert_problem(asked, 422)


async def test_name_taken(api: Api) -> None:
    home = await new_home(api)
    container_id = await stopped(api, home)
    await api.new_container(home.project_id, "taken")
    assert_problem(await patch(api, home, container_id, {"name": "taken"}), 409, "name_taken")


async def test_preflight_needs_to_know_the_machines(api: Api) -> None:
    home = await new_home(api)
    path = f"/projects/{home.project_id}/containers/preflight"
    assert_problem(await api.post(home.admin, path, {"image": "acme/chat"}), 503, "unavailable")
    local = await api.post(home.admin, path, {"image": "local/chat", "registry": {"provider": "local"}})
    assert (local.status_code, local.json()["ok"], local.json()["image"]) == (200, True, "local/chat:latest")


@pytest.mark.parametrize(
    ("image", "complete"),
    [
        ("ghcr.io/acme/chat:1", "ghcr.io/acme/chat@sha256:x"),
        ("r.example.com:5000/a/b:c", "r.example.com:5000/a/b@sha256:x"),
        ("quay.io/a/b@sha256:old", "quay.io/a/b@sha256:x"),
    ],
)
def test_a_pinned_image_keeps_its_repository(image: str, complete: str) -> None:
    assert pinned(image, "sha256:x") == complete
