"""Signing in by a mailed code or a one-time link, and what a session is worth afterwards."""

import asyncio
import re
from urllib.parse import parse_qs, urlsplit

import pytest
from api_support import (
    ANONYMOUS,
    COOKIE,
    KEYRING,
    SAFE_METHODS,
    Api,
    assert_problem,
    bearer,
    container_body,
    cookie,
    new_home,
    right_csrf,
    route_table,
)
from api_support import api_fixture as api_fixture

from moorage.entrypoints.api import create_app
from moorage.entrypoints.bootstrap import operator_sign_in_link

EMAIL = "ada@example.com"

CALLED_BY_STRANGERS = {
    "POST /api/v1/auth/email/start",
    "POST /api/v1/auth/email/verify",
    "POST /api/v1/auth/link/verify",
    "POST /api/v1/auth/device",
    "POST /api/v1/auth/device/token",
    "POST /api/v1/webhooks/stripe",  # signed by its sender
    "POST /api/v1/machines/join",  # machines have tokens and secrets of their own
    "PUT /api/v1/machines/{machine_id}/key",
    "POST /api/v1/machines/{machine_id}/leave",
    "POST /device",  # its token is a field of its form
    "POST /sign-in",
}
"""The routes that change something and take no cookie, so that none can be misused."""


async def code_for(api: Api, email: str = EMAIL) -> str:
    assert (await api.post(ANONYMOUS, "/auth/email/start", {"email": email})).status_code == 202
    mail = next(mail for mail in await api.mails() if mail["to"] == email)
    found = re.search(r"\b[0-9]{6}\b", mail["text"])
    assert found is not None
    assert found.group() in mail["subject"]
    return found.group()


async def verify(api: Api, code: str, email: str = EMAIL) -> int:
    answer = await api.post(ANONYMOUS, "/auth/email/verify", {"email": email, "code": code})
    if answer.status_code != 200:
        assert_problem(answer, answer.status_code)
        assert "set-cookie" not in answer.headers
    return answer.status_code


def another(code: str) -> str:
    return f"{(int(code) + 1) % 1_000_000:06d}"


async def test_new_person(api: Api) -> None:
    """From the first code to a container, as somebody who was never here."""
    code = await code_for(api)
    answer = await api.post(ANONYMOUS, "/auth/email/verify", {"email": f" {EMAIL} ", "code": code})
    assert answer.status_code == 200, answer.text
    signed_in = answer.json()
    assert signed_in["user"]["email"] == EMAIL
    assert not signed_in["user"]["is_operator"]
    person = bearer("ada", signed_in["session_token"])
    (organization,) = (await api.get(person, "/organizations")).json()["items"]
    assert (organization["name"], organization["role"]) == ("ada", "admin")
    path = f"/organizations/{organization['id']}/projects"
    project = await api.post(person, path, {"name": "models"})
    assert project.status_code == 201, project.text
    assert [item["id"] for item in (await api.get(person, path)).json()["items"]] == [project.json()["id"]]
    created = await api.post(person, f"/projects/{project.json()['id']}/containers", container_body())
    assert created.status_code == 201, created.text
    # Back another day: the same person, and not a second organization.
    assert await verify(api, await code_for(api)) == 200
    assert len(await api.rows("SELECT 1 FROM users WHERE email = :email", email=EMAIL)) == 1
    assert len((await api.get(person, "/organizations")).json()["items"]) == 1


async def test_domain_in_other_case(api: Api) -> None:
    """The same domain however it is written; the local part is the mailbox's own affair."""
    for email in ("Ada@EXAMPLE.com", "Ada@example.COM", "ada@example.com"):
        code = await code_for(api, email.partition("@")[0] + "@example.com")
        assert await verify(api, code, email) == 200
    assert len(await api.rows("SELECT 1 FROM users WHERE NOT is_operator")) == 2


async def test_not_an_address(api: Api) -> None:
    long = "a@b" + "c" * 300
    for email in ("", "x", "a@", "@b", "a@b@c", "a b@c", "a@b\r\nBcc: c@d", "a@-", "ü@b", "a\x00@b", long):
        for path in ("/auth/email/start", "/auth/email/verify"):
            answer = await api.post(ANONYMOUS, path, {"email": email, "code": "123456"})
            body = assert_problem(answer, 422, "invalid_input")
            assert [error["field"] for error in body["errors"]] == ["email"], email
    assert await api.mails() == []


async def test_wrong_code_five_times(api: Api) -> None:
    code = await code_for(api)
    for _ in range(5):
        assert await verify(api, another(code)) == 401
    assert await verify(api, code) == 401
    assert await api.rows("SELECT 1 FROM sessions") == []
    assert await verify(api, await code_for(api)) == 200


async def test_racing_guesses(api: Api) -> None:
    """Of twenty guesses at once at most five are looked at."""
    code = await code_for(api)
    await asyncio.gather(*(verify(api, another(code)) for _ in range(20)))
    assert [row[0] for row in await api.rows("SELECT tries_left FROM sign_in_codes")] == [0]
    assert await verify(api, code) == 401


