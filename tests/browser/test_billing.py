"""What an admin sets about money: monthly limits; and what the page says where cards are not set up."""

from playwright.sync_api import Browser, expect

from tests.browser.conftest import browsing
from tests.browser.world import World


def test_a_monthly_limit_is_set_and_taken_away(browser: Browser, world: World) -> None:
    home = world.home("saver@example.com", "Saver", "production")
    path = f"/organizations/{home.organization_id}/billing/limits"

    def limits() -> list[int | None]:
        answer = world.do(world.api.get(home.admin, path)).json()
        return [one["limit_microusd"] for one in (answer["organization"], *answer["projects"])]

    with browsing(browser, world, home.token) as page:
        page.goto(f"{world.url}/projects/{home.project_id}/billing")
        card = page.get_by_role("region", name="Monthly limits")
        card.get_by_role("button", name="Change the limit of production").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Dollars a calendar month").fill("120.50")
        dialog.get_by_role("button", name="Limit to $120.50 a month").click()
        expect(card).to_contain_text("$0.00 of $120.50")
        assert limits() == [None, 120_500_000]
        card.get_by_role("button", name="Change the limit of production").click()
        dialog.get_by_role("switch", name="Limit what is spent").press("Space")
        dialog.get_by_role("button", name="Save").click()
        expect(card).not_to_contain_text("$120.50")
        assert limits() == [None, None]


def test_a_card_that_cannot_be_saved_says_why(browser: Browser, world: World) -> None:
    home = world.home("cardless@example.com", "Cardless", "production")
    with browsing(browser, world, home.token) as page:
        page.goto(f"{world.url}/projects/{home.project_id}/billing")
        card = page.get_by_role("region", name="Automatic top-up")
        expect(card).to_contain_text("No card is saved.")
        card.get_by_role("button", name="Save a card").click()
        expect(card.get_by_role("alert")).to_contain_text("Card payments are not set up here.")
