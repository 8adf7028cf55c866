"""The pages follow what happens: told by a stream, and by asking again where there is none."""

from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import browsing
from tests.browser.world import World
from tests.database.api_support import Home


def start(world: World, container: str) -> None:
    world.do(world.api.execute("UPDATE containers SET state = 'STARTING' WHERE id = :id", id=container))


def open_list(page: Page, world: World, home: Home, container: str) -> None:
    page.goto(f"{world.url}/projects/{home.project_id}/containers/{container}")
    expect(page.get_by_role("main").get_by_role("status").first).to_contain_text("Stopped")


def test_a_change_is_told_and_only_what_changed_is_read(browser: Browser, world: World) -> None:
    home = world.home("live@example.com", "Live", "production")
    container = world.container(home, "follows", "STOPPED")
    other = world.container(home, "stays", "STOPPED")
    with browsing(browser, world, home.token) as page:
        with page.expect_response(lambda answer: answer.url.endswith("/events")):
            open_list(page, world, home, container)
        page.wait_for_load_state("load")
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        start(world, container)
        expect(page.get_by_role("main").get_by_role("status").first).to_contain_text("Starting")
        row = page.get_by_role("region", name="Containers").get_by_role("link", name="follows")
        expect(row).to_contain_text("Starting")
        assert not [url for url in asked if url.endswith(f"/containers/{other}")]

        # A container that was not there before is in the list as soon as it is made.
        world.container(home, "newcomer", "STOPPED")
        expect(page.get_by_role("link", name="newcomer")).to_be_visible()


def test_without_a_stream_the_pages_ask_again(browser: Browser, world: World) -> None:
    home = world.home("poll@example.com", "Poll", "production")
    container = world.container(home, "follows", "STOPPED")
    with browsing(browser, world, home.token) as page:
        page.route("**/events", lambda route: route.abort())
        open_list(page, world, home, container)
        start(world, container)
        expect(page.get_by_role("main").get_by_role("status").first).to_contain_text("Starting")


def test_one_that_serves_says_what_is_wrong_all_the_same(browser: Browser, world: World) -> None:
    home = world.home("fewer@example.com", "Breakwater", "production")
    message = "2 of 3 replicas run. Waits for cpu-small: all of it is in use."
    trouble = {"reason": "no_capacity", "message": message, "desired_replicas": 3}
    container = world.container(home, "chat", "RUNNING", ready=2, **trouble)
    with browsing(browser, world, home.token) as page:
        page.goto(f"{world.url}/projects/{home.project_id}/containers/{container}")
        expect(page.get_by_role("status", name="Trouble")).to_have_text(message)