async def test_racing_right_code(api: Api) -> None:
    code = await code_for(api)
    assert sorted(await asyncio.gather(*(verify(api, code) for _ in range(4)))) == [200, 401, 401, 401]
    assert len(await api.rows("SELECT 1 FROM organizations WHERE name = 'ada'")) == 1


async def test_used_twice(api: Api) -> None:
    code = await code_for(api)
    assert [await verify(api, code), await verify(api, code)] == [200, 401]


async def test_expired(api: Api) -> None:
    code = await code_for(api)
    await api.execute("UPDATE sign_in_codes SET expires_at = now() - interval '1 second'")
    assert await verify(api, code) == 401


async def test_older_code(api: Api) -> None:
    older, newer = await code_for(api), await code_for(api)
    if older != newer:
        assert await verify(api, older) == 401
    assert await verify(api, newer) == 200


async def test_code_of_another_address(api: Api) -> None:
    mine, theirs = await code_for(api, "eve@example.com"), await code_for(api)
    if mine != theirs:
        assert await verify(api, mine) == 401


async def test_known_and_unknown_address(api: Api) -> None:
    await api.new_person(EMAIL)
    answers = [
        await api.post(ANONYMOUS, "/auth/email/start", {"email": email})
        for email in (EMAIL, "new@example.com")
    ]
    assert answers[0].status_code == answers[1].status_code == 202
    assert answers[0].content == answers[1].content
    shapes = {re.sub("[0-9]{6}", "", mail["subject"] + mail["text"]) for mail in await api.mails()}
    assert len(shapes) == 1
    refusals = [
        await api.post(ANONYMOUS, "/auth/email/verify", {"email": email, "code": "x"})
        for email in (EMAIL, "new@example.com", "never@example.com")
    ]
    assert {(one.status_code, one.json()["detail"]) for one in refusals} == {
        (401, refusals[0].json()["detail"])
    }


async def test_rate_limit(api: Api) -> None:
    for _ in range(6):
        await code_for(api)
    answer = await api.post(ANONYMOUS, "/auth/email/start", {"email": EMAIL})
    assert_problem(answer, 429, "too_many_requests")
    assert int(answer.headers["retry-after"]) > 0
    assert (await api.post(ANONYMOUS, "/auth/email/start", {"email": "b@example.com"})).status_code == 202
    assert len(await api.mails()) == 7


async def test_racing_starts(api: Api) -> None:
    """Twelve at once are no way around the limit, and leave one code that works."""
    starts = [api.post(ANONYMOUS, "/auth/email/start", {"email": EMAIL}) for _ in range(12)]
    statuses = sorted([answer.status_code for answer in await asyncio.gather(*starts)])
    assert statuses == [202] * 6 + [429] * 6
    assert len(await api.rows("SELECT 1 FROM sign_in_codes WHERE tries_left > 0")) == 1
    assert await verify(api, "000000x") == 401


async def test_sign_up_closed(api: Api) -> None:
    closed = api.settings.model_copy(update={"sign_up": "closed"})
    api.app = create_app(closed, api.database, api.app.state.keyring)
    await api.new_person(EMAIL)
    assert await verify(api, await code_for(api)) == 200
    answer = await api.post(
        ANONYMOUS,
        "/auth/email/verify",
        {"email": "new@example.com", "code": await code_for(api, "new@example.com")},
    )
    assert closed.support_contact in assert_problem(answer, 403, "forbidden")["detail"]
    assert await api.rows("SELECT 1 FROM users WHERE email = 'new@example.com'") == []


async def test_cookie(api: Api) -> None:
    answer = await api.post(ANONYMOUS, "/auth/email/verify", {"email": EMAIL, "code": await code_for(api)})
    name_and_value, *attributes = answer.headers.get_list("set-cookie")[0].split("; ")
    assert name_and_value == f"{COOKIE}={answer.json()['session_token']}"
    assert {"HttpOnly", "SameSite=lax", "Path=/"} <= set(attributes)
    assert not any(attribute.startswith("Domain") for attribute in attributes)
    me = (await api.get(cookie(answer.json()["session_token"]), "/me")).json()
    assert me["csrf_token"] == answer.json()["csrf_token"]
    assert me["user"]["email"] == EMAIL


async def test_cookie_over_https(api: Api) -> None:
    settings = api.settings.model_copy(update={"public_url": "https://cloud.example.com"})
    api.app = create_app(settings, api.database, api.app.state.keyring)
    answer = await api.post(ANONYMOUS, "/auth/email/verify", {"email": EMAIL, "code": await code_for(api)})
    name_and_value, *attributes = answer.headers.get_list("set-cookie")[0].split("; ")
    assert name_and_value.startswith("__Host-moorage=")
    assert "Secure" in attributes
    # The name that plain http uses could be set by a neighbour on the same domain: it is worth nothing here.
    assert (await api.get(cookie(answer.json()["session_token"]), "/me")).status_code == 401


