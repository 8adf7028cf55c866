"""A client that sends slowly, or much, costs the others nothing: every route of the table, before it begins."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from api_support import (
    ANONYMOUS,
    KEYRING,
    Api,
    Asker,
    assert_problem,
    container_body,
    cookie,
    new_home,
    right_csrf,
    route_table,
)
from api_support import api_fixture as api_fixture
from sqlalchemy import text
from test_api_access import absent_ids

from moorage.entrypoints.api import create_app
from moorage.entrypoints.bodies import BodyMiddleware
from moorage.kit.web import STRANGERS_BODY_BYTES, BodyBounds

JSON = {"Content-Type": "application/json"}
WITH_A_BODY = ("POST", "PUT", "PATCH", "DELETE")


@asynccontextmanager
async def half_sent(api: Api, asker: Asker, method: str, path: str) -> AsyncIterator[None]:
    """The headers and one byte of a hundred have arrived, and the application has done all that it does with them."""
    path, _, query = path.partition("?")
    waits = asyncio.Event()
    messages = iter([{"type": "http.request", "body": b"{", "more_body": True}])

    async def receive() -> Any:
        message = next(messages, None)
        if message is None:
            waits.set()
            await asyncio.Event().wait()
        return message

    async def send(_: Any) -> None:
        """A route that takes no body answers at once."""
        waits.set()

    headers = {"host": "127.0.0.1:8080", "content-length": "100", "content-type": "application/json"}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(k.lower().encode(), v.encode()) for k, v in (headers | asker.headers).items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8080),
        "state": {},
    }
    request = asyncio.ensure_future(api.app(scope, receive, send))
    try:
        async with asyncio.timeout(20):
            await waits.wait()
        yield
    finally:
        request.cancel()
        await asyncio.gather(request, return_exceptions=True)


async def test_no_route_holds_a_connection_while_its_body_is_awaited(api: Api) -> None:
    """Generated from the route table, so a new route is in it."""
    home = await new_home(api)
    api.app.state.clock = None  # no request gets as far as to need one
    ids = absent_ids() | {"organization_id": home.organization_id, "project_id": home.project_id}
    askers = [ANONYMOUS, home.admin, cookie(home.token, right_csrf(home.token))]
    routes = [(method, path) for method, path in route_table(api.app) if method in WITH_A_BODY]
    assert len(routes) > 50
    for method, path in routes:
        for asker in askers:
            async with half_sent(api, asker, method, path.format(**ids)):
                assert (pool := api.database.connections_in_use) == 0, f"{asker.name} {method} {path}: {pool}"


async def test_thirty_slow_posts_leave_the_api_to_the_others(api: Api) -> None:
    """`/device` looked at its cookie, and then waited for the rest with a connection in its hand."""
    home = await new_home(api)
    slow = cookie(home.token, right_csrf(home.token))
    sent = [half_sent(api, slow, "POST", "/device?code=ABCD-EFGH") for _ in range(30)]
    for one in sent:
        await one.__aenter__()
    async with asyncio.timeout(5):
        assert (await api.get(home.admin, "/me")).status_code == 200
    idle = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%'"
    )
    async with api.database.reading() as session:
        assert (await session.execute(text(idle))).scalar_one() == 0
    for one in sent:
        await one.__aexit__(None, None, None)


async def test_a_body_that_does_not_come_is_given_up(api: Api) -> None:
    hurried = create_app(api.settings.model_copy(update={"body_timeout_s": 0.1}), api.database, KEYRING)

    async def drops() -> AsyncIterator[bytes]:
        while True:
            yield b" "
            await asyncio.sleep(0.01)

    quick = Api(hurried, api.database, api.settings)
    answer = await quick.ask(ANONYMOUS, "POST", "/api/v1/auth/device", content=drops(), headers=JSON)
    assert_problem(answer, 408, "body_too_slow")


async def test_strangers_may_send_little(api: Api) -> None:
    for path in (
        "/auth/device",
        "/auth/device/token",
        "/auth/email/start",
        "/auth/email/verify",
        "/auth/link/verify",
    ):
        body = {"email": "x" * STRANGERS_BODY_BYTES}
        refused = assert_problem(await api.post(ANONYMOUS, path, body), 413, "body_too_large")
        assert str(STRANGERS_BODY_BYTES) in refused["detail"]


async def test_every_route_has_a_limit(api: Api) -> None:
    home = await new_home(api)
    ids = absent_ids() | {"organization_id": home.organization_id, "project_id": home.project_id}
    for method, path in route_table(api.app):
        if method in WITH_A_BODY:
            content = b'"' + b"x" * 3_000_000 + b'"'
            answer = await api.ask(home.admin, method, path.format(**ids), content=content, headers=JSON)
            assert_problem(answer, 413, "body_too_large")
            assert answer.headers["connection"] == "close"


@pytest.mark.parametrize(
    "document",
    [
        [[]] * 600_000,
        {f"n{number}": 1 for number in range(100_000)},
        {"env": {f"N{number}": number for number in range(100_000)}},
        "[" * 60_000,
    ],
    ids=["lists", "names", "variables", "deep"],
)
async def test_much_json_is_refused_before_it_is_parsed(api: Api, document: Any) -> None:
    """1.9 MB took two seconds of everybody's time, and 20 MB were answered."""
    home = await new_home(api)
    content = document.encode() if isinstance(document, str) else json.dumps(document).encode()
    path = f"/api/v1/projects/{home.project_id}/containers"
    answer = await api.ask(home.admin, "POST", path, content=content[: 2**21 - 1], headers=JSON)
    assert_problem(answer, 422, "invalid_input")
    assert len(answer.content) < 1000


