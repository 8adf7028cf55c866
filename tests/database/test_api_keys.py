"""API keys over the management API."""

import hashlib
import string

from api_support import Api, assert_problem, bearer, container_body, new_home
from api_support import api_fixture as api_fixture

from moorage.identity.tokens import API_KEY_PREFIX, is_well_formed


async def test_shown_once(api: Api) -> None:
    home = await new_home(api)
    path = f"/projects/{home.project_id}/api-keys"
    created = await api.post(home.admin, path, {"name": "ci", "scope": "manage"})
    assert created.status_code == 201, created.text
    key = created.json()["key"]
    assert created.headers["location"] == f"/api/v1/api-keys/{created.json()['id']}"
    (listed,) = (await api.get(home.admin, path)).json()["items"]
    assert listed == {name: value for name, value in created.json().items() if name != "key"}
    assert sum(key in answer for answer in api.answers) == 1
    assert key.endswith(listed["hint"])
    assert (await api.get(bearer("key", key), "/me")).json()["project_id"] == home.project_id


async def test_hashed_at_rest(api: Api) -> None:
    home = await new_home(api)
    created = await api.post(home.admin, f"/projects/{home.project_id}/api-keys", {})
    key = created.json()["key"]
    assert created.json()["scope"] == "inference"
    dump = await api.dump()
    assert key not in dump
    assert key[:-4].encode().hex() not in dump
    assert hashlib.sha256(key.encode()).hexdigest() in dump


async def test_mistyped(api: Api) -> None:
    """Every one-character change is found by the checksum, so it is refused before the database is asked."""
    home = await new_home(api)
    _, key = await api.new_key(home.project_id, "manage")
    changed = {
        key[:position] + other + key[position + 1 :]
        for position in range(len(API_KEY_PREFIX), len(key))
        for other in string.ascii_letters + string.digits
    } - {key}
    assert len(changed) > 2000
    assert not any(is_well_formed(one, API_KEY_PREFIX) for one in changed)
    for wrong in (
        *sorted(changed)[:5],
        key[:-1],
        key + "x",
        key.upper(),
        "",
        "moor_",
        f"{key},{key}",
        f"{key} x",
    ):
        assert_problem(await api.get(bearer("mistyped", wrong), "/me"), 401, "authentication_failed")
    for header in (key, f"Basic {key}", f"bearer{key}", "Bearer"):
        answer = await api.ask(home.admin, "GET", "/api/v1/me", headers={"Authorization": header})
        assert_problem(answer, 401, "authentication_failed")
        assert answer.headers["www-authenticate"] == "Bearer"


BAD_EXPIRIES = (
    "2020-01-01T00:00:00Z",
    "2099-01-01T00:00:00",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-14:00",
    "soon",
    -1,
    1e300,
    "",
    [],
    True,
)


async def test_bad_expiry(api: Api) -> None:
    home = await new_home(api)
    for bad in BAD_EXPIRIES:
        answer = await api.post(
            home.admin, f"/projects/{home.project_id}/api-keys", {"name": "x", "expires_at": bad}
        )
        body = assert_problem(answer, 422, "invalid_input")
        assert [error["field"] for error in body["errors"]] == ["expires_at"], bad
    assert await api.rows("SELECT 1 FROM api_keys") == []


async def test_expiry(api: Api) -> None:
    home = await new_home(api)
    body = {"name": "x", "scope": "manage", "expires_at": "2099-01-01T00:00:00+02:00"}
    created = await api.post(home.admin, f"/projects/{home.project_id}/api-keys", body)
    assert created.status_code == 201, created.text
    asker = bearer("key", created.json()["key"])
    assert (await api.get(asker, "/me")).status_code == 200
    await api.execute("UPDATE api_keys SET expires_at = now()")
    assert_problem(await api.get(asker, "/me"), 401)


async def test_bad_field(api: Api) -> None:
    """A misspelt field is refused: a key that was meant to expire must not live for ever."""
    home = await new_home(api)
    bad = [*(("name", name) for name in ("", "x" * 64, "a\x00", None)), ("scope", "admin"), ("scope", None)]
    for field, value in (*bad, ("expires", "2099-01-01T00:00:00Z")):
        answer = await api.post(home.admin, f"/projects/{home.project_id}/api-keys", {field: value})
        assert [error["field"] for error in assert_problem(answer, 422)["errors"]] == [field]
    assert await api.rows("SELECT 1 FROM api_keys") == []


async def test_revoke(api: Api) -> None:
    home = await new_home(api)
    key_id, key = await api.new_key(home.project_id, "manage")
    for _ in range(2):
        assert (await api.ask(home.admin, "DELETE", f"/api/v1/api-keys/{key_id}")).status_code == 204
        assert_problem(await api.get(bearer("key", key), "/me"), 401)
    (first,) = await api.rows("SELECT revoked_at FROM api_keys")
    (listed,) = (await api.get(home.admin, f"/projects/{home.project_id}/api-keys")).json()["items"]
    assert listed["revoked_at"] is not None
    assert first[0] is not None


async def test_manage_key(api: Api) -> None:
    """A user of its project, never more."""
    home = await new_home(api)
    _, key = await api.new_key(home.project_id, "manage")
    asker = bearer("manage key", key)
    path = f"/projects/{home.project_id}/api-keys"
    assert_problem(await api.post(asker, path, {"name": "x", "scope": "manage"}), 403, "forbidden")
    made = await api.post(asker, path, {"name": "x", "scope": "inference"})
    assert made.status_code == 201
    assert (
        await api.post(asker, f"/projects/{home.project_id}/containers", container_body())
    ).status_code == 201
    for refused in ("/organizations", f"/organizations/{home.organization_id}", "/operator/status"):
        assert_problem(await api.get(asker, refused), 403, "forbidden")
    # The one that it made is for inference: the management API does not know it.
    assert_problem(await api.get(bearer("inference", made.json()["key"]), "/me"), 401)


async def test_pages(api: Api) -> None:
    home = await new_home(api)
    wanted = [(await api.new_key(home.project_id, "inference", name=f"key {n}"))[0] for n in range(7)]
    found, cursor = [], None
    for _ in range(4):
        query = {"limit": 2} | ({"cursor": cursor} if cursor else {})
        page = (await api.get(home.admin, f"/projects/{home.project_id}/api-keys", params=query)).json()
        found += [item["id"] for item in page["items"]]
        cursor = page["next_cursor"]
    assert cursor is None
    assert found == wanted[::-1]
