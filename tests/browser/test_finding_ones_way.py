"""Where one is, how one gets anywhere, and what asks before it does something that others notice."""

import re

from playwright.sync_api import Browser, Page, expect

from moorage.kit.clock import system_clock
from tests.browser.conftest import browsing
from tests.browser.history import add_history
from tests.browser.world import World


def test_titles_name_the_page_and_the_palette_acts(browser: Browser, world: World) -> None:
    home = world.home("finds@example.com", "Finds", "production")
    container = world.container(home, "serves", "RUNNING", ready=1)
    world.container(home, "rests", "STOPPED")
    with browsing(browser, world, home.token) as page:
        page.goto(f"{world.url}/projects/{home.project_id}/containers/{container}")
        expect(page).to_have_title("serves · production · Moorage")
        palette(page, "logs")
        expect(page).to_have_title("Logs · serves · production · Moorage")
        palette(page, "settings rests")
        expect(page).to_have_title("Settings · rests · production · Moorage")
        palette(page, "new project")
        expect(page.get_by_role("dialog").get_by_label("Name")).to_be_focused()
        page.keyboard.press("Escape")
        # Nobody uses it, so nobody is asked.
        stopped = f"/containers/{container}"
        with page.expect_response(lambda answer: answer.url.endswith(f"{stopped}/stop")):
            palette(page, "stop serves")
        page.goto(f"{world.url}/projects/{home.project_id}/containers/{container}")
        expect(page.get_by_role("main").get_by_role("status").first).to_contain_text(re.compile("Stopp"))
    assert desired_state(world, container) == "stopped"


def palette(page: Page, words: str) -> None:
    page.get_by_role("button", name=re.compile("^Search or jump to")).click()
    page.get_by_role("textbox", name=re.compile("^Name of a container")).fill(words)
    # What there is to choose from is read when the palette opens.
    expect(page.get_by_role("option", selected=True)).to_be_visible()
    page.keyboard.press("Enter")


def test_a_stop_under_traffic_asks_first(browser: Browser, world: World) -> None:
    home = world.home("asks@example.com", "Asks", "production")
    container = world.container(home, "busy", "RUNNING", ready=1)
    world.do(add_history(world.api, container, system_clock.now(), first_port=29_500))
    with browsing(browser, world, home.token) as page:
        page.goto(f"{world.url}/projects/{home.project_id}/containers/{container}")
        page.get_by_role("button", name="Stop", exact=True).click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text(re.compile(r"It is in use: [\d,]+ requests? in the last 5 minutes"))
        expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
        page.keyboard.press("Escape")
        assert desired_state(world, container) == "running"
        page.get_by_role("button", name="Stop", exact=True).click()
        dialog.get_by_role("button", name="Stop").click()
        expect(dialog).to_be_hidden()
        assert desired_state(world, container) == "stopped"


def desired_state(world: World, container: str) -> str:
    rows = world.do(world.api.rows("SELECT desired_state FROM containers WHERE id = :id", id=container))
    return str(rows[0].desired_state)


def test_projects_and_organizations_are_renamed_and_projects_deleted(browser: Browser, world: World) -> None:
    home = world.home("names@example.com", "Old name", "one")
    world.container(home, "goes", "STOPPED")
    second = world.do(
        world.api.post(home.admin, f"/organizations/{home.organization_id}/projects", {"name": "two"})
    ).json()
    with browsing(browser, world, home.token) as page:
        page.goto(f"{world.url}/projects/{home.project_id}/api-keys")
        change(page, "Organization: Old name", "Rename organization", "New name")
        expect(page.get_by_role("button", name="Organization: New name")).to_be_visible()
        change(page, "Project: one", "Rename project", "two")
        expect(page.get_by_role("dialog")).to_contain_text("A project named two already exists.")
        page.get_by_role("dialog").get_by_label("Name").fill("first")
        page.get_by_role("dialog").get_by_role("button", name="Rename").click()
        expect(page.get_by_role("button", name="Project: first")).to_be_visible()

        page.get_by_role("button", name="Project: first").click()
        page.get_by_role("menuitem", name="Delete project").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("Its container stops and is deleted")
        expect(dialog.get_by_role("button", name="Delete project")).to_be_disabled()
        dialog.get_by_label("Type first").fill("first")
        dialog.get_by_role("button", name="Delete project").click()
        expect(page).to_have_url(re.compile(f"/projects/{second['id']}/containers"))
        expect(page.get_by_role("button", name="Project: two")).to_be_visible()
    assert world.do(world.api.get(home.admin, f"/projects/{home.project_id}")).status_code == 404


def change(page: Page, menu: str, item: str, name: str) -> None:
    page.get_by_role("button", name=menu).click()
    page.get_by_role("menuitem", name=item).click()
    page.get_by_role("dialog").get_by_label("Name").fill(name)
    page.get_by_role("dialog").get_by_role("button", name="Rename").click()


