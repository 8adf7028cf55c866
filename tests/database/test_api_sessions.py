"""Sessions, and the bars between them and other sites: row by row from the route table."""

import asyncio
import re

from api_support import (
    ANONYMOUS,
    COOKIE,
    SAFE_METHODS,
    Api,
    Asker,
    Home,
    assert_problem,
    bearer,
    cookie,
    new_home,
    right_csrf,
    route_table,
)
from api_support import api_fixture as api_fixture
from test_api_access import good_body
from test_api_sign_in import EMAIL, code_for

from moorage.identity.device.service import WAITING_LIMIT

FOREIGN_ORIGINS = (
    "https://evil.example", "http://127.0.0.1:8080.evil.example", "http://127.0.0.1:9999", "null", "",
    "http://evil.example@127.0.0.1", "http://[", "https://127.0.0.1",
)  # fmt: skip


async def test_list_and_end(api: Api) -> None:
    home = await new_home(api)
    _, phone = await api.new_person("ada@example.com")
    _, laptop = await api.new_person("ada@example.com")
    _, others = await api.new_person("eve@example.com")
    listed = (await api.get(home.admin, "/me/sessions")).json()["items"]
    assert [one["current"] for one in listed].count(True) == 1
    assert len(listed) == 3
    current = next(one for one in listed if one["current"])
    assert home.token not in str(listed)
    (theirs,) = (await api.get(bearer("eve", others), "/me/sessions")).json()["items"]
    for absent in (theirs["id"], "ses_nothing"):
        assert_problem(await api.ask(home.admin, "DELETE", f"/api/v1/me/sessions/{absent}"), 404)
    phone_id = (await api.rows("SELECT id FROM sessions WHERE token_hash = sha256(:t)", t=phone.encode()))[0][
        0
    ]
    assert (await api.ask(home.admin, "DELETE", f"/api/v1/me/sessions/{phone_id}")).status_code == 204
    assert_problem(await api.get(bearer("phone", phone), "/me"), 401)
    assert (await api.get(bearer("laptop", laptop), "/me")).status_code == 200
    assert (await api.ask(home.admin, "DELETE", "/api/v1/me/sessions")).status_code == 204
    assert_problem(await api.get(bearer("laptop", laptop), "/me"), 401)
    left = (await api.get(home.admin, "/me/sessions")).json()["items"]
    assert [one["id"] for one in left] == [current["id"]]
    assert (await api.get(bearer("eve", others), "/me")).status_code == 200


async def test_client_is_shown(api: Api) -> None:
    body = {"email": EMAIL, "code": await code_for(api)}
    signed_in = await api.post(
        ANONYMOUS, "/auth/email/verify", body, headers={"User-Agent": "Browser/1 " * 50}
    )
    asker = bearer("ada", signed_in.json()["session_token"])
    (listed,) = (await api.get(asker, "/me/sessions")).json()["items"]
    assert listed["client"].startswith("Browser/1")
    assert len(listed["client"]) == 200


async def test_fixation(api: Api) -> None:
    """A session that somebody planted in the browser is worth nothing, before and after its owner signs in."""
    _, planted = await api.new_person("eve@example.com")
    await api.execute("UPDATE sessions SET ended_at = now()")
    body = {"email": EMAIL, "code": await code_for(api)}
    answer = await api.post(cookie(planted), "/auth/email/verify", body)
    assert answer.status_code == 200
    assert answer.json()["session_token"] != planted
    assert f"{COOKIE}={answer.json()['session_token']}" in answer.headers["set-cookie"]
    assert_problem(await api.get(cookie(planted), "/me"), 401)


async def test_foreign_origin(api: Api) -> None:
    """Every route that changes something refuses what another site sends, even with everything else right."""
    home = await new_home(api)
    asker = cookie(home.token, right_csrf(home.token))
    changing = [(method, path) for method, path in route_table(api.app) if method not in SAFE_METHODS]
    before = await api.dump()
    refused = 0
    ids = {"organization_id": home.organization_id, "project_id": home.project_id}
    for method, path in changing:
        filled = re.sub(r"\{(\w+)(:\w+)?\}", lambda found: ids.get(found[1], "x"), path)
        for origin in FOREIGN_ORIGINS:
            body = good_body(f"{method} {path}", "name")
            answer = await api.ask(asker, method, filled, json=body, headers={"Origin": origin})
            assert_problem(answer, 403, "foreign_origin")
            refused += 1
        # A page of a container at another port is of the same site to a browser; the Origin may be right by then.
        for site in ("cross-site", "same-site"):
            headers = {"Origin": "http://127.0.0.1:8080", "Sec-Fetch-Site": site}
            answer = await api.ask(
                asker, method, filled, json=good_body(f"{method} {path}", "name"), headers=headers
            )
            assert_problem(answer, 403, "foreign_origin")
            refused += 1
    assert await api.dump() == before
    assert len(changing) >= 25
    print(f"{refused} requests with a foreign Origin on {len(changing)} routes, all refused")


async def test_own_origin(api: Api) -> None:
    home = await new_home(api)
    asker = cookie(home.token, right_csrf(home.token))
    path = f"/organizations/{home.organization_id}/projects"
    for number, (origin, host) in enumerate(
        (("http://127.0.0.1:8080", "127.0.0.1:8080"), ("http://localhost:8080", "localhost:8080"),
         ("http://127.0.0.1:8080", "behind-a-proxy"))
    ):  # fmt: skip
        headers = {"Origin": origin, "Host": host}
        answer = await api.post(asker, path, {"name": f"p{number}"}, headers=headers)
        assert answer.status_code == 201, answer.text
    # What the browser says of itself counts for more than the address, which a proxy in front may have changed.
    headers = {"Origin": "https://cloud.example.com", "Host": "inside:8080", "Sec-Fetch-Site": "same-origin"}
    assert (await api.post(asker, path, {"name": "behind TLS"}, headers=headers)).status_code == 201
    # A token of one's own is no cookie that a browser sends by itself.
    assert (
        await api.post(home.admin, path, {"name": "by token"}, headers={"Origin": "https://app.example"})
    ).status_code == 201


