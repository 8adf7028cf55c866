"""Small things that were in the way once: where the focus is, what a page of a failed container offers, what is cut off."""

import json
from datetime import timedelta

from playwright.sync_api import Browser, Page, expect

from moorage.kit.clock import system_clock
from tests.browser.conftest import browsing
from tests.browser.world import World

BAD = "rgb(191, 35, 48)"
INK = "rgb(19, 24, 32)"
NARROW_PX = 320


def test_the_overview_of_a_failed_container_offers_its_fix(browser: Browser, world: World) -> None:
    home = world.home("fix@example.com", "Fix", "production")
    container = world.container(
        home,
        "slow",
        "FAILED",
        reason="listens_on_other_port",
        message="Listens on 0.0.0.0:8000; expected 0.0.0.0:8080. Set the port to 8000.",
        settings={"port": 8080},
    )
    world.do(
        world.api.execute(
            "UPDATE containers SET failure_fix = CAST(:fix AS jsonb), failed_generation = generation WHERE id = :id",
            fix=json.dumps({"field": "port", "from": 8080, "to": 8000}),
            id=container,
        )
    )
    with browsing(browser, world, home.token) as page:
        page.goto(f"{world.url}/projects/{home.project_id}/containers/{container}/overview")
        verdict = page.get_by_role("region", name="Why it is not running")
        # The whole of it is in sight, whatever stands below.
        assert verdict.evaluate("one => one.scrollHeight <= one.clientHeight + 1")
        verdict.get_by_role("button", name="Apply and start").click()
        expect(verdict).to_be_hidden()
    shown = world.do(world.api.get(home.admin, f"/containers/{container}")).json()
    assert (shown["port"], shown["state"]) == (8000, "PENDING")


def test_a_dialog_from_a_menu_has_the_focus_and_gives_it_back(browser: Browser, world: World) -> None:
    home = world.home("focus@example.com", "Focus", "production")
    container = world.container(home, "chat", "STOPPED")
    world.do(world.api.post(home.admin, f"/projects/{home.project_id}/api-keys", {"name": "my-app"}))
    with browsing(browser, world, home.token) as page:
        page.goto(f"{world.url}/projects/{home.project_id}/containers/{container}")
        from_menu(page, "More actions", "Delete")
        expect(page.get_by_label("Type chat")).to_be_focused()
        page.keyboard.press("Escape")
        expect(page.get_by_role("button", name="More actions")).to_be_focused()
        from_menu(page, "Project: production", "New project")
        expect(page.get_by_role("dialog").get_by_label("Name")).to_be_focused()
        page.keyboard.press("Escape")
        page.goto(f"{world.url}/projects/{home.project_id}/api-keys")
        from_menu(page, "Actions of my-app", "Revoke")
        expect(page.get_by_role("dialog").get_by_role("button", name="Cancel")).to_be_focused()
        page.keyboard.press("Escape")
        expect(page.get_by_role("button", name="Actions of my-app")).to_be_focused()


def from_menu(page: Page, menu: str, item: str) -> None:
    page.get_by_role("button", name=menu).click()
    page.get_by_role("menuitem", name=item).click()
    expect(page.get_by_role("dialog")).to_be_visible()


def test_a_wrong_field_has_a_red_border_and_the_composer_one_ring(browser: Browser, world: World) -> None:
    home = world.home("fields@example.com", "Fields", "production")
    container = world.container(home, "chat-of-ours", "RUNNING", ready=1)
    with browsing(browser, world, home.token) as page:
        page.goto(f"{world.url}/projects/{home.project_id}/create")
        page.get_by_role("radio", name="Your own image").check()
        page.get_by_role("button", name="Use the example").click()
        page.get_by_role("button", name="Next: Base settings").click()
        name = page.get_by_label("Name", exact=True)
        name.fill("")
        page.get_by_role("button", name="Next: Resources").click()
        expect(name).to_have_css("border-color", BAD)
        expect(name).to_have_css("color", INK)
        page.goto(f"{world.url}/projects/{home.project_id}/containers/{container}/playground")
        message = page.get_by_label("Message", exact=True)
        message.focus()
        expect(message).to_have_css("outline-style", "none")
        # Names keep their hyphens as the font has them; columns of figures do not.
        page.goto(f"{world.url}/projects/{home.project_id}/containers/{container}/overview")
        expect(page.get_by_role("cell", name="node-03")).to_have_css("font-variant-numeric", "normal")
        age = page.get_by_role("region", name="Replicas").get_by_role("cell").last
        expect(age).to_have_css("font-variant-numeric", "tabular-nums")


def test_nothing_is_wider_than_a_small_phone(browser: Browser, world: World) -> None:
    home = world.home("narrow@example.com", "Narrow", "production")
    container = world.container(home, "chat", "RUNNING", ready=1)
    credit = {"organization_id": home.organization_id, "amount_microusd": 900_000_000, "reason": "A trial"}
    world.do(world.api.post(world.api.operator, "/operator/credits", credit))
    with browsing(browser, world, home.token) as page:
        page.set_viewport_size({"width": NARROW_PX, "height": 640})
        for path in (f"containers/{container}", f"containers/{container}/overview", "billing", "create"):
            page.goto(f"{world.url}/projects/{home.project_id}/{path}")
            expect(page.get_by_role("group", name="Credit")).to_contain_text("$920.00")
            widest = page.evaluate("document.documentElement.scrollWidth")
            assert widest <= NARROW_PX, path


def test_charts_begin_with_their_container(browser: Browser, world: World) -> None:
    home = world.home("young@example.com", "Young", "production")
    container = world.container(home, "young", "RUNNING", ready=1)
    created = system_clock.now() - timedelta(minutes=3)
    for table, column in (("containers", "created_at"), ("replicas", "ready_at")):
        where = "id" if table == "containers" else "container_id"
        world.do(
            world.api.execute(
                f"UPDATE {table} SET {column} = :at WHERE {where} = :id", at=created, id=container
            )
        )
    with browsing(browser, world, home.token) as page:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url) if "/metrics?" in request.url else None)
        page.goto(f"{world.url}/projects/{home.project_id}/containers/{container}/metrics")
        expect(page.get_by_role("img", name="Replicas over time")).to_be_visible()
        assert created.strftime("%Y-%m-%dT%H%%3A%M") in asked[0]


def test_a_tab_that_comes_later_lets_the_row_fade_where_it_goes_on(browser: Browser, world: World) -> None:
    home = world.home("tabs@example.com", "Tabs", "production")
    with browsing(browser, world, home.token) as page:
        page.goto(f"{world.url}/projects/{home.project_id}/containers")
        row = page.get_by_role("navigation", name="Sections")
        expect(row.get_by_role("link", name="Billing")).to_be_visible()
        expect(row).not_to_have_attribute("data-cut-right", "")
        # As the tabs that wait for an answer do, without a change of any that is there.
        row.evaluate(
            "one => { const tab = document.createElement('span'); tab.style.cssText = 'flex: none; width: 3000px'; one.append(tab); }"
        )
        expect(row).to_have_attribute("data-cut-right", "")
        row.evaluate("one => one.lastElementChild.style.width = '1px'")
        expect(row).not_to_have_attribute("data-cut-right", "")
        row.evaluate("one => { one.lastElementChild.style.width = '3000px'; }")
        expect(row).to_have_attribute("data-cut-right", "")
        row.evaluate("one => one.lastElementChild.remove()")
        expect(row).not_to_have_attribute("data-cut-right", "")
