"""A right that ends, ends everything that came of it: keys, invitations, webhooks, remembered answers. Streams: test_events and
test_logs_endpoints."""

from typing import Any

import httpx
from api_support import ANONYMOUS, KEYRING, Api, Asker, Home, assert_problem, bearer, new_home
from api_support import api_fixture as api_fixture

from moorage.kit.clock import system_clock
from moorage.reconcile.lease import LeaseKeeper
from moorage.webhooks.delivery import WebhookDelivery


async def member(api: Api, home: Home, email: str, role: str, *project_ids: str) -> tuple[str, Asker]:
    user_id, token = await api.new_person(email)
    await api.join(home.organization_id, user_id, role)
    for project_id in project_ids:
        await api.execute(
            "INSERT INTO project_members (project_id, user_id) VALUES (:project_id, :user_id)",
            project_id=project_id,
            user_id=user_id,
        )
    return user_id, bearer(email, token)


async def make_key(api: Api, asker: Asker, project_id: str, scope: str = "inference", **more: Any) -> Any:
    answer = await api.post(
        asker, f"/projects/{project_id}/api-keys", {"name": "made", "scope": scope, **more}
    )
    assert answer.status_code == 201, answer.text
    return answer.json()


async def live_keys(api: Api) -> set[str]:
    return {row[0] for row in await api.rows("SELECT id FROM api_keys WHERE revoked_at IS NULL")}


async def change(api: Api, home: Home, user_id: str, **patch: Any) -> httpx.Response:
    path = f"/api/v1/organizations/{home.organization_id}/members/{user_id}"
    return await api.ask(home.admin, "PATCH", path, json=patch)


async def test_keys_go_with_the_project(api: Api) -> None:
    home = await new_home(api)
    other = (
        await api.post(home.admin, f"/organizations/{home.organization_id}/projects", {"name": "other"})
    ).json()
    user_id, user = await member(api, home, "ben@example.com", "user", home.project_id, other["id"])
    manage = await make_key(api, user, home.project_id, "manage")
    with_it = await make_key(api, bearer("key", manage["key"]), home.project_id)
    elsewhere = await make_key(api, user, other["id"])
    theirs = await make_key(api, home.admin, home.project_id)
    assert (await change(api, home, user_id, project_ids=[other["id"]])).status_code == 200
    assert await live_keys(api) == {elsewhere["id"], theirs["id"]}
    assert_problem(await api.get(bearer("key", manage["key"]), "/me"), 401)
    assert with_it["id"] not in await live_keys(api)


async def test_keys_may_stay_where_an_admin_says_so(api: Api) -> None:
    home = await new_home(api)
    user_id, user = await member(api, home, "ben@example.com", "user", home.project_id)
    made = await make_key(api, user, home.project_id)
    assert (await change(api, home, user_id, project_ids=[], revoke_keys=False)).status_code == 200
    assert await live_keys(api) == {made["id"]}


async def test_an_admin_who_becomes_a_user_keeps_what_a_user_has(api: Api) -> None:
    home = await new_home(api)
    user_id, second = await member(api, home, "ben@example.com", "admin")
    made = await make_key(api, second, home.project_id)
    changed = await change(api, home, user_id, role="user", project_ids=[home.project_id])
    assert changed.status_code == 200
    assert await live_keys(api) == {made["id"]}, "they are still in that project"
    assert (await change(api, home, user_id, project_ids=[])).status_code == 200
    assert await live_keys(api) == set()


async def test_invitations_go_with_whoever_sent_them(api: Api) -> None:
    home = await new_home(api)
    invitations = f"/organizations/{home.organization_id}/invitations"
    for number, end in enumerate(("demoted", "removed")):
        user_id, second = await member(api, home, f"ben-{number}@example.com", "admin")
        sent = await api.post(second, invitations, {"email": f"friend-{number}@example.com", "role": "admin"})
        assert sent.status_code == 201, sent.text
        kept = await api.post(
            home.admin, invitations, {"email": f"kept-{number}@example.com", "role": "user"}
        )
        assert kept.status_code == 201
        if end == "demoted":
            await change(api, home, user_id, role="user")
        else:
            path = f"/api/v1/organizations/{home.organization_id}/members/{user_id}"
            assert (await api.ask(home.admin, "DELETE", path)).status_code == 200
    listed = (await api.get(home.admin, invitations)).json()["items"]
    assert {one["email"] for one in listed} == {"kept-0@example.com", "kept-1@example.com"}


