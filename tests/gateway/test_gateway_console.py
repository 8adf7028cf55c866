"""Which browser pages may call an endpoint: the console's, and no other."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from gateway_support import Container, Place, RawAnswer, make_place, new_key, raw_request, table

from moorage.gateway.dataplane import DataPlane
from moorage.gateway.table import Route
from moorage.kit import ids

CONSOLE = "https://cloud.example.com"
PROJECT, CONTAINER = ids.new_project_id(), ids.new_container_id()
KEY = new_key(PROJECT)


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with tempfile.TemporaryDirectory(prefix="moor-gw-") as folder:
        Path(folder).chmod(0o755)
        place = make_place(Path(folder), console_origin=CONSOLE)
        yield place
        place.kill()


@pytest.fixture
async def served(gateway: DataPlane, container: Container) -> None:
    await gateway.apply(table([Route(CONTAINER, PROJECT, (container.server(),))], [KEY]))


async def ask(place: Place, method: str, *headers: str) -> RawAnswer:
    lines = [f"{method} /c/{CONTAINER}/hello HTTP/1.1", "Host: gw", "Connection: close", *headers]
    return await raw_request(place.port, ("\r\n".join(lines) + "\r\n\r\n").encode())


@pytest.mark.usefixtures("served")
async def test_the_console_may_ask_before_it_has_a_key(place: Place) -> None:
    answer = await ask(place, "OPTIONS", f"Origin: {CONSOLE}", "Access-Control-Request-Method: POST")
    assert answer.status == 204
    assert answer.headers["access-control-allow-origin"] == CONSOLE
    assert "authorization" in answer.headers["access-control-allow-headers"]


@pytest.mark.usefixtures("served")
async def test_its_answers_can_be_read_there_with_their_request_id(place: Place) -> None:
    answer = await ask(place, "GET", f"Origin: {CONSOLE}", f"Authorization: Bearer {KEY.secret}")
    assert answer.status == 200
    assert answer.headers["access-control-allow-origin"] == CONSOLE
    assert answer.headers["access-control-expose-headers"] == "X-Request-ID"
    refused = await ask(place, "GET", f"Origin: {CONSOLE}")
    assert refused.status == 401
    assert refused.headers["access-control-allow-origin"] == CONSOLE


@pytest.mark.usefixtures("served")
async def test_a_container_tells_the_consoles_browser_nothing_about_the_host(
    place: Place, container: Container
) -> None:
    """They may share it, and cookies know no ports: a container could sign somebody out, or in as somebody else."""
    container.answer_headers = {
        "Set-Cookie": "moorage_session=another",
        "Clear-Site-Data": '"cookies"',
        "Strict-Transport-Security": "max-age=31536000",
        "Alt-Svc": 'h3=":443"',
        "X-Of-The-Container": "kept",
    }
    key = f"Authorization: Bearer {KEY.secret}"
    in_a_browser = await ask(place, "GET", f"Origin: {CONSOLE}", key)
    assert in_a_browser.headers["x-of-the-container"] == "kept"
    sent = {name.lower() for name in container.answer_headers}
    assert sent & set(in_a_browser.headers) == {"x-of-the-container"}
    elsewhere = await ask(place, "GET", key)
    assert elsewhere.headers["set-cookie"] == "moorage_session=another"


@pytest.mark.usefixtures("served")
@pytest.mark.parametrize(
    "origin", ["https://evil.example", f"{CONSOLE}.evil.example", "null", f"{CONSOLE}, https://evil.example"]
)
async def test_no_other_page_may(place: Place, origin: str) -> None:
    preflight = await ask(place, "OPTIONS", f"Origin: {origin}", "Access-Control-Request-Method: POST")
    assert preflight.status == 401
    answer = await ask(place, "GET", f"Origin: {origin}", f"Authorization: Bearer {KEY.secret}")
    assert answer.status == 200
    for one in (preflight, answer):
        assert "access-control-allow-origin" not in one.headers


@pytest.mark.usefixtures("served")
async def test_an_options_request_of_a_client_reaches_the_container(place: Place) -> None:
    answer = await ask(place, "OPTIONS", f"Authorization: Bearer {KEY.secret}")
    assert answer.status != 204
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("origin", ["https://a.example/path", "a.example", "https://a b", "https://a\nfoo"])
def test_what_is_not_an_origin_is_refused(tmp_path: Path, origin: str) -> None:
    with pytest.raises(ValueError, match="origin"):
        make_place(tmp_path, console_origin=origin)
