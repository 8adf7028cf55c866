"""The built handbook: no dead link, nothing inline, nothing from elsewhere, and the way it is served."""

import re
from collections.abc import AsyncIterator
from urllib.parse import urldefrag, urljoin, urlsplit

import httpx
import pytest
from starlette.responses import PlainTextResponse

from moorage.console.handbook import BUILT_HANDBOOK, Handbook
from moorage.containers.states import Reason
from tests.built_handbook import PAGES, REPOSITORY, Page, build_handbook, read_pages

OF_THE_INSTALLATION = ("/docs/api", "/favicon.svg")
"""What is served beside the handbook, and what it may use."""


@pytest.fixture(scope="module")
def pages() -> dict[str, Page]:
    build_handbook()
    return read_pages()


@pytest.fixture
async def browser(pages: dict[str, Page]) -> AsyncIterator[httpx.AsyncClient]:
    handbook = Handbook(
        BUILT_HANDBOOK,
        "http://gateway.example.com",
        otherwise=PlainTextResponse("console"),
        not_found=PlainTextResponse("nothing", 404),
    )
    transport = httpx.ASGITransport(handbook)
    async with httpx.AsyncClient(
        transport=transport, base_url="http://moorage.test", headers={"Accept": "text/html"}
    ) as client:
        yield client


def test_every_link_leads_somewhere(pages: dict[str, Page]) -> None:
    dead = []
    for name, page in pages.items():
        for link in page.links:
            address, anchor = urldefrag(urljoin(f"/docs/{name}", link))
            if urlsplit(address).scheme or address in OF_THE_INSTALLATION:
                continue
            target = address.removeprefix("/docs/") or "index"
            if target not in pages or (anchor and anchor not in pages[target].ids):
                dead.append(f"{name}: {link}")
    assert dead == []


def test_nothing_that_the_policy_forbids(pages: dict[str, Page]) -> None:
    for name, page in pages.items():
        assert page.inline == [], name
        for address in page.loaded:
            if address in OF_THE_INSTALLATION:
                continue
            parts = urlsplit(urljoin(f"/docs/{name}", address))
            assert (parts.scheme, parts.netloc) == ("", ""), f"{name} loads {address}"
            path = parts.path.removeprefix("/docs/")
            assert (PAGES / path).is_file() or path in pages, f"{name} loads {address}"


def test_titles_differ(pages: dict[str, Page]) -> None:
    titles = [page.title for page in pages.values()]
    assert sorted(titles) == sorted(set(titles))
    assert all(title.strip() for title in titles)


def test_addresses_of_the_console(pages: dict[str, Page]) -> None:
    source = (REPOSITORY / "console/src/addresses/handbook.ts").read_text()
    addresses = set(re.findall(r'"(/docs/[^"]*)"', source)) - set(OF_THE_INSTALLATION)
    assert len(addresses) > 20
    for address in addresses:
        name, anchor = urldefrag(address.removeprefix("/docs/"))
        page = pages[name or "index"]
        assert not anchor or anchor in page.ids, address
    for reason in Reason:
        assert reason.replace("_", "-") in pages["reference/reasons"].ids


def test_small(pages: dict[str, Page]) -> None:
    first = ["index.html", *(one.partition("?")[0] for one in pages["index"].loaded)]
    sizes = [
        (PAGES / f"{name}.gz").stat().st_size
        for name in first
        if (PAGES / name).suffix in (".html", ".js", ".css")
    ]
    assert len(sizes) > 4
    assert sum(sizes) < 60_000


@pytest.mark.parametrize(
    "path", ["/docs/", "/docs/index", "/docs/tutorial", "/docs/reference/settings", "/docs/search"]
)
async def test_a_page(browser: httpx.AsyncClient, path: str) -> None:
    answer = await browser.get(path)
    assert answer.status_code == 200
    assert answer.headers["Content-Encoding"] == "gzip"
    assert answer.headers["Content-Type"].startswith("text/html")
    assert "script-src 'self';" in answer.headers["Content-Security-Policy"]
    assert "<h1>" in answer.text or path == "/docs/search"


async def test_other_addresses(browser: httpx.AsyncClient) -> None:
    assert (await browser.get("/docs")).headers["Location"] == "/docs/"
    missing = await browser.get("/docs/reference/nothing")
    assert (missing.status_code, "Page not found" in missing.text) == (404, True)
    assert 'href="/docs/_static/' in missing.text, "at whatever depth it is shown"
    program = await browser.get("/docs/reference/nothing", headers={"Accept": "*/*"})
    assert (program.status_code, program.text) == (404, "nothing")
    for path in ("/", "/docsx", "/projects/docs/"):
        assert (await browser.get(path)).text == "console"
    assert (await browser.post("/docs/tutorial")).text == "console"
    for path in (
        "/docs/../serving.py",
        "/docs/%2e%2e/serving.py",
        "/docs/.sources",
        "/docs/tutorial.html.gz",
    ):
        assert "Path(" not in (answer := await browser.get(path)).text
        assert answer.status_code == 404 or answer.text == "console"


async def test_without_a_build() -> None:
    handbook = Handbook(
        BUILT_HANDBOOK / "nothing-here",
        "http://gateway.example.com",
        otherwise=PlainTextResponse("console"),
        not_found=PlainTextResponse("nothing", 404),
    )
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(handbook), base_url="http://moorage.test"
    ) as client:
        assert (await client.get("/docs/tutorial")).text == "console"
