"""Every page, in both themes: nothing serious for axe-core, no violation of the content security policy, no error."""

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import REPOSITORY, build_console
from tests.browser.scene import Scene
from tests.browser.screenshots import addresses, arrange
from tests.browser.world import World

AXE = REPOSITORY / "console/node_modules/axe-core/axe.min.js"
DIST = REPOSITORY / "src/moorage/console/dist"
COLOURS = "{runOnly: ['color-contrast', 'link-in-text-block']}"
"""Axe's rules about colours."""
FIRST_LOAD_LIMIT_BYTES = 250_000


def open_page(browser: Browser, world: World, scene: Scene, **options: object) -> tuple[Page, list[str]]:
    context = browser.new_context(viewport={"width": 1280, "height": 800}, **options)  # type: ignore[arg-type]
    context.add_cookies([{"name": "moorage_session", "value": scene.home.token, "url": world.url}])
    page, complaints = context.new_page(), []
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on(
        "request",
        lambda request: None if request.url.startswith(world.url) else complaints.append(request.url),
    )
    return page, complaints


@pytest.mark.long
def test_every_page_can_be_used_by_everybody(browser: Browser, world: World, scene: Scene) -> None:
    page, complaints = open_page(browser, world, scene, color_scheme="light", reduced_motion="reduce")
    serious = []
    for name, path in addresses(scene).items():
        page.goto(f"{world.url}{path}")
        page.locator("h1").first.wait_for(state="attached")
        page.wait_for_load_state("networkidle") if name == "sign-in" else page.wait_for_timeout(300)
        arrange(page, name)
        serious += in_both_themes(page, name)
    assert serious == []
    assert complaints == []
    page.context.close()


def in_both_themes(page: Page, where: str) -> list[str]:
    """What is serious on a page that is open in the light one."""
    # Evaluated by the debugger and not by the page, so the policy stays as it is.
    page.evaluate(AXE.read_text())
    serious = violations(page, f"{where}, light", "{resultTypes: ['violations']}")
    page.emulate_media(color_scheme="dark")
    expect(page.locator("html")).to_have_attribute("data-mantine-color-scheme", "dark")
    # The same page in other colours, so all that can differ is what axe says of colours.
    serious += violations(page, f"{where}, dark", COLOURS)
    page.emulate_media(color_scheme="light")
    return serious


def violations(page: Page, where: str, options: str) -> list[str]:
    found = page.evaluate(f"axe.run(document, {options})")["violations"]
    return [
        f"{where}: {one['id']}: {one['nodes'][0]['html'][:200]}"
        for one in found
        if one["impact"] in ("serious", "critical")
    ]


def test_first_load_is_small() -> None:
    build_console()
    page = (DIST / "index.html").read_text()
    scripts = [path for path in DIST.glob("assets/*.js") if path.name in page]
    assert scripts
    assert sum(path.with_name(f"{path.name}.gz").stat().st_size for path in scripts) <= FIRST_LOAD_LIMIT_BYTES


def test_a_thousand_containers_are_a_few_rows(browser: Browser, world: World) -> None:
    home = world.home("many@example.com", "Many", "large")
    first = world.container(home, "container-0000", "STOPPED")

    async def copies() -> None:
        await world.api.execute(
            "INSERT INTO containers SELECT (jsonb_populate_record(c, jsonb_build_object("
            "'id', 'ctr_' || translate(left(md5(n::text), 20), '0189', 'ghij'), 'name', 'container-' || lpad(n::text, 4, '0')))).* "
            "FROM containers c, generate_series(1, 999) n WHERE c.id = :id",
            id=first,
        )

    world.do(copies())
    page, complaints = open_page(browser, world, Scene(home, first, first, first, first, first, world.now()))
    page.goto(f"{world.url}/projects/{home.project_id}/containers/{first}")
    expect(page.get_by_placeholder("Filter 1000 containers")).to_be_visible()
    assert page.get_by_role("region", name="Containers").get_by_role("link").count() < 60
    page.get_by_label("Filter containers").fill("0777")
    expect(page.get_by_role("link", name="container-0777")).to_be_visible()
    assert complaints == []
    page.context.close()


def test_hostile_names_and_lines_stay_text(browser: Browser, world: World) -> None:
    """Markup, escapes and direction marks in what a user or a process writes change nothing of the page around it."""
    home = world.home("evil@example.com", "<b>Org</b>", "<img src=x onerror=alert(1)>")
    name = "<script>alert(1)</script>\u202egnp"
    lines = [
        "<img src=x onerror=alert(2)>",
        "\x1b]0;title\x07\x1b[2J\x1b[31mred\x1b[0m after",
        "\x1b[38;2;1;2;3mtrue colour\x1b[0m \u202ereversed",
        "2026-01-01T00:00:00Z stderr fake time \ufffd\ufffd",
        "x" * 10_000_000,
    ]
    container = world.container(home, name, "RUNNING", ready=1, logs=lines)
    page, complaints = open_page(
        browser, world, Scene(home, container, container, container, container, container, world.now())
    )
    page.on("dialog", lambda dialog: complaints.append(f"a dialog: {dialog.message}"))
    page.add_init_script(
        "window.violations = 0; document.addEventListener('securitypolicyviolation', () => window.violations++)"
    )
    page.goto(f"{world.url}/projects/{home.project_id}/containers/{container}/logs")
    log = page.get_by_role("region", name="Log lines, newest first")
    expect(log.get_by_text("<img src=x onerror=alert(2)>")).to_be_visible()
    expect(log.get_by_text("red", exact=True)).to_have_attribute("data-color", "red")
    assert "title" not in log.inner_text()
    assert "\x1b" not in log.inner_text()
    assert "\u202e" not in log.inner_text()
    assert page.locator("img").count() == 0
    log.get_by_role("button").first.click()
    expect(log.get_by_role("button", name="Copy line")).to_be_visible()
    violations = page.evaluate("window.violations")
    page.goto(f"{world.url}/projects/{home.project_id}/containers/{container}")
    expect(page.get_by_role("heading", name="<script>alert(1)</script>")).to_be_visible()
    violations += page.evaluate("window.violations")
    scripts = sum(complaint.startswith("a dialog") for complaint in complaints)
    print(
        f"{scripts} scripts run, {violations} violations of the content security policy, with a line of 10 MB"
    )
    assert (scripts, violations, complaints) == (0, 0, [])
    page.context.close()
