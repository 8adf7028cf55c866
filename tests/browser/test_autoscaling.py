"""How a container scales, as a person handles it: the reason in words, another policy tried and then applied."""

from playwright.sync_api import Browser, expect

from tests.browser.conftest import browsing
from tests.browser.history import DECISIONS
from tests.browser.scene import Scene
from tests.browser.world import World


def test_a_policy_is_replayed_and_then_applied(browser: Browser, world: World, scene: Scene) -> None:
    with browsing(browser, world, scene.home.token) as page:
        page.goto(f"{world.url}{scene.project}/containers/{scene.running}/autoscaling")
        why = page.get_by_role("region", name="Why this many")
        expect(why).to_contain_text("2 of 2 ready")
        expect(why).to_contain_text(DECISIONS[-1].decision.reason)

        page.get_by_role("textbox", name="Maximum").fill("6")
        page.get_by_role("button", name="Replay").click()
        result = page.get_by_role("region", name="What if")
        expect(result.get_by_role("cell", name="Replica-hours")).to_be_visible()
        expect(result.get_by_role("cell", name="Time over target")).to_be_visible()
        assert policy(world, scene)["max_replicas"] == 4, "a replay changes nothing"

        page.get_by_role("textbox", name="Minimum").fill("9")
        page.get_by_role("button", name="Apply").click()
        expect(page.get_by_text("Would leave min 9 above max 6.")).to_be_visible()
        page.get_by_role("textbox", name="Minimum").fill("1")
        page.get_by_role("button", name="Apply").click()
        expect(page.get_by_text("scales by the new policy")).to_be_visible()
        assert policy(world, scene)["max_replicas"] == 6
        page.get_by_role("textbox", name="Maximum").fill("4")
        page.get_by_role("button", name="Apply").click()
        expect(page.get_by_role("button", name="Apply")).to_be_disabled()


def policy(world: World, scene: Scene) -> dict[str, int]:
    answer = world.do(world.api.get(scene.home.admin, f"/containers/{scene.running}/autoscaling"))
    found: dict[str, int] = answer.json()["policy"]
    return found


def test_what_kept_it_from_more_is_said(browser: Browser, world: World) -> None:
    home = world.home("capped@example.com", "Capped", "production")
    settings = {"resource_mode": "autoscaling", "min_replicas": 1, "max_replicas": 2}
    container = world.container(home, "capped", "RUNNING", ready=2, desired_replicas=2, settings=settings)
    world.do(
        world.api.execute(
            "INSERT INTO autoscaling_decisions (container_id, at, replicas_before, replicas, wanted, limited_by, reason, "
            "inputs) VALUES (:id, now(), 2, 2, 5, 'max_replicas', :reason, '{}')",
            id=container,
            reason="14.0 in flight over 60 s + headroom 5.6 = 19.6, ÷ 4 → 5 replicas. Wants 5, capped by max 2.",
        )
    )
    with browsing(browser, world, home.token) as page:
        page.goto(f"{world.url}/projects/{home.project_id}/containers/{container}/autoscaling")
        why = page.get_by_role("region", name="Why this many")
        expect(why).to_contain_text("Wants 5, capped by max 2.")


def test_a_container_of_one_replica_learns_to_scale(browser: Browser, world: World) -> None:
    home = world.home("one@example.com", "One", "production")
    container = world.container(home, "single", "RUNNING", ready=1)
    with browsing(browser, world, home.token) as page:
        page.goto(f"{world.url}/projects/{home.project_id}/containers/{container}/autoscaling")
        expect(page.get_by_text("Fixed, one replica.")).to_be_visible()
        page.get_by_role("textbox", name="Maximum").fill("3")
        page.get_by_role("button", name="Let it scale").click()
        expect(page.get_by_role("region", name="Why this many")).to_contain_text("Nothing was decided yet.")
    shown = world.do(world.api.get(home.admin, f"/containers/{container}")).json()
    assert shown["resources"]["max_replicas"] == 3
