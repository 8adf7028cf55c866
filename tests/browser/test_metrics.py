"""A container's charts: the same numbers as the API's, one crosshair through all of them, decisions that explain."""

import csv
import re
from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import browsing
from tests.browser.history import DECISIONS
from tests.browser.scene import Scene
from tests.browser.world import World


def crosshair_share(page: Page, card: str) -> float | None:
    """How far along the time axis the crosshair of that chart stands; None where it has none."""
    found = (
        page.get_by_role("region", name=card, exact=True)
        .locator(".u-over")
        .evaluate(
            """over => {
            const line = over.querySelector(".u-cursor-x");
            if (line.classList.contains("u-off")) return null;
            const x = new DOMMatrix(getComputedStyle(line).transform).m41;
            return x < 0 ? null : x / over.clientWidth;
        }"""
        )
    )
    return None if found is None else float(found)


def test_one_crosshair_goes_through_all_charts(browser: Browser, world: World, scene: Scene) -> None:
    with browsing(browser, world, scene.home.token) as page:
        page.goto(f"{world.url}{scene.project}/containers/{scene.running}/metrics")
        others = ("Replicas", "Response time", "Status classes", "In flight and queue")
        for card in others:
            expect(page.get_by_role("region", name=card, exact=True).locator(".u-over")).to_be_visible()
        # A chart that is drawn after the pointer moved, or once more with its pins, shows it from its next move on.
        expect(page.get_by_role("button", name="Decision 1 at")).to_be_visible()
        rate = page.get_by_role("region", name="Request rate", exact=True)
        rate.locator(".u-over").hover(position={"x": 120, "y": 60})
        expect(rate.get_by_text("requests/s")).to_be_visible()
        here = crosshair_share(page, "Request rate")
        assert here is not None
        for card in others:
            there = crosshair_share(page, card)
            assert there is not None, f"{card} has no crosshair"
            assert abs(there - here) < 0.05, f"{card}: {there}, Request rate: {here}"


def test_pin_and_decision_select_each_other(browser: Browser, world: World, scene: Scene) -> None:
    with browsing(browser, world, scene.home.token) as page:
        page.goto(f"{world.url}{scene.project}/containers/{scene.running}/metrics")
        decisions = page.get_by_role("list", name="Autoscaler decisions")
        expect(decisions.get_by_role("listitem")).to_have_count(len(DECISIONS))
        page.get_by_role("button", name="Decision 2 at").click()
        capped = decisions.get_by_role("button", pressed=True)
        expect(capped).to_contain_text("Wants 6, capped by max 4")
        decisions.get_by_role("button").last.click()
        expect(page.get_by_role("button", name="Decision 1 at")).to_have_attribute("aria-pressed", "true")
        expect(page.get_by_role("button", name="Decision 2 at")).to_have_attribute("aria-pressed", "false")


def test_the_numbers_are_the_apis(browser: Browser, world: World, scene: Scene) -> None:
    with browsing(browser, world, scene.home.token) as page:
        page.goto(f"{world.url}{scene.project}/containers/{scene.running}/metrics")
        page.get_by_role("switch", name="Live").press("Space")
        with page.expect_download() as download:
            page.get_by_role("button", name="Download as CSV").click()
        rows = list(csv.DictReader(Path(download.value.path()).read_text().splitlines()))
        query = {"from": rows[0]["time"], "to": rows[-1]["time"], "step": "10"}
        answer = world.do(
            world.api.get(scene.home.admin, f"/containers/{scene.running}/metrics", params=query)
        ).json()
        asked = dict(zip(answer["times"], answer["series"]["response_time_p95_ms"], strict=True))
        shown = {row["time"].replace(".000Z", "Z"): row["response_time_p95_ms"] for row in rows[:-1]}
        # Nothing was measured since the scene was made, which may be some minutes ago.
        assert sum(value != "" for value in shown.values()) > 200
        assert {time: asked[time] for time in shown} == {
            time: float(value) if value else None for time, value in shown.items()
        }

        page.get_by_role("button", name="Show as a table").click()
        head = page.get_by_role("columnheader", name="p95 ms")
        expect(head).to_be_visible()
        # The card of requests is a table too.
        figures = page.get_by_role("table").filter(has=head)
        expect(figures.get_by_role("row")).to_have_count(len(rows) + 1)


def test_without_a_replica_the_page_says_so(browser: Browser, world: World, scene: Scene) -> None:
    with browsing(browser, world, scene.home.token) as page:
        page.goto(f"{world.url}{scene.project}/containers/{scene.stopped}/metrics")
        expect(page.get_by_text("mistral-nemo-eval was not running in the last hour.")).to_be_visible()
        expect(page.get_by_text("moor start mistral-nemo-eval")).to_be_visible()


def test_what_just_started_has_its_replicas_at_once(browser: Browser, world: World) -> None:
    home = world.home("starts@example.com", "Starts", "starts")
    started = world.container(home, "just-started", "RUNNING", ready=1)
    starting = world.container(home, "still-starting", "STARTING")
    world.do(
        world.api.execute(
            "UPDATE replicas SET created_at = now(), started_at = now(), ready_at = now(), routed_at = now() "
            "WHERE container_id = :id",
            id=started,
        )
    )
    with browsing(browser, world, home.token) as page:
        page.goto(f"{world.url}/projects/{home.project_id}/containers/{started}/metrics")
        expect(page.get_by_role("region", name="Replicas", exact=True)).to_contain_text("1 ready now")
        page.goto(f"{world.url}/projects/{home.project_id}/containers/{starting}/metrics")
        expect(page.get_by_text("It is starting. Its figures begin when it is ready.")).to_be_visible()


def test_the_last_hour_stands_beside_the_endpoint(browser: Browser, world: World, scene: Scene) -> None:
    with browsing(browser, world, scene.home.token) as page:
        page.goto(f"{world.url}{scene.project}/containers/{scene.running}")
        card = page.get_by_role("region", name="Last hour")
        expect(card).to_contain_text("2 ready")
        expect(card.get_by_text(re.compile(r"^\d+ ms$"))).to_be_visible()
        # Each of the three has its shape.
        expect(card.locator("path[d*=M]:last-child")).to_have_count(3)
        page.goto(f"{world.url}{scene.project}/containers/{scene.stopped}")
        expect(page.get_by_role("region", name="Endpoint")).to_be_visible()
        expect(card).to_have_count(0)
