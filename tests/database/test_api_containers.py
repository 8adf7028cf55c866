"""Containers over the management API. The reconciler does not run here: what is asked for is written down, no more."""

import asyncio
import base64
import json
from typing import Any

import pytest
from api_support import (
    SMALL,
    Api,
    assert_problem,
    bearer,
    container_body,
    new_home,
)
from api_support import api_fixture as api_fixture

CANARY = "canary-5up3r-s3cret"


def autoscaling(**changes: Any) -> dict[str, Any]:
    return {
        "mode": "autoscaling",
        "instance_type": SMALL,
        "min_replicas": 1,
        "max_replicas": 2,
        **changes,
    }


async def test_valid(api: Api) -> None:
    home = await new_home(api)
    body = container_body(
        category="chat",
        registry={"provider": "github", "username": "ada", "password": CANARY},
        resources=autoscaling(max_replicas=5),
        start_command="serve --model 'a b'",
        port=8080,
        health_check={"path": "/health", "timeout_s": 60},
        env={"TOKEN": CANARY, "PORT": "1"},
        infrastructure="any",
        accept_exposure=True,
    )
    answer = await api.post(home.admin, f"/projects/{home.project_id}/containers", body)
    assert answer.status_code == 201, answer.text
    shown = answer.json()
    assert answer.headers["location"] == f"/api/v1/containers/{shown['id']}"
    assert shown["image"] == "ghcr.io/acme/chat:1"
    assert shown["env"] == {"TOKEN": None, "PORT": None}
    assert shown["registry"] == {"provider": "github", "username": "ada", "has_password": True}
    assert (shown["state"], shown["generation"], shown["replicas"]) == (
        "PENDING",
        1,
        {"desired": 1, "ready": 0},
    )
    assert shown["endpoint_url"] == f"http://127.0.0.1:8081/c/{shown['id']}"
    assert (await api.get(home.admin, f"/containers/{shown['id']}")).json() == shown
    listed = (await api.get(home.admin, f"/projects/{home.project_id}/containers")).json()
    assert listed == {"items": [shown], "next_cursor": None}


async def test_secrets_never_come_back(api: Api) -> None:
    """Planted in the environment and the registry's password; looked for in all answers and every row."""
    home = await new_home(api)
    registry = {"provider": "other", "username": "ada", "password": f"{CANARY}-password"}
    secret = {"image": "registry.example.com/a:1", "registry": registry, "env": {"TOKEN": f"{CANARY}-env"}}
    path = f"/projects/{home.project_id}/containers"
    created = await api.post(home.admin, path, container_body(**secret))
    assert created.status_code == 201
    container_id = created.json()["id"]
    assert (await api.post(home.admin, path, container_body(**secret))).status_code == 409
    for bad in ({"name": "-"}, {"port": 0}, {"env": {"1": CANARY}}, {"env": {"A": [CANARY]}}):
        assert (await api.post(home.admin, path, container_body(**{**secret, **bad}))).status_code == 422
    for action in ("stop", "start", "restart"):
        assert (await api.post(home.admin, f"/containers/{container_id}/{action}")).status_code == 202
    for view in ("", "/replicas", "/activity", "/logs"):
        assert (await api.get(home.admin, f"/containers/{container_id}{view}")).status_code == 200
    await api.get(home.admin, path)
    await api.get(api.operator, "/operator/status")
    places = [*api.answers, await api.dump()]
    forms = (CANARY, CANARY.encode().hex(), base64.b64encode(CANARY.encode()).decode()[:-4])
    assert [place for place in places for form in forms if form in place] == []
    print(f"{len(api.answers)} answers and all tables scanned, 0 hits")


async def test_name_taken(api: Api) -> None:
    home = await new_home(api)
    path = f"/projects/{home.project_id}/containers"
    assert (await api.post(home.admin, path, container_body())).status_code == 201
    assert_problem(await api.post(home.admin, path, container_body()), 409, "name_taken")
    elsewhere = await api.new_project(home.organization_id, "elsewhere")
    assert (
        await api.post(home.admin, f"/projects/{elsewhere}/containers", container_body())
    ).status_code == 201