async def test_no_answer_is_repeated_to_somebody_whose_right_has_ended(api: Api) -> None:
    home = await new_home(api)
    user_id, user = await member(api, home, "ben@example.com", "user", home.project_id)
    path, body = f"/projects/{home.project_id}/api-keys", {"name": "secret", "scope": "inference"}

    async def ask() -> httpx.Response:
        return await api.ask(user, "POST", f"/api/v1{path}", json=body, headers={"Idempotency-Key": "one"})

    first = await ask()
    assert (await ask()).json()["key"] == first.json()["key"], "a repeated request is answered as the first"
    await change(api, home, user_id, project_ids=[], revoke_keys=False)
    again = await ask()
    assert_problem(again, 409, "idempotency_answer_lost")
    assert first.json()["key"] not in again.text


async def test_what_was_carried_out_is_not_carried_out_again_once_its_answer_is_forgotten(api: Api) -> None:
    """A client repeats what it got no answer to. Some other right of theirs ended meanwhile, perhaps elsewhere."""
    home, elsewhere = await new_home(api), await new_home(api)
    user_id, user = await member(api, home, "ben@example.com", "admin", home.project_id)
    await api.join(elsewhere.organization_id, user_id, "admin")
    path, body = f"/projects/{home.project_id}/api-keys", {"name": "once", "scope": "inference"}

    async def ask() -> httpx.Response:
        return await api.ask(user, "POST", f"/api/v1{path}", json=body, headers={"Idempotency-Key": "one"})

    first = await ask()
    assert first.status_code == 201, first.text
    assert (await change(api, elsewhere, user_id, role="user")).status_code == 200
    again = await ask()
    assert_problem(again, 409, "idempotency_answer_lost")
    assert first.json()["key"] not in again.text
    assert await live_keys(api) == {first.json()["id"]}


async def deliver(api: Api) -> None:
    await api.execute("UPDATE leases SET expires_at = now() - interval '1 second'")
    lease = await LeaseKeeper(api.database, "webhooks", "test", system_clock).acquire()
    assert lease is not None
    delivery = WebhookDelivery(api.database, KEYRING, api.settings, system_clock)
    for key in (await delivery.due(10)).keys:
        await delivery.reconcile(key, lease)


async def test_a_webhook_goes_with_the_admin_who_made_it(api: Api) -> None:
    home = await new_home(api)
    path = f"/organizations/{home.organization_id}/webhooks"
    user_id, second = await member(api, home, "ben@example.com", "admin")
    made = (await api.post(second, path, {"url": "https://hook.example/", "events": ["member.*"]})).json()
    await change(api, home, user_id, role="user")
    await deliver(api)
    [shown] = (await api.get(home.admin, path)).json()["items"]
    assert "no longer an admin" in shown["disabled_reason"]
    sent = await api.rows("SELECT tries, delivered_at FROM webhook_deliveries")
    assert sent == [(0, None)], "not even the word that they were removed"
    on_again = await api.ask(home.admin, "PATCH", f"/api/v1{path}/{made['id']}", json={"enabled": True})
    assert on_again.json()["created_by"] == home.user_id
    await change(api, home, user_id, role="admin")
    await deliver(api)
    [shown] = (await api.get(home.admin, path)).json()["items"]
    assert shown["disabled_reason"] is None, "it is the other admin's now"


async def test_what_a_key_makes_ends_with_it(api: Api) -> None:
    home = await new_home(api)
    manage = await make_key(api, home.admin, home.project_id, "manage", expires_at="2999-01-01T00:00:00Z")
    key = bearer("key", manage["key"])
    endless = await make_key(api, key, home.project_id)
    longer = await make_key(api, key, home.project_id, expires_at="3999-01-01T00:00:00Z")
    shorter = await make_key(api, key, home.project_id, expires_at="2998-01-01T00:00:00Z")
    ends = [one["expires_at"][:4] for one in (endless, longer, shorter)]
    assert ends == ["2999", "2999", "2998"]
    owners = await make_key(api, home.admin, home.project_id)
    rotated = (await api.post(key, f"/api-keys/{owners['id']}/rotate")).json()
    assert rotated["expires_at"][:4] == "2999"
    changed = await api.ask(key, "PATCH", f"/api/v1/api-keys/{shorter['id']}", json={"expires_at": None})
    assert changed.json()["expires_at"][:4] == "2999"
    revoked = await api.ask(home.admin, "DELETE", f"/api/v1/api-keys/{manage['id']}")
    assert revoked.status_code == 204, revoked.text
    assert await live_keys(api) == {owners["id"]}


async def test_strangers_get_no_remembered_answer(api: Api) -> None:
    answers = [
        await api.ask(ANONYMOUS, "POST", "/api/v1/auth/device", headers={"Idempotency-Key": "one"})
        for _ in range(2)
    ]
    assert answers[0].json()["device_code"] != answers[1].json()["device_code"]
