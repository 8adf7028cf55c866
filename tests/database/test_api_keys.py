"""API keys over the management API."""

import hashlib
import string
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
from api_support import Api, Asker, assert_problem, bearer, container_body, new_home
from api_support import api_fixture as api_fixture

from moorage.gateway.repository import read_table
from moorage.identity.api_keys.repository import note_uses, purge_temporary_keys
from moorage.identity.api_keys.uses import KeyUse
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


async def patch(api: Api, asker: Asker, key_id: str, **body: Any) -> httpx.Response:
    return await api.ask(asker, "PATCH", f"/api/v1/api-keys/{key_id}", json=body)


async def test_disable_and_enable(api: Api) -> None:
    home = await new_home(api)
    key_id, key = await api.new_key(home.project_id, "manage")
    asker = bearer("key", key)
    disabled = await patch(api, home.admin, key_id, disabled=True)
    assert (disabled.status_code, disabled.json()["status"]) == (200, "disabled")
    assert disabled.json()["disabled_at"] is not None
    assert_problem(await api.get(asker, "/me"), 401)
    assert await gateway_keys(api) == []
    enabled = await patch(api, home.admin, key_id, disabled=False)
    assert (enabled.json()["status"], enabled.json()["disabled_at"]) == ("active", None)
    assert (await api.get(asker, "/me")).status_code == 200
    assert await gateway_keys(api) == [key_id]


async def test_change_name_and_end(api: Api) -> None:
    home = await new_home(api)
    key_id, _ = await api.new_key(home.project_id, "inference", name="old")
    changed = await patch(api, home.admin, key_id, name="new", expires_at="2099-01-01T00:00:00Z")
    assert (changed.json()["name"], changed.json()["expires_at"]) == ("new", "2099-01-01T00:00:00Z")
    assert (await patch(api, home.admin, key_id, name="newer")).json()["expires_at"] is not None
    assert (await patch(api, home.admin, key_id, expires_at=None)).json()["expires_at"] is None
    for bad in BAD_EXPIRIES:
        answer = await patch(api, home.admin, key_id, expires_at=bad)
        assert [one["field"] for one in assert_problem(answer, 422)["errors"]] == ["expires_at"], bad
    for field, value in (
        ("name", ""),
        ("name", None),
        ("disabled", None),
        ("disabled", "x"),
        ("scope", "manage"),
    ):
        answer = await patch(api, home.admin, key_id, **{field: value})
        assert [one["field"] for one in assert_problem(answer, 422)["errors"]] == [field]
    assert (await api.get(home.admin, f"/api-keys/{key_id}")).json()["name"] == "newer"


async def test_status(api: Api) -> None:
    """A dead key's own page says why it is dead."""
    home = await new_home(api)
    past = datetime(2020, 1, 1, tzinfo=UTC)
    dead = {
        "expired": (await api.new_key(home.project_id, "manage", expires_at=past))[0],
        "revoked": (await api.new_key(home.project_id, "manage", revoked_at=past))[0],
    }
    for status, key_id in dead.items():
        shown = (await api.get(home.admin, f"/api-keys/{key_id}")).json()
        assert shown["status"] == status
        assert status in shown["message"]
        assert "at 2020-01-01 00:00 UTC" in shown["message"]
        assert_problem(await api.post(home.admin, f"/api-keys/{key_id}/rotate"), 409, "key_not_active")
    assert_problem(await patch(api, home.admin, dead["revoked"], disabled=False), 409, "key_revoked")
    revived = await patch(api, home.admin, dead["expired"], expires_at=None)
    assert (revived.json()["status"], revived.json()["message"]) == ("active", None)


async def test_rotate(api: Api) -> None:
    """Both work during the overlap; afterwards the new one alone."""
    home = await new_home(api)
    body = {"name": "ci", "scope": "manage", "expires_at": "2099-01-01T00:00:00Z"}
    old = (await api.post(home.admin, f"/projects/{home.project_id}/api-keys", body)).json()
    answer = await api.post(home.admin, f"/api-keys/{old['id']}/rotate", {"overlap_s": 600})
    assert answer.status_code == 201, answer.text
    new = answer.json()
    same = ("project_id", "name", "scope", "expires_at")
    assert {name: new[name] for name in same} == {name: old[name] for name in same}
    assert (new["replaces"], new["status"]) == (old["id"], "active")
    assert new["key"] != old["key"]
    for key in (old["key"], new["key"]):
        assert (await api.get(bearer("key", key), "/me")).status_code == 200
    (left_s,) = await api.rows(
        "SELECT extract(epoch FROM expires_at - now()) FROM api_keys WHERE id = :id", id=old["id"]
    )
    assert 500 < left_s[0] <= 600
    await api.execute("UPDATE api_keys SET expires_at = now() WHERE id = :id", id=old["id"])
    assert_problem(await api.get(bearer("key", old["key"]), "/me"), 401)
    at_once = (await api.post(home.admin, f"/api-keys/{new['id']}/rotate", {"overlap_s": 0})).json()
    assert_problem(await api.get(bearer("key", new["key"]), "/me"), 401)
    assert (await api.get(bearer("key", at_once["key"]), "/me")).status_code == 200
    for bad in (-1, 8 * 86_400, "soon", 1e300):
        answer = await api.post(home.admin, f"/api-keys/{at_once['id']}/rotate", {"overlap_s": bad})
        assert_problem(answer, 422)


