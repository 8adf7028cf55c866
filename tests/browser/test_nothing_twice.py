"""The newcomer's journey, and what comes after it, with the connection cut at every step that changes something: what was pressed
is seen not to be known, is pressed once more, and is done once."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from tests.browser.conftest import browsing
from tests.browser.world import World
from tests.database.api_support import Asker

UNKNOWN = re.compile("nobody knows whether this was done")


CUTS = pytest.mark.parametrize("when", ["on the way there", "on the way back"])


@dataclass
class Cut:
    """What is pressed fails, by which nobody can tell whether it arrived; then all is well."""

    page: Page
    when: str
    keys: list[str] = field(default_factory=list)
    """One of each POST: it is sent again under the same."""

    def __call__(
        self, press: Callable[[], None], appears: Locator | None = None, method: str = "POST"
    ) -> None:
        """What `appears` by itself where it was done takes the button away."""
        page, sent = self.page, []

        def lose(route: Route) -> None:
            if route.request.method != method:
                route.continue_()
                return
            sent.append(route.request.headers.get("idempotency-key", ""))
            if len(sent) > 1:
                route.continue_()
                return
            if self.when == "on the way back":
                answer = route.fetch()
                assert answer.ok, answer.text()
            route.abort()

        page.route("**/api/v1/**", lose)
        press()
        expect(page.get_by_text(UNKNOWN).first).to_be_visible()
        if self.when == "on the way back" and appears is not None:
            expect(appears).to_be_visible()
        else:
            with page.expect_response(lambda answer: answer.request.method == method):
                press()
        page.unroute_all(behavior="wait")
        if method == "POST":
            [key] = set(sent)
            self.keys.append(key)


@CUTS
def test_a_journey_with_a_cut_at_every_step(browser: Browser, world: World, when: str) -> None:
    word = when.rpartition(" ")[2]
    home = world.home(f"cut-{word}@example.com", "Cut", "gone")
    world.do(world.api.execute("DELETE FROM projects WHERE id = :id", id=home.project_id))
    world.do(world.api.execute("UPDATE nodes SET seen_at = now() + interval '1 hour' WHERE name = 'node-03'"))
    with browsing(browser, world, home.token) as page:
        cut = Cut(page, when)
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
        cut(press(page, "Get transfer details for $250.00"))
        expect(page.get_by_role("region", name="Waiting for your payment")).to_contain_text(
            "Not received yet"
        )

        page.goto(f"{world.url}{at}/members")
        page.get_by_role("button", name="Invite").click()
        page.get_by_role("dialog").get_by_label("E-mail").fill(f"friend-{word}@example.com")
        cut(press(page, "Send invitation", within="dialog"))
        expect(page.get_by_role("button", name=f"Resend to friend-{word}@example.com")).to_be_visible()
    assert len(set(cut.keys)) == len(cut.keys) == 5
    assert [one["name"] for one in items(world, home.admin, f"{at}/containers")] == ["chat"]
    [key] = items(world, home.admin, f"{at}/api-keys")
    assert key["name"] == "app"
    assert secret.endswith(key["hint"])
    organization = f"/organizations/{home.organization_id}"
    assert len(items(world, home.admin, f"{organization}/billing/top-ups")) == 1
    assert len(items(world, home.admin, f"{organization}/invitations")) == 1
    mails = [mail for mail in world.do(world.api.mails()) if mail["to"] == f"friend-{word}@example.com"]
    assert len(mails) == 1


@CUTS
def test_changes_and_ends_with_a_cut_at_every_step(browser: Browser, world: World, when: str) -> None:
    word = when.rpartition(" ")[2]
    home = world.home(f"end-{word}@example.com", f"End {word}", "first")
    container = world.container(home, "chat", "RUNNING", ready=1)
    keys = f"/projects/{home.project_id}/api-keys"
    assert (
        world.do(world.api.post(home.admin, keys, {"name": "app", "scope": "inference"})).status_code == 201
    )
    with browsing(browser, world, home.token) as page:
        cut = Cut(page, when)
        page.goto(f"{world.url}/projects/{home.project_id}/containers/{container}")
        cut(press(page, "Restart"))
        cut(press(page, "Stop"), appears=page.get_by_role("main").get_by_text("Stopping").first)

        page.get_by_role("button", name="Project: first").click()
        page.get_by_role("menuitem", name="Rename project").click()
        page.get_by_role("dialog").get_by_label("Name").fill("second")
        cut(press(page, "Rename", within="dialog"), method="PATCH")
        expect(page.get_by_role("button", name="Project: second")).to_be_visible()

        page.goto(f"{world.url}/projects/{home.project_id}/api-keys")
        page.get_by_role("button", name="Actions of app").click()
        page.get_by_role("menuitem", name="Revoke").click()
        cut(press(page, "Revoke key", within="dialog"), method="DELETE")
        expect(page.get_by_role("dialog")).to_have_count(0)

        page.goto(f"{world.url}/projects/{home.project_id}/containers/{container}")
        page.get_by_role("button", name="More actions").click()
        page.get_by_role("menuitem", name="Delete").click()
        page.get_by_role("dialog").get_by_role("textbox").fill("chat")
        cut(press(page, "Delete container", within="dialog"), method="DELETE")
        expect(page).to_have_url(re.compile(r"/containers$"))
    assert len(set(cut.keys)) == len(cut.keys) == 2
    audit = items(world, home.admin, f"/organizations/{home.organization_id}/audit?limit=100")
    done = [one["action"] for one in audit]
    for action in (
        "container.restart",
        "container.stop",
        "project.rename",
        "api_key.revoke",
        "container.delete",
    ):
        assert done.count(action) == 1, (action, done)


def press(page: Page, name: str, within: str | None = None) -> Callable[[], None]:
    place = page.get_by_role("dialog") if within else page
    return lambda: place.get_by_role("button", name=name).last.click()


def items(world: World, asker: Asker, path: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = world.do(world.api.get(asker, path)).json()["items"]
    return found