async def test_an_error_is_smaller_than_what_it_is_about(api: Api) -> None:
    home = await new_home(api)
    path = f"/projects/{home.project_id}/containers"
    wrong = {f"{'n' * 500}{number}": None for number in range(1000)}
    answer = await api.post(home.admin, path, wrong)
    body = assert_problem(answer, 422, "invalid_input")
    assert len(answer.content) < 20_000
    assert "more" in body["detail"]
    echo = await api.post(home.admin, path, container_body(resources={"mode": "E" * 200_000}))
    assert_problem(echo, 422, "invalid_input")
    assert len(echo.content) < 5000


async def test_a_waiting_body_counts_for_its_address(api: Api) -> None:
    """And no longer than it waits."""
    middleware = BodyMiddleware(api.app, api.app.routes, send_within_s=10)
    assert middleware._bounds_of("POST", "/api/v1/projects/p/containers").most_bytes == 2 * 2**20
    assert middleware._bounds_of("POST", "/api/v1/organizations") == BodyBounds()
    home = await new_home(api)
    assert (await api.post(home.admin, "/organizations", {"name": "one"})).status_code == 201
    assert not middleware._waiting_bytes


async def test_a_body_of_nobody_is_not_taken(api: Api) -> None:
    """Whoever brings neither a key nor a cookie is refused before the body, and not after it."""
    home = await new_home(api)
    path = f"/projects/{home.project_id}/containers"
    asked = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal asked
        while asked < 1000:
            asked += 1
            yield b" " * 1024

    answer = await api.ask(ANONYMOUS, "POST", f"/api/v1{path}", content=endless(), headers=JSON)
    assert_problem(answer, 401, "authentication_failed")
    assert asked * 1024 <= STRANGERS_BODY_BYTES + 2048
    announced = {"Content-Length": "60000", **JSON}
    answer = await api.ask(ANONYMOUS, "POST", f"/api/v1{path}", content=b"", headers=announced)
    assert_problem(answer, 401, "authentication_failed")
    large = container_body(environment={"A": "x" * 8000})
    assert (await api.post(home.admin, path, large)).status_code != 401