async def test_logout(api: Api) -> None:
    home = await new_home(api)
    answer = await api.post(cookie(home.token, right_csrf(home.token)), "/auth/logout")
    assert answer.status_code == 204
    assert f'{COOKIE}=""' in answer.headers["set-cookie"]
    for asker in (home.admin, cookie(home.token)):
        assert_problem(await api.get(asker, "/me"), 401, "authentication_failed")


@pytest.mark.parametrize(
    "change",
    ["ended_at = now()", "expires_at = now()", "last_used_at = now() - interval '13 hours'"],
)
async def test_dead_session(api: Api, change: str) -> None:
    home = await new_home(api)
    assert (await api.get(home.admin, "/me")).status_code == 200
    await api.execute(f"UPDATE sessions SET {change}")
    assert_problem(await api.get(home.admin, "/me"), 401)


async def test_one_time_link(api: Api) -> None:
    """Opening the page signs nobody in, however often; its button does, once."""
    async with api.database.transaction() as session:
        link = await operator_sign_in_link(session, api.settings)
    before = await api.dump()
    for _ in range(3):
        page = await api.ask(ANONYMOUS, "GET", link)
        assert page.status_code == 200
        assert "set-cookie" not in page.headers
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert page.headers["cache-control"] == "no-store"
    assert await api.dump() == before
    token = parse_qs(urlsplit(link).query)["token"][0]
    first = await api.ask(ANONYMOUS, "POST", "/sign-in", data={"token": token})
    assert first.status_code == 200
    session_token = re.search(f"{COOKIE}=([^;]+)", first.headers["set-cookie"])
    assert session_token is not None
    me = (await api.get(cookie(session_token.group(1)), "/me")).json()
    assert me["user"]["is_operator"]
    second = await api.ask(ANONYMOUS, "POST", "/sign-in", data={"token": token})
    assert second.status_code == 401
    assert "set-cookie" not in second.headers
    assert_problem(await api.post(ANONYMOUS, "/auth/link/verify", {"token": token}), 401)


async def test_racing_link(api: Api) -> None:
    async with api.database.transaction() as session:
        token = (await operator_sign_in_link(session, api.settings)).partition("token=")[2]
    tries = [api.post(ANONYMOUS, "/auth/link/verify", {"token": token}) for _ in range(5)]
    assert sorted([one.status_code for one in await asyncio.gather(*tries)]) == [200, 401, 401, 401, 401]


async def test_expired_link(api: Api) -> None:
    async with api.database.transaction() as session:
        token = (await operator_sign_in_link(session, api.settings)).partition("token=")[2]
    await api.execute("UPDATE sign_in_links SET expires_at = now()")
    assert_problem(await api.post(ANONYMOUS, "/auth/link/verify", {"token": token}), 401)


async def test_link_with_markup(api: Api) -> None:
    page = await api.ask(ANONYMOUS, "GET", "/sign-in", params={"token": '"><script>alert(1)</script>'})
    assert "<script" not in page.text


@pytest.mark.long
async def test_cookie_without_csrf_token(api: Api) -> None:
    """Every route that changes something, as the route table has it today."""
    home = await new_home(api)
    _, other_token = await api.new_person("eve@example.com")
    changing = [
        (method, path)
        for method, path in route_table(api.app)
        if method not in SAFE_METHODS and f"{method} {path}" not in CALLED_BY_STRANGERS
    ]
    before = await api.dump()
    wrong_tokens = (None, "", "wrong", right_csrf(other_token), right_csrf(home.token)[:-1], "\u00e9")
    cases = 0
    for method, path in changing:
        filled = path.replace("{project_id}", home.project_id).replace(
            "{organization_id}", home.organization_id
        )
        for wrong in wrong_tokens:
            asker = cookie(home.token)
            headers = {} if wrong is None else {"X-CSRF-Token": wrong.encode("latin-1")}
            answer = await api.ask(asker, method, filled, headers=headers, json=container_body())
            assert_problem(answer, 403, "csrf_failed")
            cases += 1
    assert await api.dump() == before
    assert len(changing) >= 8
    print(f"{cases} requests on {len(changing)} routes, 0 got through")
    created = await api.post(
        cookie(home.token, right_csrf(home.token)),
        f"/projects/{home.project_id}/containers",
        container_body(),
    )
    assert created.status_code == 201


async def test_with_a_mail_server_nobody_but_the_receiver_reads_a_mail(api: Api) -> None:
    await api.post(ANONYMOUS, "/auth/email/start", {"email": "ann@example.com"})
    settings = api.settings.model_copy(update={"smtp_host": "127.0.0.1"})
    with_server = Api(create_app(settings, api.database, KEYRING), api.database, settings)
    answer = await with_server.get(api.operator, "/operator/outbox")
    assert_problem(answer, 409, "outbox_closed")
