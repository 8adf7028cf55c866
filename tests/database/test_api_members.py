"""Organizations, projects and members: what admins do to them, and what the audit log says afterwards."""

import asyncio
import csv
import io
from typing import Any

from api_support import Api, Asker, Home, assert_problem, bearer, container_body, new_home
from api_support import api_fixture as api_fixture


async def new_member(api: Api, home: Home, email: str, role: str = "user") -> tuple[str, Asker]:
    user_id, token = await api.new_person(email)
    await api.join(home.organization_id, user_id, role)
    return user_id, bearer(email, token)


async def change(api: Api, home: Home, user_id: str, body: dict[str, Any], asker: Asker | None = None) -> Any:
    path = f"/api/v1/organizations/{home.organization_id}/members/{user_id}"
    return await api.ask(asker or home.admin, "PATCH", path, json=body)


async def remove(api: Api, home: Home, user_id: str, asker: Asker | None = None, **how: Any) -> Any:
    path = f"/api/v1/organizations/{home.organization_id}/members/{user_id}"
    return await api.ask(asker or home.admin, "DELETE", path, **how)


async def actions(api: Api, home: Home) -> list[str]:
    listed = (await api.get(home.admin, f"/organizations/{home.organization_id}/audit")).json()["items"]
    return [record["action"] for record in listed]


async def test_what_changes_nothing_is_not_recorded(api: Api) -> None:
    """Whoever sends a change again, because the answer was lost, has done it once."""
    home = await new_home(api)
    organization = f"/organizations/{home.organization_id}"
    user_id, _ = await new_member(api, home, "bob@example.com")
    key = (
        await api.post(
            home.admin, f"/projects/{home.project_id}/api-keys", {"name": "app", "scope": "inference"}
        )
    ).json()
    hook = await api.post(home.admin, f"{organization}/webhooks", {"url": "https://hooks.example.com/a"})
    assert hook.status_code == 201, hook.text
    limits = f"{organization}/billing/limits"
    changes: list[tuple[str, str, dict[str, Any]]] = [
        ("organization.rename", organization, {"name": "New name"}),
        ("billing.details", f"{organization}/billing/details", {"name": "Acme Ltd", "tax_id": "GB1"}),
        ("billing.spending_limit", f"PUT {limits}", {"limit_microusd": 5_000_000}),
        ("billing.spending_limit", f"PUT {limits}", {"limit_microusd": None}),
        ("billing.spending_limit", f"PUT {limits}/{home.project_id}", {"limit_microusd": 5_000_000}),
        ("project.rename", f"/projects/{home.project_id}", {"name": "renamed"}),
        ("api_key.change", f"/api-keys/{key['id']}", {"disabled": True}),
        (
            "api_key.change",
            f"/api-keys/{key['id']}",
            {"requests_per_minute": 7, "name": "other", "disabled": True},
        ),
        ("member.change", f"{organization}/members/{user_id}", {"project_ids": [home.project_id]}),
        ("member.change", f"{organization}/members/{user_id}", {"role": "admin"}),
        ("webhook.edit", f"{organization}/webhooks/{hook.json()['id']}", {"enabled": False}),
    ]
    for action, path, body in changes:
        before = (await actions(api, home)).count(action)
        method, _, address = path.rpartition(" ")
        for _ in range(2):
            answer = await api.ask(home.admin, method or "PATCH", f"/api/v1{address}", json=body)
            assert answer.status_code == 200, answer.text
        assert (await actions(api, home)).count(action) == before + 1, (action, body)
    listed = (await api.get(home.admin, f"{organization}/audit")).json()["items"]
    renamed, _ = [one["details"] for one in listed if one["action"] == "api_key.change"]
    changed = {"name": "other", "name_before": "app", "requests_per_minute": 7}
    assert renamed == changed | {"project_id": home.project_id}, (
        "what was so already is not said to have changed"
    )


