"""Oneself and one's organization's webhooks: sessions end, secrets are shown once, deliveries are listed."""

from playwright.sync_api import Browser, expect

from tests.browser.conftest import browsing
from tests.browser.world import World
from tests.database.api_support import bearer


def test_sessions_are_ended_one_by_one_and_all_at_once(browser: Browser, world: World) -> None:
    home = world.home("everywhere@example.com", "Everywhere", "production")
    others = [world.do(world.api.new_person("everywhere@example.com"))[1] for _ in range(3)]

    def still_signed_in() -> int:
        answers = [world.do(world.api.get(bearer("other", token), "/me")) for token in others]
        return sum(answer.status_code == 200 for answer in answers)

    with browsing(browser, world, home.token) as page:
        page.goto(f"{world.url}/projects/{home.project_id}/containers")
        page.get_by_role("button", name="Account of everywhere@example.com").click()
        page.get_by_role("menuitem", name="Account").click()
        sessions = page.get_by_role("region", name="Sessions")
        expect(sessions.get_by_role("button", name="Sign out Unknown")).to_have_count(3)
        sessions.get_by_role("button", name="Sign out Unknown").first.click()
        expect(sessions.get_by_role("button", name="Sign out Unknown")).to_have_count(2)
        assert still_signed_in() == 2
        sessions.get_by_role("button", name="Sign out everywhere else").click()
        page.get_by_role("dialog").get_by_role("button", name="Sign out", exact=True).click()
        expect(sessions.get_by_role("button", name="Sign out Unknown")).to_have_count(0)
        assert still_signed_in() == 0
        expect(page.get_by_role("region", name="Ways to sign in")).to_contain_text("everywhere@example.com")
        page.reload()
        expect(sessions).to_contain_text("This device")


def test_a_webhook_is_made_tested_disabled_and_deleted(browser: Browser, world: World) -> None:
    home = world.home("hooks@example.com", "Hooks", "production")
    webhooks = f"/organizations/{home.organization_id}/webhooks"
    with browsing(browser, world, home.token) as page:
        page.goto(f"{world.url}/projects/{home.project_id}/webhooks")
        expect(page.get_by_text("There is no webhook yet.")).to_be_visible()
        page.get_by_role("button", name="Create webhook").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Address").fill("http://127.0.0.1:9/hook")
        dialog.get_by_role("button", name="Create webhook").click()
        expect(dialog.get_by_label("Address")).to_have_attribute("aria-invalid", "true")
        dialog.get_by_label("Address").fill("https://hooks.example.com/moorage")
        dialog.get_by_role("button", name="Create webhook").click()
        expect(dialog.get_by_text("It is not shown again")).to_be_visible()
        secret = dialog.locator("code").first.inner_text()
        assert secret.startswith("whsec_")
        dialog.get_by_role("button", name="I have copied it").click()
        expect(dialog).to_be_hidden()
        assert secret not in page.content()

        def act(action: str) -> None:
            page.get_by_role("button", name="Actions of https://hooks.example.com/moorage").click()
            page.get_by_role("menuitem", name=action).click()

        act("Send a test")
        expect(page.get_by_role("region", name="Deliveries")).to_contain_text("webhook.test")
        act("Disable")
        expect(page.get_by_role("cell", name="Disabled")).to_be_visible()
        assert not world.do(world.api.get(home.admin, webhooks)).json()["items"][0]["enabled"]
        act("Delete")
        dialog.get_by_role("button", name="Delete webhook").click()
        expect(page.get_by_text("There is no webhook yet.")).to_be_visible()
        assert world.do(world.api.get(home.admin, webhooks)).json()["items"] == []


def test_a_chat_hears_of_what_happens(browser: Browser, world: World) -> None:
    """Its secret concerns nobody, and its events are those that people want to read."""
    home = world.home("chatter@example.com", "Chatter", "production")
    with browsing(browser, world, home.token) as page:
        page.goto(f"{world.url}/projects/{home.project_id}/webhooks")
        page.get_by_role("button", name="Create webhook").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_text("To a chat", exact=True).click()
        expect(dialog).to_contain_text("For Discord, add /slack to it.")
        dialog.get_by_label("Address").fill("https://hooks.example.com/services/T00/B00")
        dialog.get_by_role("button", name="Create webhook").click()
        expect(page.get_by_text("Send a test to see it in the chat.")).to_be_visible()
        expect(dialog).to_be_hidden()
        row = page.get_by_role("row").filter(has_text="hooks.example.com")
        expect(row).to_contain_text("billing.*, container.state, to a chat")
        # Nobody looked whether it works.
        expect(row.get_by_role("cell", name="Enabled", exact=True)).to_be_visible()
    path = f"/organizations/{home.organization_id}/webhooks"
    [made] = world.do(world.api.get(home.admin, path)).json()["items"]
    assert (made["format"], made["events"]) == ("chat", ["billing.*", "container.state"])