@pytest.mark.parametrize("what", ["containers", "projects"])
async def test_racing_creates(api: Api, what: str) -> None:
    home = await new_home(api)
    path = f"/projects/{home.project_id}/containers"
    if what == "projects":
        path = f"/organizations/{home.organization_id}/projects"
    body = container_body() if what == "containers" else {"name": "chat"}
    answers = await asyncio.gather(*(api.post(home.admin, path, body) for _ in range(8)))
    assert sorted(answer.status_code for answer in answers) == [201] + [409] * 7
    assert {answer.json()["code"] for answer in answers if answer.status_code == 409} == {"name_taken"}
    assert len(await api.rows(f"SELECT 1 FROM {what} WHERE name = 'chat'")) == 1
    if what == "containers":
        assert len(await api.rows("SELECT 1 FROM activities")) == 1


async def test_start_stop_restart_delete(api: Api) -> None:
    """202 when something is to be done, 200 when it is so already."""
    home = await new_home(api)
    created = await api.post(home.admin, f"/projects/{home.project_id}/containers", container_body())
    path = f"/containers/{created.json()['id']}"

    async def act(action: str) -> tuple[int, str, int]:
        answer = (
            await api.ask(home.admin, "DELETE", f"/api/v1{path}")
            if action == "delete"
            else await api.post(home.admin, f"{path}/{action}")
        )
        return answer.status_code, answer.json()["state"], answer.json()["generation"]

    assert await act("start") == (200, "PENDING", 1)
    assert await act("stop") == (202, "STOPPING", 1)
    assert await act("stop") == (200, "STOPPING", 1)
    assert await act("start") == (202, "PENDING", 2)
    assert await act("restart") == (202, "PENDING", 3)
    await api.execute("UPDATE containers SET state = 'FAILED', failed_generation = generation")
    assert await act("start") == (202, "PENDING", 4)
    assert await act("delete") == (202, "DELETING", 4)
    assert await act("delete") == (200, "DELETING", 4)
    for action in ("start", "stop", "restart"):
        assert_problem(await api.post(home.admin, f"{path}/{action}"), 409, "container_deleting")
    assert_problem(
        await api.post(home.admin, f"/projects/{home.project_id}/containers", container_body()),
        409,
        "name_taken",
    )
    # What the reconciler does last: from now on there is no such container, and its name is free.
    await api.execute("UPDATE containers SET deleted_at = now()")
    assert_problem(await api.get(home.admin, path), 404, "not_found")
    assert_problem(await api.ask(home.admin, "DELETE", f"/api/v1{path}"), 404, "not_found")
    for suffix in ("/activity", "/replicas", "/logs"):
        assert_problem(await api.get(home.admin, path + suffix), 404, "not_found")
    again = await api.post(home.admin, f"/projects/{home.project_id}/containers", container_body())
    assert again.status_code == 201


async def test_replicas_are_listed_page_by_page_live_ones_first(api: Api) -> None:
    """One that has lived for long is not pushed out by all those that came and went since."""
    home = await new_home(api)
    container_id = await api.new_container(home.project_id, "chat")
    oldest = await api.new_replica(container_id)
    await api.execute("UPDATE replicas SET slot = 1")
    ended = [await api.new_replica(container_id, "removed") for _ in range(4)]
    newest = await api.new_replica(container_id, "starting")
    path, found = f"/containers/{container_id}/replicas?limit=2", []
    page = (await api.get(home.admin, path)).json()
    assert len(page["items"]) == 2, "no more than was asked for, and a way to the rest"
    found += page["items"]
    await api.execute("UPDATE replicas SET state = 'removed' WHERE id = :id", id=oldest)
    while page["next_cursor"]:
        page = (await api.get(home.admin, f"{path}&cursor={page['next_cursor']}")).json()
        assert len(page["items"]) <= 2
        found += page["items"]
    ids = [one["id"] for one in found]
    assert ids[:6] == [newest, oldest, *reversed(ended)]
    assert set(ids[6:]) <= {oldest}, "it ended meanwhile, and nothing is missing"


