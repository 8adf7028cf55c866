"""/docs/api in a real browser: what the API says of itself can be read, from this installation's own files alone."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Visitor


def test_a_route_can_be_read(visitor: Visitor) -> None:
    page = visitor.page
    # A page may catch what its policy forbids; the browser tells it all the same.
    page.add_init_script(
        "window.violations = [];"
        "document.addEventListener('securitypolicyviolation',"
        " (one) => violations.push(`${one.violatedDirective} ${one.blockedURI}`));"
    )
    answers: set[int] = set()
    page.on("response", lambda answer: answers.add(answer.status))
    visitor.open("/docs/api")
    expect(page.get_by_role("heading", name="Moorage").first).to_be_visible()
    page.get_by_placeholder("Filter by tag").fill("drafts")
    route = page.locator(".opblock").filter(has_text="Apply the draft")
    route.locator(".opblock-summary-control").click()
    expect(route.get_by_text("Members of the project and its manage keys may call it")).to_be_visible()
    expect(route.get_by_text("no_draft: There is no draft to apply.")).to_be_visible()
    expect(route.get_by_text('"strategy": "replace"')).to_be_visible()
    for asks_for_a_key in ("Try it out", "Authorize", "authorization"):
        expect(page.get_by_role("button", name=asks_for_a_key)).to_have_count(0)
    assert page.evaluate("violations") == []
    assert answers == {200}
    # Requests to other hosts and errors of the page are complaints of the visitor's.


@pytest.mark.long
def test_an_address_leads_to_one_route_and_the_page_follows_the_theme(visitor: Visitor) -> None:
    page = visitor.page
    page.emulate_media(color_scheme="dark")
    visitor.open("/docs/api#/containers/start-container")
    route = page.locator(".opblock.is-open")
    expect(route.get_by_text("insufficient_credit: The credit does not cover it.")).to_be_visible()
    background = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    red, green, blue = (int(part) for part in background.removeprefix("rgb(").removesuffix(")").split(","))
    assert red + green + blue < 3 * 80, "dark"
