"""The newcomer's journey with the connection cut at every step that makes something: what was pressed is seen not to be known, is
pressed once more, and is there once."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from tests.browser.conftest import browsing
from tests.browser.world import World
from tests.database.api_support import Asker

UNKNOWN = re.compile("nobody knows whether this was done")


@pytest.mark.parametrize("when", ["on the way there", "on the way back"])
def test_a_journey_with_a_cut_at_every_step(browser: Browser, world: World, when: str) -> None:
    word = when.rpartition(" ")[2]
    home = world.home(f"cut-{word}@example.com", "Cut", "gone")
    world.do(world.api.execute("DELETE FROM projects WHERE id = :id", id=home.project_id))
    world.do(world.api.execute("UPDATE nodes SET seen_at = now() + interval '1 hour' WHERE name = 'node-03'"))
    with browsing(browser, world, home.token) as page:
        sent: list[str] = []

        def cut(press: Callable[[], None], appears: Locator | None = None) -> None:
            """The first POST fails, by which nobody can tell whether it arrived; then all is well. What `appears` by itself where
            it was done takes the button away."""
            keys: list[str] = []

            def lose(route: Route) -> None:
                if route.request.method != "POST":
                    route.continue_()
                    return
                keys.append(route.request.headers["idempotency-key"])
                if len(keys) > 1:
                    route.continue_()
                    return
                if when == "on the way back":
                    answer = route.fetch()
                    assert answer.ok, answer.text()
                route.abort()

            page.route("**/api/v1/**", lose)
            press()
            expect(page.get_by_text(UNKNOWN).first).to_be_visible()
            if when == "on the way back" and appears is not None:
                expect(appears).to_be_visible()
            else:
                with page.expect_response(lambda answer: answer.request.method == "POST"):
                    press()
            page.unroute_all(behavior="wait")
            assert len(set(keys)) == 1
            sent.extend(set(keys))

        page.goto(f"{world.url}/organizations/{home.organization_id}")
        page.get_by_label("Name").fill("mine")
        cut(press(page, "Create project"))
        expect(page.get_by_role("button", name="Project: mine")).to_be_visible()
        [project] = items(world, home.admin, f"/organizations/{home.organization_id}/projects")
        at = f"/projects/{project['id']}"

        page.goto(f"{world.url}{at}/containers")
        expect(page.get_by_role("button", name="Deploy the example for $0.005/h")).to_be_enabled()
        container = page.get_by_role("heading", name="chat", exact=True)
        cut(press(page, "Deploy the example for $0.005/h"), appears=container)
        expect(container).to_be_visible()

        page.goto(f"{world.url}{at}/api-keys")
        page.get_by_role("button", name="Create key").first.click()
        page.get_by_role("dialog").get_by_label("Name").fill("app")
        cut(press(page, "Create key", within="dialog"))
        # Shown once, also to whoever did not get it the first time.
        secret = page.get_by_role("dialog").locator("code").first.inner_text()
        assert secret.startswith("moor_")

        page.goto(f"{world.url}{at}/billing")
        page.get_by_text("Bank transfer", exact=True).click()
        page.get_by_text("$250", exact=True).click()
        cut(press(page, "Get details for $250.00"))
        expect(page.get_by_role("region", name="On their way")).to_contain_text("Awaits the transfer")

        page.goto(f"{world.url}{at}/members")
        page.get_by_role("button", name="Invite").click()
        page.get_by_role("dialog").get_by_label("E-mail").fill(f"friend-{word}@example.com")
        cut(press(page, "Send invitation", within="dialog"))
        expect(page.get_by_role("button", name=f"Resend to friend-{word}@example.com")).to_be_visible()
    assert len(set(sent)) == len(sent) == 5
    assert [one["name"] for one in items(world, home.admin, f"{at}/containers")] == ["chat"]
    [key] = items(world, home.admin, f"{at}/api-keys")
    assert key["name"] == "app"
    assert secret.endswith(key["hint"])
    organization = f"/organizations/{home.organization_id}"
    assert len(items(world, home.admin, f"{organization}/billing/top-ups")) == 1
    assert len(items(world, home.admin, f"{organization}/invitations")) == 1
    mails = [mail for mail in world.do(world.api.mails()) if mail["to"] == f"friend-{word}@example.com"]
    assert len(mails) == 1


def press(page: Page, name: str, within: str | None = None) -> Callable[[], None]:
    place = page.get_by_role("dialog") if within else page
    return lambda: place.get_by_role("button", name=name).last.click()


def items(world: World, asker: Asker, path: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = world.do(world.api.get(asker, path)).json()["items"]
    return found
