"""The handbook in a real browser, as anybody sees it: search, both themes, and nothing that the policy forbids."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.test_pages import AXE, COLOURS, violations
from tests.browser.world import World
from tests.built_handbook import build_handbook


@dataclass
class Reader:
    """Somebody who is not signed in."""

    page: Page
    url: str
    complaints: list[str] = field(default_factory=list)

    def open(self, path: str) -> None:
        self.page.goto(f"{self.url}/docs/{path}")


@pytest.fixture(scope="module")
def built() -> None:
    build_handbook()


@pytest.fixture
def reader(built: None, browser: Browser, world: World) -> Iterator[Reader]:
    context = browser.new_context(viewport={"width": 1280, "height": 800}, color_scheme="light")
    reader = Reader(context.new_page(), world.url)
    # What the policy stops is an error on the console, and the event names it.
    context.add_init_script(
        "document.addEventListener('securitypolicyviolation', (event) => console.error('policy: ' + event.blockedURI))"
    )
    reader.page.on(
        "console", lambda message: reader.complaints.append(message.text) if message.type == "error" else None
    )
    reader.page.on(
        "response",
        lambda answer: (
            reader.complaints.append(f"{answer.status} {answer.url}") if answer.status >= 400 else None
        ),
    )
    reader.page.on("pageerror", lambda error: reader.complaints.append(str(error)))
    reader.page.on(
        "request",
        lambda request: None if request.url.startswith(world.url) else reader.complaints.append(request.url),
    )
    yield reader
    assert reader.complaints == []
    context.close()


FOUND = {
    "port": "reference/reasons",
    "out of memory": "reference/reasons#out-of-memory",
    "invoice": "budgets",
}
"""Where a search for these words has to lead; to a section where one has them as its title."""


def test_search(reader: Reader) -> None:
    for words, place in FOUND.items():
        reader.open("")
        reader.page.locator("input[name=q]").fill(words)
        reader.page.keyboard.press("Enter")
        found = reader.page.locator("#search-results li a")
        expect(found.first).to_be_visible()
        expect(reader.page.locator("#search-results .search-summary")).to_contain_text("finished")
        leads_to = found.evaluate_all("all => all.map(({pathname, hash}) => pathname + hash)")
        assert f"/docs/{place}" in leads_to, leads_to
        if "#" in place:
            assert leads_to[0] == f"/docs/{place}", "a title with these words comes first"
    # What is found is there.
    found.first.click()
    expect(reader.page.locator("h1")).to_be_visible()


@pytest.mark.long
def test_themes(reader: Reader) -> None:
    axe = AXE.read_text()
    for path in ("tutorial", "reference/settings", "search?q=port"):
        reader.open(path)
        reader.page.evaluate(axe)
        light = background(reader.page)
        serious = violations(reader.page, f"{path}, light", "{resultTypes: ['violations']}")
        reader.page.emulate_media(color_scheme="dark")
        assert background(reader.page) != light
        serious += violations(reader.page, f"{path}, dark", COLOURS)
        reader.page.emulate_media(color_scheme="light")
        assert serious == []
    # The console's choice is the handbook's too, until somebody chooses here.
    reader.page.evaluate("localStorage.setItem('moorage-color-scheme', 'dark')")
    reader.open("tutorial")
    expect(reader.page.locator("body")).to_have_attribute("data-theme", "dark")


def test_an_address_that_is_not_there(reader: Reader) -> None:
    reader.open("reference/no/such/page")
    expect(reader.page.get_by_role("heading", name="Page not found")).to_be_visible()
    reader.page.get_by_role("link", name="first page").click()
    expect(reader.page.get_by_role("heading", name="Moorage handbook")).to_be_visible()
    # The browser itself says that the first address was not there.
    assert [one for one in reader.complaints if "404" not in one] == []
    reader.complaints.clear()


def background(page: Page) -> str:
    return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))