async def test_racing_actions(api: Api) -> None:
    """Ten stops and starts at once: each one counts once, none fails."""
    home = await new_home(api)
    container_id = await api.new_container(home.project_id, "chat")
    actions = ["stop", "start"] * 5
    answers = await asyncio.gather(
        *(api.post(home.admin, f"/containers/{container_id}/{action}") for action in actions)
    )
    assert {answer.status_code for answer in answers} <= {200, 202}
    done = sum(answer.status_code == 202 for answer in answers)
    assert len(await api.rows("SELECT 1 FROM activities")) == done
    ((changes, generation),) = await api.rows("SELECT changes, generation FROM containers")
    starts = await api.rows("SELECT 1 FROM activities WHERE kind = 'container.start'")
    assert (changes, generation) == (done, 1 + len(starts))


ACTIVITIES = {
    "POST /api/v1/projects/{project_id}/containers": "container.create",
    "POST /api/v1/containers/{container_id}/stop": "container.stop",
    "POST /api/v1/containers/{container_id}/start": "container.start",
    "POST /api/v1/containers/{container_id}/restart": "container.restart",
    "DELETE /api/v1/containers/{container_id}": "container.delete",
}
"""In an order in which each has something to do. That every changing route leaves a record: test_api_records.py."""


async def test_activity(api: Api) -> None:
    home = await new_home(api)
    key_id, key = await api.new_key(home.project_id, "manage")
    for asker, actor in ((home.admin, home.user_id), (bearer("key", key), key_id)):
        container_id = ""
        for route in ACTIVITIES:
            method, path = route.split(" ")
            filled = path.format(project_id=home.project_id, container_id=container_id)
            creates = route.endswith("/containers")
            body = container_body(actor[-10:]) if creates else None
            answer = await api.ask(asker, method, filled, json=body)
            assert answer.status_code == (201 if creates else 202), answer.text
            container_id = answer.json()["id"]
        records = (await api.get(asker, f"/containers/{container_id}/activity")).json()["items"]
        assert [(one["kind"], one["actor"]) for one in reversed(records)] == [
            (kind, actor) for kind in ACTIVITIES.values()
        ]


async def test_pages(api: Api) -> None:
    """Complete and without repeats, also with equal times, and while others are created in front."""
    home = await new_home(api)
    wanted = {await api.new_container(home.project_id, f"container-{number}") for number in range(23)}
    await api.execute("UPDATE containers SET created_at = '2026-01-01' WHERE name LIKE '%1%'")
    path = f"/projects/{home.project_id}/containers"
    found: list[str] = []
    cursor, pages = None, 0
    while True:
        query = {"limit": 5} | ({"cursor": cursor} if cursor else {})
        page = (await api.get(home.admin, path, params=query)).json()
        found += [item["id"] for item in page["items"]]
        cursor, pages = page["next_cursor"], pages + 1
        if cursor is None:
            break
        await api.new_container(home.project_id, f"newer-{pages}")
    assert (len(found), set(found), pages) == (23, wanted, 5)
    other = await new_home(api, "eve@example.com")
    assert (await api.get(other.admin, f"/projects/{other.project_id}/containers", params=query)).json()[
        "items"
    ] == []


def cursor_of(*values: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(values).encode()).decode()


BAD_CURSORS = (
    "",
    "x",
    "é",
    "%00",
    cursor_of(),
    cursor_of(1, 2),
    cursor_of("2026-01-01", "x"),
    cursor_of("2026-01-01T00:00:00", "x"),
    cursor_of("0001-01-01T00:00:00+14:00", "x"),
    cursor_of("9999-12-31T23:59:59-14:00", "x"),
    cursor_of("2026-01-01T00:00:00Z", "\x00"),
    cursor_of("2026-01-01T00:00:00Z", "\ud800"),
    base64.urlsafe_b64encode(b"[" * 370).decode(),
    "x" * 501,
)


async def test_bad_cursor(api: Api) -> None:
    home = await new_home(api)
    container_id = await api.new_container(home.project_id, "chat")
    for path in (
        "/organizations",
        f"/organizations/{home.organization_id}/projects",
        f"/projects/{home.project_id}/containers",
        f"/projects/{home.project_id}/api-keys",
        f"/containers/{container_id}/activity",
    ):
        for cursor in BAD_CURSORS:
            answer = await api.get(home.admin, path, params={"cursor": cursor})
            assert [one["field"] for one in assert_problem(answer, 422)["errors"]] == ["cursor"], cursor
