"""A thousand containers are a few rows at a time, and follow the scrolling."""

from typing import Any

from playwright.sync_api import Browser, Locator, expect

from tests.browser.conftest import browsing
from tests.browser.world import World

CONTAINERS = 1_000
MOST_ROWS = 150
FRAMES = 120

MEASURE = """async (place, {frames, row}) => {
    const region = [place, ...place.querySelectorAll("*")].find(
        (one) => one.scrollHeight > one.clientHeight + 100 && getComputedStyle(one).overflowY !== "visible");
    const nextFrame = () => new Promise((resolve) => requestAnimationFrame(resolve));
    const tasks = [];
    const watcher = new PerformanceObserver((list) => tasks.push(...list.getEntries().map((one) => one.duration)));
    watcher.observe({entryTypes: ["longtask"]});
    const times = [], whole = region.scrollHeight - region.clientHeight;
    const box = region.getBoundingClientRect();
    let most = 0, filled = 0;
    for (let frame = 1; frame <= frames; frame++) {
        const began = performance.now();
        region.scrollTop = (whole * frame) / frames;
        await nextFrame();
        await nextFrame();
        times.push((performance.now() - began) / 2);
        most = Math.max(most, region.querySelectorAll(row).length);
        const middle = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
        filled += middle?.closest(row) ? 1 : 0;
    }
    watcher.disconnect();
    times.sort((one, other) => one - other);
    return {
        most, filled, height: whole,
        median_ms: times[Math.floor(frames / 2)], p95_ms: times[Math.floor(frames * 0.95)],
        longest_task_ms: Math.max(0, ...tasks),
    };
}"""


def scrolled(region: Locator, row: str, what: str) -> None:
    """From the top to the end in so many steps: few rows in the page, and always some where one looks."""
    found: dict[str, Any] = region.evaluate(MEASURE, {"frames": FRAMES, "row": row})
    print(
        f"{what}: {FRAMES} steps over {found['height']} px, frame median {found['median_ms']:.1f} ms, "
        f"p95 {found['p95_ms']:.1f} ms, longest task {found['longest_task_ms']:.0f} ms, at most {found['most']} rows"
    )
    assert 0 < found["most"] <= MOST_ROWS
    assert found["filled"] >= FRAMES * 0.95, (
        f"nothing was shown in {FRAMES - found['filled']} of {FRAMES} steps"
    )
    # Sixteen on a quiet machine; a page that lays out every row takes seconds.
    assert found["median_ms"] < 100


def test_a_thousand_containers(browser: Browser, world: World) -> None:
    home = world.home("thousand@example.com", "Thousand", "large")
    first = world.container(home, "container-0000", "STOPPED")
    world.do(
        world.api.execute(
            "INSERT INTO containers SELECT (jsonb_populate_record(c, jsonb_build_object("
            "'id', 'ctr_' || translate(left(md5('s' || n), 20), '0189', 'ghij'), "
            "'name', 'container-' || lpad(n::text, 4, '0')))).* "
            "FROM containers c, generate_series(1, :more) n WHERE c.id = :id",
            id=first,
            more=CONTAINERS - 1,
        )
    )
    with browsing(browser, world, home.token) as page:
        page.goto(f"{world.url}/projects/{home.project_id}/containers/{first}")
        expect(page.get_by_placeholder(f"Filter {CONTAINERS} containers")).to_be_visible()
        scrolled(page.get_by_role("region", name="Containers"), "a", f"{CONTAINERS} containers")