async def test_second_organization(api: Api) -> None:
    home = await new_home(api)
    made = await api.post(home.admin, "/organizations", {"name": "Research"})
    assert made.status_code == 201, made.text
    assert made.json()["role"] == "admin"
    path = made.headers["location"]
    renamed = await api.ask(home.admin, "PATCH", path, json={"name": "Research 2"})
    assert renamed.json() == made.json() | {"name": "Research 2"}
    assert (await api.ask(home.admin, "GET", path)).json()["name"] == "Research 2"
    for name in ("", "x" * 64, "<b>"):
        for answer in (
            await api.post(home.admin, "/organizations", {"name": name}),
            await api.ask(home.admin, "PATCH", path, json={"name": name}),
        ):
            assert [one["field"] for one in assert_problem(answer, 422)["errors"]] == ["name"]


async def test_rename_project(api: Api) -> None:
    home = await new_home(api)
    await api.new_project(home.organization_id, "taken")
    path = f"/api/v1/projects/{home.project_id}"
    assert (await api.ask(home.admin, "PATCH", path, json={"name": "models"})).json()["name"] == "models"
    assert_problem(await api.ask(home.admin, "PATCH", path, json={"name": "taken"}), 409, "name_taken")
    assert (await api.get(home.admin, f"/projects/{home.project_id}")).json()["name"] == "models"


async def test_remove_project(api: Api) -> None:
    """Containers go, keys are revoked, the name is free again, and the ledger's and the logs' row stays."""
    home = await new_home(api)
    kept = await api.new_project(home.organization_id, "kept")
    kept_container = await api.new_container(kept, "kept")
    path = f"/projects/{home.project_id}"
    containers = [
        (await api.post(home.admin, f"{path}/containers", container_body(name))).json()["id"]
        for name in ("one", "two")
    ]
    key_id, key = await api.new_key(home.project_id, "manage")
    for wrong in ({}, {"name": "Default"}, {"name": ""}):
        answer = await api.ask(home.admin, "DELETE", f"/api/v1{path}", params=wrong)
        assert_problem(answer, 422, "name_mismatch")
    assert (await api.ask(home.admin, "DELETE", f"/api/v1{path}?name=default")).status_code == 204
    states = await api.rows("SELECT id, desired_state FROM containers ORDER BY id")
    assert dict(states) == dict.fromkeys(containers, "deleted") | {kept_container: "stopped"}
    assert_problem(await api.get(bearer("its key", key), "/me"), 401)
    for gone in (path, f"{path}/containers", f"/containers/{containers[0]}", f"{path}/api-keys"):
        assert_problem(await api.get(home.admin, gone), 404)
    assert_problem(await api.post(home.admin, f"{path}/containers", container_body("three")), 404)
    assert_problem(await api.ask(home.admin, "DELETE", f"/api/v1{path}?name=default"), 404)
    listed = (await api.get(home.admin, f"/organizations/{home.organization_id}/projects")).json()["items"]
    assert [one["id"] for one in listed] == [kept]
    again = await api.post(home.admin, f"/organizations/{home.organization_id}/projects", {"name": "default"})
    assert again.status_code == 201
    assert len(await api.rows("SELECT 1 FROM projects WHERE name = 'default'")) == 2 + 1  # and the operator's
    audit = (await api.get(home.admin, f"/organizations/{home.organization_id}/audit")).json()["items"]
    removal = next(one for one in audit if one["action"] == "project.remove")
    assert removal["target"] == home.project_id
    assert removal["details"] == {
        "name": "default",
        "container_ids": sorted(containers),
        "revoked_key_ids": [key_id],
    }


