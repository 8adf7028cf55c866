"""Without a connection: it is shown, nothing is done later that was pressed meanwhile, and all is well by itself after."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, Locator, Page, Route, expect

from tests.browser.conftest import browsing
from tests.browser.world import World


@contextmanager
def offline(page: Page) -> Iterator[None]:
    page.context.set_offline(True)
    try:
        yield
    finally:
        page.context.set_offline(False)


def until(holds: Callable[[], bool], page: Page) -> None:
    deadline_s = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline_s, "the condition did not come true in time"
        page.wait_for_timeout(50)


def is_above(upper: Locator, lower: Locator) -> bool:
    above, below = upper.bounding_box(), lower.bounding_box()
    assert above is not None
    assert below is not None
    return above["y"] + above["height"] <= below["y"]


def test_an_action_pressed_without_a_connection_is_not_done_later(browser: Browser, world: World) -> None:
    home = world.home("offline@example.com", "Offline", "production")
    container = world.container(home, "serves", "RUNNING", ready=1)
    with browsing(browser, world, home.token) as page:
        page.goto(f"{world.url}/projects/{home.project_id}/containers/{container}")
        page.get_by_role("link", name="API keys").hover()
        sent: list[str] = []
        page.on("request", lambda request: sent.append(f"{request.method} {request.url}"))
        with offline(page):
            page.get_by_role("button", name="Stop", exact=True).click()
            confirm = page.get_by_role("dialog").get_by_role("button", name="Stop")
            if confirm.is_visible():
                confirm.click()
            notice = page.get_by_text("nobody knows whether this was done").first
            expect(notice).to_be_visible()
            bar = page.get_by_text("Connection lost. Showing")
            expect(bar).to_be_visible()
            until(lambda: is_above(notice, bar), page)
            page.get_by_role("link", name="API keys").click(trial=True)  # nothing lies over it
            tried = len([one for one in sent if one.startswith("POST")])
            returns = len(sent)
        expect(bar).to_be_hidden()
        # Everything is read anew, and with it would come what waited.
        reread = f"GET {world.url}/api/v1/containers/{container}"
        until(lambda: reread in sent[returns:], page)
        page.reload()
        expect(page.get_by_role("main").get_by_role("status").first).to_contain_text("Running")
        assert len([one for one in sent if one.startswith("POST")]) == tried, (
            "nothing waited for the connection"
        )
    shown = world.do(world.api.get(home.admin, f"/containers/{container}")).json()
    assert shown["state"] == "RUNNING"


def test_what_changed_meanwhile_is_there_when_the_connection_returns(browser: Browser, world: World) -> None:
    home = world.home("returns@example.com", "Returns", "production")
    container = world.container(home, "follows", "STOPPED")
    with browsing(browser, world, home.token) as page:
        page.goto(f"{world.url}/projects/{home.project_id}/containers/{container}")
        state = page.get_by_role("main").get_by_role("status").first
        expect(state).to_contain_text("Stopped")
        with offline(page):
            expect(page.get_by_role("alert")).to_contain_text("Connection lost. Showing")
            world.do(
                world.api.execute("UPDATE containers SET state = 'STARTING' WHERE id = :id", id=container)
            )
            expect(state).to_contain_text("Stopped")
        expect(state).to_contain_text("Starting")
        expect(page.get_by_role("alert")).to_have_count(0)


def test_a_form_keeps_what_was_typed(browser: Browser, world: World) -> None:
    home = world.home("typist@example.com", "Typist", "production")
    with browsing(browser, world, home.token) as page:
        page.goto(f"{world.url}/projects/{home.project_id}/api-keys")
        page.get_by_role("button", name="Create key").first.click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Name").fill("kept")
        with offline(page):
            dialog.get_by_role("button", name="Create").click()
            expect(dialog).to_contain_text("Connection lost")
        expect(page.get_by_text("Connection lost. Showing")).to_be_hidden()
        dialog.get_by_role("button", name="Create").click()
        expect(page.get_by_text("moor_").first).to_be_visible()
    keys = world.do(world.api.get(home.admin, f"/projects/{home.project_id}/api-keys")).json()["items"]
    assert [one["name"] for one in keys] == ["kept"]


def test_a_page_that_did_not_arrive_is_loaded_again_by_itself(browser: Browser, world: World) -> None:
    home = world.home("unlucky@example.com", "Unlucky", "production")
    with browsing(browser, world, home.token) as page:
        failed: list[str] = []

        def fail_at_first(route: Route) -> None:
            failed.append(route.request.url)
            # The router itself tries once more.
            route.abort() if len(failed) <= 2 else route.continue_()

        page.route(re.compile(r"/assets/Members.*\.js$"), fail_at_first)
        page.goto(f"{world.url}/projects/{home.project_id}/members")
        expect(page.get_by_text("unlucky@example.com").first).to_be_visible()
        assert len(failed) > 2


def test_a_page_that_did_not_arrive_is_loaded_when_asked_for_again(browser: Browser, world: World) -> None:
    home = world.home("unvisited@example.com", "Unvisited", "production")
    with browsing(browser, world, home.token) as page:
        page.goto(f"{world.url}/projects/{home.project_id}/containers")
        page.get_by_role("link", name="Containers").wait_for()
        # As if it had been tried a few times by itself.
        page.evaluate("sessionStorage.setItem('moorage-reloads', JSON.stringify(Array(4).fill(Date.now())))")
        page.route(re.compile(r"/assets/.*Members.*\.(js|css)$"), lambda route: route.abort())
        page.goto(f"{world.url}/projects/{home.project_id}/members")
        expect(page.get_by_text("This page could not be loaded.")).to_be_visible()
        page.unroute_all()
        page.get_by_role("button", name="Try again").click()
        expect(page.get_by_text("unvisited@example.com").first).to_be_visible()
