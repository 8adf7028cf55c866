"""Crash capsules: what was known of a replica that ended badly, and the fix with one press."""

import json

from playwright.sync_api import Browser, expect

from moorage.kit.clock import system_clock
from tests.browser.capsules import OUT_OF_MEMORY, add_capsule
from tests.browser.conftest import browsing
from tests.browser.scene import Scene
from tests.browser.world import World


def test_each_capsule_shows_all_that_was_known(browser: Browser, world: World, scene: Scene) -> None:
    with browsing(browser, world, scene.home.token) as page:
        page.goto(f"{world.url}{scene.project}/containers/{scene.failed}/capsules")
        why = page.get_by_role("region", name="Why it ended")
        expect(why).to_contain_text("Listens on 127.0.0.1:8000; expected 0.0.0.0:8000")
        expect(page.get_by_role("region", name="Probe history")).to_contain_text("300 probes, none answered")
        expect(page.get_by_role("region", name="Last lines").last).to_contain_text("model large-v3 loaded")

        page.get_by_role("button", name="Out of memory").click()
        expect(why).to_contain_text("Out of memory: it used more than its 32 GiB")
        facts = page.get_by_role("region", name="Replica", exact=True)
        for fact in ("137", "generation 2", "sha256:51be", "gpu-node-05", "L4 · 24 GiB"):
            expect(facts).to_contain_text(fact)
        expect(page.get_by_role("region", name="Last lines").last).to_contain_text("cannot allocate memory")


def test_the_fix_of_the_newest_one_is_applied_with_one_press(browser: Browser, world: World) -> None:
    home = world.home("crash@example.com", "Crash", "production")
    fix = {"field": "resources.instance_type", "from": "cpu-nano", "to": "cpu-small"}
    container = world.container(
        home,
        "hungry",
        "FAILED",
        reason=OUT_OF_MEMORY["reason"],
        message=OUT_OF_MEMORY["message"],
        failed_generation=1,
        failure_fix=json.dumps(fix),
        settings={"instance_type": "cpu-nano"},
    )
    world.do(add_capsule(world.api, container, OUT_OF_MEMORY, system_clock.now()))
    with browsing(browser, world, home.token) as page:
        page.goto(f"{world.url}/projects/{home.project_id}/containers/{container}/capsules")
        expect(page.get_by_label("The change")).to_contain_text("+ cpu-small")
        page.get_by_role("button", name="Apply and start").click()
        expect(page.get_by_role("banner").get_by_role("status")).to_contain_text("Pending")
    shown = world.do(world.api.get(home.admin, f"/containers/{container}")).json()
    assert shown["resources"]["instance_type"] == "cpu-small"