async def test_create_while_project_is_removed(api: Api) -> None:
    """Whoever comes first: a container either goes with the project or is refused."""
    home = await new_home(api)
    path = f"/projects/{home.project_id}"
    answers = await asyncio.gather(
        *(api.post(home.admin, f"{path}/containers", container_body(f"c{n}")) for n in range(4)),
        api.ask(home.admin, "DELETE", f"/api/v1{path}?name=default"),
        *(api.post(home.admin, f"{path}/containers", container_body(f"d{n}")) for n in range(4)),
        *(api.post(home.admin, f"{path}/api-keys", {"name": f"k{n}"}) for n in range(4)),
    )
    assert {one.status_code for one in answers} <= {201, 204, 404}
    assert await api.rows("SELECT 1 FROM containers WHERE desired_state <> 'deleted'") == []
    assert await api.rows("SELECT 1 FROM api_keys WHERE revoked_at IS NULL") == []


async def test_member_list(api: Api) -> None:
    home = await new_home(api)
    user_id, _ = await new_member(api, home, "bea@example.com")
    await new_member(api, home, "cy@example.com", "admin")
    second = await api.new_project(home.organization_id, "second", user_id)
    listed = (await api.get(home.admin, f"/organizations/{home.organization_id}/members")).json()["items"]
    shown = [(one["email"], one["role"], one["project_ids"]) for one in listed]
    assert shown == [
        ("ada@example.com", "admin", None),
        ("bea@example.com", "user", [second]),
        ("cy@example.com", "admin", None),
    ]


async def test_change_member(api: Api) -> None:
    home = await new_home(api)
    user_id, user = await new_member(api, home, "bea@example.com")
    project = f"/projects/{home.project_id}"
    assert_problem(await api.get(user, project), 404)
    changed = await change(api, home, user_id, {"project_ids": [home.project_id]})
    assert changed.json()["project_ids"] == [home.project_id]
    assert (await api.get(user, project)).status_code == 200
    assert_problem(await api.ask(user, "PATCH", f"/api/v1{project}", json={"name": "x"}), 403, "forbidden")
    assert (await change(api, home, user_id, {"role": "admin"})).json()["project_ids"] is None
    assert (await api.ask(user, "PATCH", f"/api/v1{project}", json={"name": "x"})).status_code == 200
    # Back to user: in the project that they had joined, and only there.
    assert (await change(api, home, user_id, {"role": "user"})).json()["project_ids"] == [home.project_id]
    assert (await change(api, home, user_id, {"project_ids": []})).json()["project_ids"] == []
    assert_problem(await api.get(user, project), 404)
    foreign = await new_home(api, "eve@example.com")
    for wrong in (foreign.project_id, "prj_nothing", ""):
        answer = await change(api, home, user_id, {"project_ids": [home.project_id, wrong]})
        assert [one["field"] for one in assert_problem(answer, 422)["errors"]] == ["project_ids"]
    assert_problem(await api.get(user, project), 404)
    for wrong_body in ({"role": "owner"}, {"rol": "user"}, {"role": 1}):
        assert_problem(await change(api, home, user_id, wrong_body), 422)


async def test_last_admin(api: Api) -> None:
    home = await new_home(api)
    await new_member(api, home, "bea@example.com")
    assert_problem(await change(api, home, home.user_id, {"role": "user"}), 409, "last_admin")
    assert_problem(await remove(api, home, home.user_id), 409, "last_admin")
    second_id, second = await new_member(api, home, "cy@example.com", "admin")
    assert (await remove(api, home, home.user_id)).status_code == 200  # leaves
    assert_problem(await api.get(home.admin, f"/organizations/{home.organization_id}"), 404)
    assert (await api.get(home.admin, "/me")).status_code == 200
    assert_problem(await remove(api, home, second_id, second), 409, "last_admin")


async def test_admins_who_remove_each_other(api: Api) -> None:
    """Whatever the order, one admin stays."""
    for round_number in range(5):
        home = await new_home(api, f"ada{round_number}@example.com")
        admins = {home.user_id: home.admin}
        for n in range(3):
            user_id, asker = await new_member(api, home, f"admin{round_number}-{n}@example.com", "admin")
            admins[user_id] = asker
        ids = list(admins)
        tries = []
        for here, other in zip(ids, ids[1:] + ids[:1], strict=True):
            tries.append(change(api, home, other, {"role": "user"}, admins[here]))
            tries.append(remove(api, home, here, admins[here]))
        answers = [one.status_code for one in await asyncio.gather(*tries)]
        assert set(answers) <= {200, 401, 403, 404, 409}
        left = await api.rows(
            "SELECT 1 FROM organization_members WHERE organization_id = :id AND role = 'admin'",
            id=home.organization_id,
        )
        assert len(left) >= 1