def test_steps_are_in_the_address_and_a_new_key_outlives_escape(browser: Browser, world: World) -> None:
    home = world.home("steps@example.com", "Steps", "production")
    world.do(world.api.execute("UPDATE nodes SET seen_at = now() + interval '1 hour' WHERE name = 'node-03'"))
    with browsing(browser, world, home.token) as page:
        page.goto(f"{world.url}/projects/{home.project_id}/containers")
        page.get_by_role("link", name="Create a container").click()
        page.get_by_role("radio", name="Your own image").check()
        page.get_by_role("button", name="Use the example").click()
        page.get_by_role("button", name="Next: Base settings").click()
        page.get_by_role("button", name="Next: Resources").click()
        page.get_by_role("radio", name="cpu-nano").check(force=True)
        page.get_by_role("button", name="Next: Advanced").click()
        page.get_by_role("button", name="Next: Review").click()
        expect(page.get_by_role("region", name="Price per hour")).to_contain_text("Available after$19.995")
        lasts = page.get_by_role("region", name="Your balance lasts until")
        expect(lasts.get_by_role("listitem")).to_have_count(2)
        # On a phone the price stands beside the button.
        page.set_viewport_size({"width": 390, "height": 844})
        expect(page.get_by_role("contentinfo").get_by_text("$0.005/h").first).to_be_in_viewport()
        page.set_viewport_size({"width": 1280, "height": 800})
        page.go_back()
        expect(page.get_by_role("heading", name="Advanced")).to_be_visible()
        page.go_back()
        expect(page.get_by_role("radio", name="cpu-nano")).to_be_checked()
        page.reload()
        expect(page.get_by_role("radio", name="cpu-nano")).to_be_checked()
        page.go_forward()
        expect(page.get_by_role("heading", name="Advanced")).to_be_visible()

        page.goto(f"{world.url}/projects/{home.project_id}/api-keys")
        page.get_by_role("button", name="Create key").first.click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Name").fill("my-app")
        dialog.get_by_role("button", name="Create key").click()
        expect(dialog).to_contain_text("It is not shown again")
        page.keyboard.press("Escape")
        dialog.get_by_role("button", name="I have copied it").click()
        expect(dialog).to_be_hidden()


def test_health_checks_are_hidden_by_one_press(browser: Browser, world: World) -> None:
    home = world.home("probed@example.com", "Probed", "production")
    lines = ["GET /health 200", "loaded the model", "GET /health 200", "GET /v1/models 200"]
    checked = {"health_path": "/health"}
    container = world.container(home, "talks", "RUNNING", ready=1, logs=lines, settings=checked)
    unchecked = world.container(home, "listens", "RUNNING", ready=1, logs=lines)
    address = f"{world.url}/projects/{home.project_id}/containers"
    with browsing(browser, world, home.token) as page:
        page.goto(f"{address}/{container}/logs")
        shown = page.get_by_role("region", name="Log lines, newest first").get_by_role("button")
        hide = page.get_by_role("switch", name="Hide health checks")
        expect(shown).to_have_count(4)
        hide.press("Space")
        expect(shown).to_have_count(2)
        expect(page.get_by_label("Leave out lines with")).to_have_value("GET /health")
        page.reload()
        expect(hide).to_be_checked()
        hide.press("Space")
        expect(shown).to_have_count(4)
        # Without a path there is no line about a check.
        page.goto(f"{address}/{unchecked}/logs")
        expect(shown).to_have_count(4)
        expect(hide).to_have_count(0)


def test_filters_edits_and_ranges_survive_their_page(browser: Browser, world: World) -> None:
    home = world.home("keeps@example.com", "Keeps", "production")
    lines = ["GET /health 200", "loaded the model", "GET /health 200", "Model answers"]
    container = world.container(home, "talks", "RUNNING", ready=1, logs=lines)
    address = f"{world.url}/projects/{home.project_id}/containers/{container}"
    with browsing(browser, world, home.token) as page:
        page.goto(f"{address}/logs")
        shown = page.get_by_role("region", name="Log lines, newest first")
        page.get_by_label("Leave out lines with").fill("/health")
        expect(shown.get_by_role("button")).to_have_count(2)
        page.get_by_label("Text in the line").fill("model")
        expect(shown.locator("mark")).to_have_text(["Model", "model"])
        expect(page).to_have_url(re.compile(r"text=model.*exclude=|exclude=.*text=model"))
        page.reload()
        expect(page.get_by_label("Leave out lines with")).to_have_value("/health")
        expect(shown.locator("mark")).to_have_count(2)

        page.goto(f"{address}/metrics")
        page.get_by_text("6 h", exact=True).click()
        expect(page).to_have_url(re.compile("seconds=21600"))
        page.reload()
        expect(page.get_by_role("radio", name="6 h")).to_be_checked()

        page.goto(f"{address}/settings")
        page.get_by_label("Start command").fill("serve --fast")
        foot = page.get_by_role("status").filter(has_text="not staged yet")
        expect(foot).to_contain_text("1 change, not staged yet.")
        expect(page.get_by_role("button", name="Stage changes")).to_be_in_viewport()
        page.get_by_role("navigation", name="Dashboard").get_by_role("link", name="Logs").click()
        page.get_by_role("navigation", name="Dashboard").get_by_role("link", name="Settings").click()
        expect(page.get_by_label("Start command")).to_have_value("serve --fast")
        kept = page.evaluate("JSON.stringify({...localStorage}) + JSON.stringify({...sessionStorage})")
        assert "serve --fast" not in kept
        page.get_by_role("button", name="Stage changes").click()
        expect(
            page.get_by_role("navigation", name="Dashboard").get_by_role("link", name="Settings")
        ).to_contain_text("staged")
