"""The bell: what the organization was told of, and what of it is new to whoever looks."""

import json
import re
from datetime import timedelta
from typing import Any

from playwright.sync_api import Browser, Page, expect

from moorage.kit.clock import system_clock
from moorage.kit.ids import new_activity_id, new_audit_record_id
from tests.browser.conftest import browsing
from tests.browser.test_pages import in_both_themes
from tests.browser.world import World
from tests.database.api_support import Home

LOOPBACK = "Listens on 127.0.0.1:8000; expected 0.0.0.0:8080."


def recorded(world: World, home: Home, action: str, minutes_ago: float = 0, **details: Any) -> None:
    world.do(
        world.api.execute(
            "INSERT INTO audit_records (id, organization_id, at, actor, action, target, details) VALUES "
            "(:id, :organization_id, :at, 'system', :action, :organization_id, CAST(:details AS jsonb))",
            id=new_audit_record_id(),
            organization_id=home.organization_id,
            at=system_clock.now() - timedelta(minutes=minutes_ago),
            action=action,
            details=json.dumps(details),
        )
    )


def fails(world: World, home: Home, container: str, minutes_ago: float) -> None:
    world.do(
        world.api.execute(
            "INSERT INTO activities (id, project_id, container_id, actor, kind, at, message, details) VALUES "
            "(:id, :project_id, :container_id, 'system', 'container.state', :at, :message, "
            """'{"from": "STARTING", "to": "FAILED"}')""",
            id=new_activity_id(),
            project_id=home.project_id,
            container_id=container,
            at=system_clock.now() - timedelta(minutes=minutes_ago),
            message=LOOPBACK,
        )
    )


def long_a_member(world: World, home: Home) -> None:
    joined = "UPDATE organization_members SET joined_at = now() - interval '1 day' WHERE user_id = :id"
    world.do(world.api.execute(joined, id=home.user_id))


def bell(page: Page, unread: str = "") -> Any:
    name = f"Notifications, {unread} unread" if unread else "Notifications"
    return page.get_by_role("button", name=name, exact=True)


def test_what_is_new_is_counted_until_it_is_looked_at_in_any_browser(browser: Browser, world: World) -> None:
    home = world.home("told@example.com", "Buoy", "production")
    long_a_member(world, home)
    container = world.do(world.api.new_container(home.project_id, "whisper"))
    fails(world, home, container, minutes_ago=10)
    recorded(world, home, "billing.low_credit", 5, hours=24, available_microusd=3_000_000)
    recorded(world, home, "organization.resume", 60 * 24 * 2)  # before they came
    address = f"{world.url}/projects/{home.project_id}/api-keys"
    with browsing(browser, world, home.token) as page:
        page.goto(address)
        expect(bell(page, "2")).to_be_visible()
        # By keyboard alone.
        bell(page, "2").focus()
        page.keyboard.press("Enter")
        panel = page.get_by_role("dialog")
        expect(panel.get_by_role("heading", name="Notifications")).to_be_focused()
        items = panel.get_by_role("listitem")
        expect(items).to_have_text(
            [
                re.compile("^New: The credit ends within 24 hours"),
                re.compile(f"^New: whisper failed{re.escape(LOOPBACK)}"),
                re.compile("^The organization is no longer suspended"),
            ]
        )
        # What was new stays marked for as long as it is looked at; the count is gone at once.
        expect(bell(page)).to_be_visible()
        expect(items.first).to_contain_text("New:")
        assert in_both_themes(page, "notifications") == []
        page.keyboard.press("Escape")
        expect(panel).to_be_hidden()
        expect(bell(page)).to_be_focused()

        # The next one arrives while they look at something else.
        recorded(world, home, "billing.spending_alert", percent=80, spent_microusd=1, limit_microusd=2)
        expect(bell(page, "1")).to_be_visible()
        page.keyboard.press("Enter")
        expect(items).to_have_count(4)
        expect(items.first).to_have_text(re.compile("^New: 80 %"))
        expect(items.nth(1)).to_have_text(re.compile("^The credit"))
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        expect(panel.get_by_role("link", name="whisper failed")).to_be_focused()
        page.keyboard.press("Enter")
        page.wait_for_url(re.compile(f"/containers/{container}"))
        expect(panel).to_be_hidden()

    with browsing(browser, world, home.token) as elsewhere:
        elsewhere.goto(address)
        expect(bell(elsewhere)).to_be_visible()
        bell(elsewhere).click()
        expect(elsewhere.get_by_role("dialog").get_by_role("listitem")).to_have_count(4)
        expect(elsewhere.get_by_role("dialog").get_by_text("New:")).to_have_count(0)


def test_many_on_a_phone_and_none(browser: Browser, world: World) -> None:
    home = world.home("phone-told@example.com", "A harbour with a long name", "production-in-europe")
    with browsing(browser, world, home.token) as page:
        page.set_viewport_size({"width": 390, "height": 844})
        page.goto(f"{world.url}/projects/{home.project_id}/containers")
        bell(page).click()
        panel = page.get_by_role("dialog")
        expect(panel.get_by_text("Nothing in the last 30 days.")).to_be_visible()
        page.keyboard.press("Escape")
        long_a_member(world, home)
        for minutes_ago in range(25):
            recorded(world, home, "invitation.accept", minutes_ago, email=f"{'a' * 60}@example.com")
        page.reload()
        # In one line with what is beside it, and large enough for a finger.
        box, logo = (
            bell(page, "9+").bounding_box(),
            page.get_by_role("link", name="Moorage, containers").bounding_box(),
        )
        assert box is not None
        assert logo is not None
        assert min(box["width"], box["height"]) >= 44
        assert abs((box["y"] + box["height"] / 2) - (logo["y"] + logo["height"] / 2)) < 8
        bell(page, "9+").click()
        expect(panel.get_by_role("listitem")).to_have_count(20)
        place = panel.bounding_box()
        assert place is not None
        assert place["x"] >= 0
        assert place["x"] + place["width"] <= 390
        assert place["y"] + place["height"] <= 844
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        expect(bell(page)).to_be_visible()
