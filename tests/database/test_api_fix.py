"""Accepting the fix that a failed container offers."""

import json
from typing import Any

import pytest
from api_support import SMALL, Api, Home, assert_problem, container_body, new_home
from api_support import api_fixture as api_fixture

FIX = {"field": "port", "from": 8000, "to": 9000}


async def failed(api: Api, home: Home, fix: dict[str, Any] | None = FIX, **changes: Any) -> str:
    created = await api.post(home.admin, f"/projects/{home.project_id}/containers", container_body(**changes))
    assert created.status_code == 201, created.text
    await api.execute(
        "UPDATE containers SET state = 'FAILED', failed_generation = generation, failure_reason = 'exited',"
        " failure_fix = CAST(:fix AS jsonb)",
        fix=json.dumps(fix) if fix else None,
    )
    return str(created.json()["id"])


@pytest.mark.parametrize(
    ("fix", "where", "value"),
    [
        (FIX, "port", 9000),
        (
            {"field": "health_check.timeout_s", "from": 60, "to": 120},
            "health_check",
            {"path": "/ready", "timeout_s": 120},
        ),
        (
            {"field": "resources.instance_type", "from": SMALL, "to": "cpu-small"},
            "resources",
            {
                "mode": "autoscaling",
                "instance_type": "cpu-small",
                "min_replicas": 2,
                "max_replicas": 3,
                "target_concurrency": 4,
                "scale_down_delay_s": 300,
            },
        ),
    ],
)
async def test_valid(api: Api, fix: dict[str, Any], where: str, value: Any) -> None:
    home = await new_home(api)
    resources = {"mode": "autoscaling", "instance_type": SMALL, "min_replicas": 2, "max_replicas": 3}
    health = {"path": "/ready", "timeout_s": 60}
    container_id = await failed(api, home, fix, resources=resources, health_check=health, env={"A": "b"})
    path = f"/containers/{container_id}"
    assert (await api.get(home.admin, path)).json()["fix"] == fix
    answer = await api.post(home.admin, f"{path}/fix", fix)
    assert answer.status_code == 202, answer.text
    shown = answer.json()
    assert (shown[where], shown["fix"], shown["state"]) == (value, None, "PENDING")
    assert (shown["generation"], shown["env"]) == (2, {"A": None})
    record = (await api.get(home.admin, f"{path}/activity")).json()["items"][0]
    assert (record["kind"], record["actor"]) == ("container.fix", home.user_id)
    assert record["details"] == {"generation": 2, "name": "chat", **fix}


async def test_another_fix_than_the_one_shown(api: Api) -> None:
    home = await new_home(api)
    container_id = await failed(api, home)
    answer = await api.post(home.admin, f"/containers/{container_id}/fix", {**FIX, "to": 9001})
    assert_problem(answer, 409, "fix_changed")
    assert (await api.get(home.admin, f"/containers/{container_id}")).json()["port"] is None


async def test_there_is_none(api: Api) -> None:
    home = await new_home(api)
    container_id = await failed(api, home, None)
    assert_problem(await api.post(home.admin, f"/containers/{container_id}/fix"), 409, "no_fix")


async def test_the_settings_changed_since(api: Api) -> None:
    home = await new_home(api)
    path = f"/containers/{await failed(api, home)}"
    edited = await api.ask(home.admin, "PATCH", f"/api/v1{path}", json={"image": "acme/chat:2"})
    assert edited.json()["fix"] is None
    assert_problem(await api.post(home.admin, f"{path}/fix", FIX), 409, "no_fix")


async def test_a_container_that_runs(api: Api) -> None:
    home = await new_home(api)
    container_id = await failed(api, home)
    await api.execute("UPDATE containers SET state = 'STARTING'")
    assert_problem(
        await api.post(home.admin, f"/containers/{container_id}/fix"), 409, "container_not_stopped"
    )


async def test_a_started_container_offers_the_old_fix_no_more(api: Api) -> None:
    home = await new_home(api)
    path = f"/containers/{await failed(api, home)}"
    started = await api.post(home.admin, f"{path}/start")
    assert (started.status_code, started.json()["fix"]) == (202, None)