async def test_overlap_prolongs_nothing(api: Api) -> None:
    home = await new_home(api)
    end = datetime.now(UTC) + timedelta(minutes=5)
    key_id, _ = await api.new_key(home.project_id, "inference", expires_at=end)
    assert (
        await api.post(home.admin, f"/api-keys/{key_id}/rotate", {"overlap_s": 86_400})
    ).status_code == 201
    ends = await api.rows("SELECT expires_at FROM api_keys")
    assert [row[0] for row in ends] == [end, end]


async def test_key_cannot_outlive_itself(api: Api) -> None:
    home = await new_home(api)
    key_id, key = await api.new_key(home.project_id, "manage")
    asker = bearer("manage key", key)
    assert_problem(await patch(api, asker, key_id, expires_at=None), 403)
    assert_problem(await api.post(asker, f"/api-keys/{key_id}/rotate"), 403)
    other, _ = await api.new_key(home.project_id, "inference")
    assert (await patch(api, asker, other, disabled=True)).status_code == 200


async def test_last_use(api: Api) -> None:
    """Noted once in a minute; the latest stays, whoever tells of it."""
    home = await new_home(api)
    key_id, key = await api.new_key(home.project_id, "manage")
    unused, _ = await api.new_key(home.project_id, "inference")

    async def shown(one: str) -> tuple[Any, Any]:
        (listed,) = [
            item
            for item in (await api.get(home.admin, f"/projects/{home.project_id}/api-keys")).json()["items"]
            if item["id"] == one
        ]
        alone = (await api.get(home.admin, f"/api-keys/{one}")).json()
        assert alone == listed
        return alone["last_used_at"], alone["last_used_from"]

    assert await shown(key_id) == (None, None)
    assert (await api.get(bearer("key", key), "/me")).status_code == 200
    used_at, used_from = await shown(key_id)
    assert used_from == "127.0.0.1"
    assert abs(datetime.fromisoformat(used_at) - datetime.now(UTC)) < timedelta(minutes=2)
    assert datetime.fromisoformat(used_at).second == 0
    later = datetime.now(UTC).replace(microsecond=0) + timedelta(minutes=5)
    async with api.database.transaction() as session:
        await note_uses(session, {key_id: KeyUse(later, "192.0.2.7"), "key_gone": KeyUse(later, "192.0.2.7")})
        await note_uses(session, {key_id: KeyUse(later - timedelta(minutes=1), "192.0.2.8")})
    assert (await api.get(bearer("key", key), "/me")).status_code == 200
    assert await shown(key_id) == (later.isoformat().replace("+00:00", "Z"), "192.0.2.7")
    assert await shown(unused) == (None, None)


async def test_limit_of_its_own(api: Api) -> None:
    home = await new_home(api)
    path = f"/projects/{home.project_id}/api-keys"
    created = (await api.post(home.admin, path, {"name": "x", "requests_per_minute": 60})).json()
    assert created["requests_per_minute"] == 60
    rotated = (await api.post(home.admin, f"/api-keys/{created['id']}/rotate")).json()
    assert rotated["requests_per_minute"] == 60
    assert (await patch(api, home.admin, created["id"], name="y")).json()["requests_per_minute"] == 60
    async with api.database.transaction() as session:
        held = (await read_table(session)).keys.values()
    assert [entry.requests_per_minute for entry in held] == [60, 60]
    lifted = await patch(api, home.admin, created["id"], requests_per_minute=None)
    assert lifted.json()["requests_per_minute"] is None
    for bad in (0, -1, 1_000_001, 1.5, "60", True, 1e300):
        for answer in (
            await api.post(home.admin, path, {"requests_per_minute": bad}),
            await patch(api, home.admin, created["id"], requests_per_minute=bad),
        ):
            fields = [error["field"] for error in assert_problem(answer, 422, "invalid_input")["errors"]]
            assert fields == ["requests_per_minute"], bad


async def test_temporary_keys(api: Api) -> None:
    """A playground makes one every 15 minutes: once it has ended it is not listed, and a day later it is gone."""
    home = await new_home(api)
    now = datetime.now(UTC)

    async def new(name: str, lived: timedelta, ended_ago: timedelta, scope: str = "inference") -> str:
        key_id, _ = await api.new_key(home.project_id, scope, name=name, expires_at=now - ended_ago)
        made_at = now - ended_ago - lived
        await api.execute("UPDATE api_keys SET created_at = :at WHERE id = :id", at=made_at, id=key_id)
        return key_id

    quarter, day = timedelta(minutes=15), timedelta(days=1)
    await new("lives", quarter, -timedelta(minutes=5))
    ended = await new("ended", quarter, timedelta(minutes=1))
    gone = await new("gone", quarter, day * 2)
    await new("long", day, day * 2)
    await new("manages", quarter, day * 2, "manage")
    async with api.database.transaction() as session:
        await purge_temporary_keys(session)
    listed = (await api.get(home.admin, f"/projects/{home.project_id}/api-keys")).json()["items"]
    assert {item["name"] for item in listed} == {"lives", "long", "manages"}
    assert (await api.get(home.admin, f"/api-keys/{ended}")).json()["status"] == "expired"
    assert_problem(await api.get(home.admin, f"/api-keys/{gone}"), 404)


async def gateway_keys(api: Api) -> list[str]:
    async with api.database.transaction() as session:
        return [entry.key_id for entry in (await read_table(session)).keys.values()]


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
