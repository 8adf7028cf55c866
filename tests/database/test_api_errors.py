"""What goes wrong answers as a problem document that tells the client enough and nothing of ours."""

import json
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest
import structlog.testing
from api_support import ANONYMOUS, SUPPORT_CONTACT, Api, assert_problem, container_body, new_home
from api_support import api_fixture as api_fixture

from moorage.kit.database import Database


async def test_unknown_path(api: Api) -> None:
    for path in ("/nothing", "/api/v1/nothing", "/api/v2/me", "/api/v1/containers", "/redoc"):
        assert_problem(await api.ask(ANONYMOUS, "GET", path), 404, "not_found")


async def test_wrong_method(api: Api) -> None:
    answer = await api.ask(ANONYMOUS, "PUT", "/api/v1/me")
    assert_problem(answer, 405, "method_not_allowed")
    assert answer.headers["allow"] == "GET"
    for method in ("TRACE", "CONNECT", "PROPFIND"):
        assert_problem(await api.ask(ANONYMOUS, method, "/api/v1/me"), 405)


async def test_malformed_json(api: Api) -> None:
    home = await new_home(api)
    path = f"/api/v1/projects/{home.project_id}/containers"
    headers = {"Content-Type": "application/json"}
    digits = b'{"name": ' + b"9" * 5000 + b"}"
    for content in (b"", b"{", b'{"name": }', b"\xff\xfe", b"[" * 100_000, digits, b"nul"):
        answer = await api.ask(home.admin, "POST", path, content=content, headers=headers)
        body = assert_problem(answer, 422, "invalid_input")
        assert body["errors"][0]["field"] == "body", content[:20]


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
async def test_body_that_a_foreign_form_could_send(api: Api, kind: str) -> None:
    """Browsers send these without asking first, so they are never read as JSON."""
    content = json.dumps({"email": "a@example.com"})
    answer = await api.ask(
        ANONYMOUS, "POST", "/api/v1/auth/email/start", content=content, headers={"Content-Type": kind}
    )
    assert_problem(answer, 422, "invalid_input")
    assert await api.mails() == []


async def test_huge_body(api: Api) -> None:
    """Refused as soon as it is too large, before it is all in memory."""
    home = await new_home(api)
    path = f"/api/v1/projects/{home.project_id}/containers"
    headers = {"Content-Type": "application/json"}
    large = json.dumps(container_body(category="x" * 8_000_000)).encode()
    assert_problem(
        await api.ask(home.admin, "POST", path, content=large, headers=headers), 413, "body_too_large"
    )
    sent = 0

    async def pieces() -> AsyncIterator[bytes]:
        nonlocal sent
        while sent < 50_000_000:
            sent += 100_000
            yield b" " * 100_000

    answer = await api.ask(home.admin, "POST", path, content=pieces(), headers=headers)
    assert_problem(answer, 413, "body_too_large")
    assert sent < 5_000_000
    # What is allowed must fit: the largest environment, written in the longest way JSON has.
    environment = {f"NAME_{number}": "\u2603" * 10_000 for number in range(8)}
    fits = await api.ask(home.admin, "POST", path, json=container_body(env=environment))
    assert fits.status_code == 201, fits.text[:500]


async def test_nul_in_path(api: Api) -> None:
    home = await new_home(api)
    for path in ("containers/ctr_%00", "projects/%00", "organizations/a%00b", "containers/%00/logs"):
        assert_problem(await api.get(home.admin, f"/{path}"), 404, "not_found")
    assert_problem(await api.ask(home.admin, "DELETE", "/api/v1/api-keys/%00"), 404, "not_found")
    assert_problem(await api.get(ANONYMOUS, "/projects/%00"), 401)


async def test_strange_path_and_query(api: Api) -> None:
    home = await new_home(api)
    for path in (
        "containers/%ff",
        "containers/%ed%a0%80",
        "containers/" + "x" * 5000,
        "projects/%F0%9F%92%A9",
    ):
        assert_problem(await api.get(home.admin, f"/{path}"), 404, "not_found")
    for query in ("limit=0", "limit=201", "limit=x", "limit=" + "9" * 5000, "cursor=", "cursor=%00"):
        assert_problem(await api.get(home.admin, f"/organizations?{query}"), 422, "invalid_input")


async def test_unexpected_exception(api: Api) -> None:
    """Its database does not exist: the answer says whom to tell and which request it was, and nothing of the cause."""
    home = await new_home(api)
    absent = Database(urlsplit(api.database.dsn)._replace(path="/hunter2").geturl(), pool_size=2)
    api.app.state.database = absent
    with structlog.testing.capture_logs() as logged:
        answer = await api.get(home.admin, "/me")
    assert [line["request_id"] for line in logged if line["event"] == "request_failed"] == [
        answer.headers["x-request-id"]
    ]
    body = assert_problem(answer, 500, "internal_error")
    assert SUPPORT_CONTACT in body["detail"]
    assert "errors" not in body
    for secret in ("hunter2", "does not exist", "Traceback", "asyncpg"):
        assert secret not in answer.text
    await absent.close()


async def test_request_id(api: Api) -> None:
    given = await api.ask(ANONYMOUS, "GET", "/healthz", headers={"X-Request-ID": "req_from-the-gateway.1"})
    assert given.headers["x-request-id"] == "req_from-the-gateway.1"
    for forged in ("x" * 5000, "two words", "<script>", "\u00e9\u00e9".encode("latin-1")):
        answer = await api.ask(ANONYMOUS, "GET", "/nothing", headers={"X-Request-ID": forged})  # type: ignore[dict-item]
        assert answer.headers["x-request-id"].startswith("req_")
        assert_problem(answer, 404)


async def test_health(api: Api) -> None:
    assert (await api.ask(ANONYMOUS, "GET", "/healthz")).json() == {"status": "ok"}


async def test_readiness_is_whether_this_process_can_serve(api: Api) -> None:
    """With no reconciler, gateway or machine, and a ledger that differs: people can sign in and look. Nobody is told more."""
    await api.execute(
        "INSERT INTO reconciler_status (name, holder, last_run_at, last_error, consecutive_failures, objects_failing) "
        "VALUES ('ledger', 'here:1', now(), 'The ledger differs in 1 places.', 1, 0)"
    )
    for asker in (ANONYMOUS, api.operator):
        ready = await api.ask(asker, "GET", "/readyz")
        assert (ready.status_code, ready.json()) == (200, {"status": "ready"})
    unreachable = Database("postgresql://moorage:hunter2@127.0.0.1:1/moorage", pool_size=2)
    api.app.state.database = unreachable
    ready = await api.ask(ANONYMOUS, "GET", "/readyz")
    assert (ready.status_code, ready.json()) == (503, {"status": "not_ready"})
    await unreachable.close()