async def start_device(api: Api) -> dict[str, str]:
    answer = await api.post(ANONYMOUS, "/auth/device", {"client_name": "moor on <b>laptop</b>"})
    assert answer.status_code == 201, answer.text
    started: dict[str, str] = answer.json()
    return started


async def collect(api: Api, device_code: str) -> tuple[int, dict[str, object]]:
    answer = await api.post(ANONYMOUS, "/auth/device/token", {"device_code": device_code})
    return answer.status_code, answer.json()


async def test_device(api: Api) -> None:
    """A command line is signed in by whoever approves its code, once."""
    home = await new_home(api)
    started = await start_device(api)
    assert started["verification_url"].endswith(f"/device?code={started['user_code']}")
    assert started["device_code"] not in await api.dump()
    assert await collect(api, started["device_code"]) == (202, {"status": "pending", "signed_in": None})
    typed = started["user_code"].lower().replace("-", " ")
    shown = await api.get(home.admin, f"/auth/device/{typed}")
    assert shown.json() == {"user_code": started["user_code"], "client_name": "moor on <b>laptop</b>"}
    path = f"/auth/device/{started['user_code']}"
    assert (await api.post(home.admin, path, {"approve": True})).status_code == 204
    assert_problem(await api.post(home.admin, path, {"approve": True}), 404)
    status, body = await collect(api, started["device_code"])
    assert status == 200
    token = body["signed_in"]["session_token"]  # type: ignore[index]
    assert (await api.get(bearer("cli", token), "/me")).json()["user"]["email"] == "ada@example.com"
    clients = [one["client"] for one in (await api.get(home.admin, "/me/sessions")).json()["items"]]
    assert "moor on <b>laptop</b>" in clients
    assert (await collect(api, started["device_code"]))[0] == 401


async def test_device_refused(api: Api) -> None:
    home = await new_home(api)
    started = await start_device(api)
    answer = await api.post(home.admin, f"/auth/device/{started['user_code']}", {"approve": False})
    assert answer.status_code == 204
    assert (await collect(api, started["device_code"]))[0] == 401
    late = await start_device(api)
    await api.execute("UPDATE device_logins SET expires_at = now()")
    assert_problem(await api.post(home.admin, f"/auth/device/{late['user_code']}", {"approve": True}), 404)
    assert (await collect(api, late["device_code"]))[0] == 401
    # The code that people see opens nothing by itself.
    for wrong in (late["user_code"], "", "moor_dev_x"):
        assert (await collect(api, wrong))[0] == 401


async def test_device_limit(api: Api) -> None:
    """One source has its share of what waits, racing or not; what it does keeps nobody else out."""
    starts = [api.post(ANONYMOUS, "/auth/device") for _ in range(25)]
    statuses = sorted([answer.status_code for answer in await asyncio.gather(*starts)])
    assert statuses == [201] * 20 + [429] * 5
    refused = await api.post(ANONYMOUS, "/auth/device")
    assert_problem(refused, 429)
    assert int(refused.headers["retry-after"]) > 0
    assert (await api.post(Asker("elsewhere", address="192.0.2.1"), "/auth/device")).status_code == 201
    await api.execute("UPDATE device_logins SET expires_at = now()")
    assert (await api.post(ANONYMOUS, "/auth/device")).status_code == 201, "those that ran out do not count"


async def test_device_codes_of_many_sources(api: Api) -> None:
    """A thousand of strangers leave room for everybody; the disk is what bounds them all."""
    fill = (
        "INSERT INTO device_logins (device_code_hash, user_code, client_name, expires_at, approved, source) "
        "SELECT sha256(n::text::bytea), 'C' || n, 'x', now() + interval '1 minute', false, 'x' || n "
        "FROM generate_series(CAST(:first AS int), :last) n"
    )
    await api.execute(fill, first=1, last=1000)
    assert (await api.post(ANONYMOUS, "/auth/device")).status_code == 201
    await api.execute(fill, first=1001, last=WAITING_LIMIT)
    assert_problem(await api.post(ANONYMOUS, "/auth/device"), 429)


def page_asker(home: Home) -> Asker:
    return cookie(home.token)


async def test_device_page(api: Api) -> None:
    home = await new_home(api)
    started = await start_device(api)
    path = f"/device?code={started['user_code']}"
    assert (await api.ask(ANONYMOUS, "GET", path)).status_code == 401
    shown = await api.ask(page_asker(home), "GET", path)
    assert shown.status_code == 200
    assert "&lt;b&gt;laptop" in shown.text
    assert "<b>laptop" not in shown.text
    assert "default-src 'none'" in shown.headers["content-security-policy"]
    csrf = re.search(r'name="csrf" value="(\w+)"', shown.text)
    assert csrf is not None
    for wrong in ({}, {"csrf": "x"}, {"csrf": right_csrf("other")}):
        answer = await api.ask(page_asker(home), "POST", path, data={"approve": "yes", **wrong})
        assert answer.status_code == 403
    assert (await collect(api, started["device_code"]))[0] == 202
    answer = await api.ask(page_asker(home), "POST", path, data={"csrf": csrf[1], "approve": "yes"})
    assert (answer.status_code, "Approved" in answer.text) == (200, True)
    assert (await collect(api, started["device_code"]))[0] == 200
    assert (await api.ask(page_asker(home), "GET", path)).status_code == 404
