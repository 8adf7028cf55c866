"""The history of a container's settings, and the way back to one of them."""

from playwright.sync_api import Browser, expect

from tests.browser.conftest import browsing
from tests.browser.versions import WENT_BACK, add_canary, add_versions
from tests.browser.world import World


def test_a_canary_side_by_side(browser: Browser, world: World) -> None:
    home = world.home("miner@example.com", "Colliery", "production")
    container = world.container(home, "chat", "RUNNING", ready=1, serving_generation=1)
    world.do(add_versions(world.api, container, home.user_id, world.now()))
    world.do(add_canary(world.api, container, world.now()))
    with browsing(browser, world, home.token) as page:
        page.goto(f"{world.url}/projects/{home.project_id}/containers/{container}/versions")
        trial = page.get_by_role("region", name="Version 3 is on trial beside version 2")
        old, new = (trial.get_by_role("region", name=f"Version {number}", exact=True) for number in (2, 3))
        for side, words in (
            (old, ["900", "0.11 %", "20 ms"]),
            (new, ["100", "2.00 %", "10 ms", "50 % faster"]),
        ):
            for word in words:
                expect(side).to_contain_text(word)
        expect(page.get_by_role("region", name="Versions", exact=True)).to_contain_text("Canary 10 %")
        page.get_by_role("slider").press("ArrowRight")
        expect(trial).to_contain_text("Canary 11 %")
        trial.get_by_role("switch").click()
        expect(trial).to_contain_text("of 30 min")
        trial.get_by_role("button", name="Promote version 3").click()
        expect(page.get_by_text("It takes over.")).to_be_visible()
    found = world.do(world.api.get(home.admin, f"/containers/{container}")).json()["rollout"]
    assert (found["share"], found["promote_after_s"]) == (11, 1800)


def test_history_and_the_way_back(browser: Browser, world: World) -> None:
    home = world.home("historian@example.com", "Logbook", "production")
    container = world.container(home, "chat", "RUNNING", ready=1, serving_generation=1)
    world.do(add_versions(world.api, container, home.user_id, world.now()))
    with browsing(browser, world, home.token) as page:
        page.goto(f"{world.url}/projects/{home.project_id}/containers/{container}/versions")
        history = page.get_by_role("region", name="Versions", exact=True)
        failed, serving, first = (history.get_by_role("row").nth(number) for number in (1, 2, 3))
        for row, words in (
            (failed, ["Rolled back", "Start command", "--gpu-memory-utilization 0.99", WENT_BACK, "1 min"]),
            (serving, ["Serving", "TOKEN", "changed", "sha256:9c41…e07b"]),
            (first, ["Replaced", "Created", "2 h"]),
        ):
            for word in words:
                expect(row).to_contain_text(word)
        expect(serving.get_by_role("button")).to_have_count(0)
        first.get_by_role("button", name="Roll back").click()
        page.get_by_role("dialog").get_by_role("button", name="Roll back to version 1").click()
        update = page.get_by_role("region", name="Version 4 is on trial")
        expect(update).to_contain_text("What served before serves on.")
        expect(update.get_by_role("button", name="Back to version 2")).to_be_visible()
    found = world.do(world.api.get(home.admin, f"/containers/{container}")).json()
    assert (found["rollout"]["version"], found["rollout"]["from_version"]) == (4, 2)
