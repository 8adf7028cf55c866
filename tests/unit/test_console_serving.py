"""Which file answers which address, and what a browser is told about it."""

from pathlib import Path

import httpx
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from moorage.console.serving import Console, content_security_policy

HTML = {"Accept": "text/html,application/xhtml+xml"}


async def nothing(scope: Scope, receive: Receive, send: Send) -> None:
    await PlainTextResponse("nothing here", 404)(scope, receive, send)


@pytest.fixture
def built(tmp_path: Path) -> Path:
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text("<!doctype html>the page")
    (tmp_path / "assets/main-1a2b.js").write_text("plain")
    (tmp_path / "assets/main-1a2b.js.gz").write_bytes(b"\x1f\x8b squeezed")
    (tmp_path / "favicon.svg").write_text("<svg/>")
    (tmp_path / "docs/api").mkdir(parents=True)
    (tmp_path / "docs/api/index.html").write_text("<!doctype html>the API")
    return tmp_path


async def ask(built: Path, path: str, method: str = "GET", **headers: str) -> httpx.Response:
    app = Console(built, "https://gw.example:8443/base", otherwise=nothing)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://console") as client:
        request = client.build_request(method, path, headers={"Accept-Encoding": "identity", **headers})
        answer = await client.send(request, stream=True)
        answer._content = b"".join([chunk async for chunk in answer.aiter_raw()])
        return answer


async def test_the_page_is_asked_for_again_and_files_named_by_content_are_not(built: Path) -> None:
    page = await ask(built, "/index.html")
    assert page.headers["cache-control"] == "no-cache"
    script = await ask(built, "/assets/main-1a2b.js")
    assert script.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert script.headers["content-type"].startswith("text/javascript")
    assert script.content == b"plain"


async def test_whoever_takes_gzip_gets_it(built: Path) -> None:
    script = await ask(built, "/assets/main-1a2b.js", **{"Accept-Encoding": "gzip, br"})
    assert script.headers["content-encoding"] == "gzip"
    assert script.headers["content-type"].startswith("text/javascript")
    assert script.headers["vary"] == "Accept-Encoding"
    assert script.content.startswith(b"\x1f\x8b")


@pytest.mark.parametrize("path", ["/", "/projects/prj_x/containers", "/login", "/invitations/token"])
async def test_an_address_that_a_person_opens_is_the_page(built: Path, path: str) -> None:
    answer = await ask(built, path, **HTML)
    assert answer.status_code == 200
    assert b"the page" in answer.content
    assert "content-security-policy" in answer.headers


@pytest.mark.parametrize("path", ["/docs/api", "/docs/api/", "/docs/api/index.html"])
async def test_a_folder_with_a_page_is_that_page(built: Path, path: str) -> None:
    answer = await ask(built, path, Accept="*/*")
    assert answer.status_code == 200
    assert b"the API" in answer.content
    console = await ask(built, "/", **HTML)
    assert answer.headers["content-security-policy"] == console.headers["content-security-policy"]
    assert answer.headers["cache-control"] == "no-cache"


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("headers", [{}, {"Accept": "*/*"}, {"Accept": "application/json"}])
async def test_the_first_page_is_there_for_everybody(
    built: Path, method: str, headers: dict[str, str]
) -> None:
    assert (await ask(built, "/", method, **headers)).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("GET", "/nothing", {}),
        ("GET", "/api/v1/nothing", HTML),
        ("GET", "/assets/gone-3c4d.js", HTML),
        ("POST", "/", HTML),
        ("GET", "/../serving.py", {}),
        ("GET", "/%2e%2e/serving.py", {}),
        ("GET", "/assets/main-1a2b.js.gz", {}),
    ],
)
async def test_everything_else_is_left_to_the_api(
    built: Path, method: str, path: str, headers: dict[str, str]
) -> None:
    assert (await ask(built, path, method, **headers)).status_code == 404


async def test_without_a_build_there_is_no_console(tmp_path: Path) -> None:
    assert (await ask(tmp_path, "/", **HTML)).status_code == 404


def test_scripts_come_from_our_own_files_alone() -> None:
    rules = dict(
        rule.split(" ", 1) for rule in content_security_policy("https://gw.example:8443/base").split("; ")
    )
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == "'self'"
    assert rules["connect-src"] == "'self' https://gw.example:8443"
    assert rules["frame-ancestors"] == "'none'"
