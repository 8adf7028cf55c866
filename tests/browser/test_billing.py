"""What an admin sets about money: monthly limits; and what the page says where cards are not set up."""

from itertools import pairwise
from pathlib import Path

from playwright.sync_api import Browser, expect

from tests.browser.conftest import browsing
from tests.browser.money import TOP_UPS
from tests.browser.scene import BEGAN, Scene
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
        card.get_by_role("button", name="Set a limit for production").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Dollars a calendar month").fill("120.50")
        dialog.get_by_role("button", name="Limit to $120.50 a month").click()
        expect(card.get_by_role("row", name="production")).to_contain_text("$0.00$120.50")
        assert limits() == [None, 120_500_000]
        card.get_by_role("button", name="Change the limit of production").click()
        dialog.get_by_role("switch", name="Limit what is spent").press("Space")
        dialog.get_by_role("button", name="Save").click()
        expect(card).not_to_contain_text("$120.50")
        assert limits() == [None, None]


def test_invoices_and_receipts_are_downloaded(browser: Browser, world: World) -> None:
    home = world.home("accountant@example.com", "Ledger & Sons", "production")
    transfer = {"method": "bank_transfer", "amount_microusd": 50_000_000, "transfer": "local"}
    top_ups = f"/organizations/{home.organization_id}/billing/top-ups"
    announced = world.do(world.api.post(home.admin, top_ups, transfer)).json()
    confirm = f"/operator/bank-transfers/{announced['id']}/confirm"
    world.do(world.api.post(world.api.operator, confirm, {"received_microusd": 50_000_000}))
    with browsing(browser, world, home.token) as page:
        page.goto(f"{world.url}/projects/{home.project_id}/billing")
        card = page.get_by_role("region", name="Documents")
        card.get_by_role("button", name="Billing details").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Name").fill("Ledger & Sons Ltd")
        dialog.get_by_label("Address").fill("1 Quay Street\nHarbourtown")
        dialog.get_by_role("button", name="Save").click()
        expect(dialog).to_be_hidden()
        card.get_by_text("Receipts", exact=True).click()
        with page.expect_download() as download:
            card.get_by_role("link", name="PDF of").first.click()
        assert Path(download.value.path()).read_bytes().startswith(b"%PDF-")


def test_whoever_comes_back_from_paying_sees_the_money_arrive(browser: Browser, world: World) -> None:
    home = world.home("payer@example.com", "Payer", "production")
    transfer = {"method": "bank_transfer", "amount_microusd": 50_000_000, "transfer": "local"}
    top_ups = f"/organizations/{home.organization_id}/billing/top-ups"
    announced = world.do(world.api.post(home.admin, top_ups, transfer)).json()
    with browsing(browser, world, home.token) as page:
        page.goto(f"{world.url}/projects/{home.project_id}/billing")
        expect(page.get_by_role("region", name="Automatic top-up")).to_be_visible()
        page.goto(f"{world.url}/billing?paid={announced['id']}")
        told = page.get_by_role("status").filter(has_text="$50.00")
        expect(told).to_contain_text("Your payment of $50.00 is not confirmed yet.")
        confirm = f"/operator/bank-transfers/{announced['id']}/confirm"
        world.do(world.api.post(world.api.operator, confirm, {"received_microusd": 50_000_000}))
        expect(told).to_contain_text("$50.00 have arrived", timeout=30_000)


def test_only_what_is_set_up_is_offered(browser: Browser, world: World) -> None:
    home = world.home("cardless@example.com", "Cardless", "production")
    with browsing(browser, world, home.token) as page:
        page.goto(f"{world.url}/projects/{home.project_id}/billing")
        card = page.get_by_role("region", name="Automatic top-up")
        expect(card).to_contain_text("cards are not set up here. Ask")
        expect(card.get_by_role("button")).to_have_count(0)
        top_up = page.get_by_role("region", name="Top up")
        expect(top_up.get_by_role("button", name="Get transfer details for $100.00")).to_be_visible()
        expect(top_up.get_by_role("radio", name="Card")).to_have_count(0)
        expect(top_up.get_by_role("radio", name="International")).to_have_count(0)


def test_entries_say_what_they_were_for_and_what_was_left(
    browser: Browser, world: World, scene: Scene
) -> None:
    entries = f"/organizations/{scene.home.organization_id}/billing/entries"
    found = world.do(world.api.get(scene.home.admin, f"{entries}?limit=3")).json()
    following = world.do(
        world.api.get(scene.home.admin, f"{entries}?limit=3&cursor={found['next_cursor']}")
    ).json()["items"]
    known = [*found["items"], *following]
    for newer, older in pairwise(known):
        left = newer["balance_after_microusd"] - newer["amount_microusd"]
        assert older["balance_after_microusd"] == left, "also over the edge of a page"
    with browsing(browser, world, scene.home.token) as page:
        page.goto(f"{world.url}{scene.project}/billing")
        card = page.get_by_role("region", name="Entries")
        rows = card.locator("tbody tr")
        hours = rows.filter(has_text="llama-3.1-8b-chat: ").first
        expect(hours).to_contain_text("of l40s-48gb")
        expect(hours).to_contain_text("production")
        card.get_by_text("Payments", exact=True).click()
        expect(rows.filter(has_text="hours of")).to_have_count(0)
        expect(rows.filter(has_text="Top-up by card")).to_have_count(len(TOP_UPS))


def test_the_balance_is_drawn_day_by_day(browser: Browser, world: World, scene: Scene) -> None:
    with browsing(browser, world, scene.home.token) as page:
        before = world.now()
        page.goto(f"{world.url}{scene.project}/billing")
        card = page.get_by_role("region", name="Balance by day")
        bars = card.get_by_role("img", name="Balance by day, in dollars, over 30 days").locator("i")
        expect(bars).not_to_have_count(0)
        # Nothing was there before the organization was. A day may end while the page is opened.
        first = (scene.painted_at - BEGAN).date()
        days = {(moment.date() - first).days + 1 for moment in (before, world.now())}
        assert bars.count() in days
        page.get_by_role("radiogroup", name="How many days").get_by_text("7 days").click()
        expect(card.get_by_role("img", name="over 7 days").locator("i")).to_have_count(7)