async def test_remove_member(api: Api) -> None:
    home = await new_home(api)
    user_id, user = await new_member(api, home, "bea@example.com")
    await change(api, home, user_id, {"project_ids": [home.project_id]})
    keys = f"/projects/{home.project_id}/api-keys"
    theirs = (await api.post(user, keys, {"name": "theirs", "scope": "manage"})).json()
    by_their_key = (await api.post(bearer("key", theirs["key"]), keys, {"name": "by key"})).json()
    others = (await api.post(home.admin, keys, {"name": "others", "scope": "manage"})).json()
    removed = await remove(api, home, user_id)
    assert removed.json()["revoked_key_ids"] == sorted([theirs["id"], by_their_key["id"]])
    assert_problem(await api.get(user, f"/projects/{home.project_id}"), 401)
    assert_problem(await api.get(bearer("key", theirs["key"]), "/me"), 401)
    assert (await api.get(bearer("key", others["key"]), "/me")).status_code == 200
    assert_problem(await remove(api, home, user_id), 404)
    # Joined again, they are not back in the projects they were in.
    await api.join(home.organization_id, user_id)
    _, token = await api.new_person("bea@example.com")
    assert_problem(await api.get(bearer("bea", token), f"/projects/{home.project_id}"), 404)


async def test_remove_member_and_keep_keys(api: Api) -> None:
    home = await new_home(api)
    user_id, user = await new_member(api, home, "bea@example.com", "admin")
    keys = f"/projects/{home.project_id}/api-keys"
    theirs = (await api.post(user, keys, {"name": "theirs", "scope": "manage"})).json()
    removed = await remove(api, home, user_id, params={"revoke_keys": "false"})
    assert removed.json()["revoked_key_ids"] == []
    assert (await api.get(bearer("key", theirs["key"]), "/me")).status_code == 200


async def test_user_leaves(api: Api) -> None:
    home = await new_home(api)
    user_id, user = await new_member(api, home, "bea@example.com")
    assert_problem(await remove(api, home, home.user_id, user), 403, "forbidden")
    assert (await remove(api, home, user_id, user)).status_code == 200
    assert_problem(await api.get(user, f"/organizations/{home.organization_id}"), 404)
    assert await actions(api, home) == ["member.leave"]


async def test_audit(api: Api) -> None:
    """Newest first, in pages, and as CSV that no spreadsheet takes for formulas."""
    home = await new_home(api)
    for name in ("one", "two", "three"):
        await api.post(home.admin, f"/organizations/{home.organization_id}/projects", {"name": name})
    path = f"/organizations/{home.organization_id}/audit"
    first = (await api.get(home.admin, path, params={"limit": 2})).json()
    rest = (await api.get(home.admin, path, params={"cursor": first["next_cursor"]})).json()
    names = [one["details"]["name"] for one in (*first["items"], *rest["items"])]
    assert names == ["three", "two", "one"]
    assert {one["actor_email"] for one in first["items"]} == {"ada@example.com"}
    await api.execute("UPDATE users SET email = '=cmd()@example.com' WHERE id = :id", id=home.user_id)
    exported = await api.get(home.admin, f"{path}/export")
    assert exported.headers["content-type"].startswith("text/csv")
    assert "attachment" in exported.headers["content-disposition"]
    rows = list(csv.DictReader(io.StringIO(exported.text)))
    assert [row["action"] for row in rows] == ["project.create"] * 3
    assert {row["actor_email"] for row in rows} == {"'=cmd()@example.com"}
