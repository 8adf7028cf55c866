"""A thousand containers, a hundred thousand lines: a few rows at a time, that follow the scrolling."""

import re
import time
from datetime import timedelta
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, expect

from moorage.kit.clock import system_clock
from moorage.telemetry.partition_repository import create_partition
from tests.browser.conftest import browsing
from tests.browser.world import World
from tests.database.api_support import Home

CONTAINERS = 1_000
LINES = 100_000
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


@pytest.mark.long
def test_a_hundred_thousand_lines(browser: Browser, world: World) -> None:
    home = world.home("chatty@example.com", "Chatty", "large")
    container = world.container(home, "chatty", "RUNNING", ready=1)
    world.do(print_lines(world, home, container))
    with browsing(browser, world, home.token) as page:
        page.goto(f"{world.url}/projects/{home.project_id}/containers/{container}/logs")
        lines = page.get_by_role("region", name="Log lines, newest first")
        newest, oldest = (lines.get_by_text(f"line {number} of {LINES}", exact=True) for number in (LINES, 1))
        expect(newest).to_be_visible()
        expect(page.get_by_text(f"of {LINES:,} lines loaded")).to_be_visible()

        began_s = time.monotonic()
        lines.press("End")
        expect(oldest).to_be_visible(timeout=60_000)
        print(f"the oldest of {LINES} lines is there {time.monotonic() - began_s:.1f} s after the End key")
        expect(page.get_by_text(f"{LINES:,} lines", exact=True)).to_be_visible()
        expect(newest).to_have_count(0)

        lines.press("Home")
        expect(newest).to_be_visible()
        scrolled(lines, "button", f"{LINES} lines")
        expect(oldest).to_be_visible()

        # A bar of the histogram is a minute, and leads to its lines.
        bar = page.get_by_role("figure", name=f"{LINES} lines over time").get_by_title(" lines, ").nth(30)
        minute = (bar.get_attribute("title") or "")[:5]
        bar.click()
        # In the hour after midnight with the day before it.
        expect(lines.get_by_text(re.compile(rf"\b{minute}:")).first).to_be_visible()
        expect(oldest).to_have_count(0)


async def print_lines(world: World, home: Home, container_id: str) -> None:
    """Over fifty minutes, the last one now; in colour, and some of them errors."""
    async with world.api.database.transaction() as session:
        for day in sorted({system_clock.now().date(), (system_clock.now() - timedelta(hours=1)).date()}):
            await create_partition(session, "log_lines", day)
    await world.api.execute(
        "INSERT INTO log_lines (replica_id, sequence, container_id, project_id, time, stream, text) "
        "SELECT id, n - 1, container_id, :project, now() - (lines - n) * interval '30 milliseconds', "
        "CASE WHEN n % 50 = 0 THEN 2 ELSE 1 END, "
        "chr(27) || '[32mINFO' || chr(27) || '[0m ' || repeat('10.88.0.1 ', n % 20) || chr(27) || '[34m' || "
        "'line ' || n || ' of ' || lines || chr(27) || '[0m' "
        "FROM replicas, (SELECT CAST(:lines AS integer) AS lines) asked, generate_series(1, lines) n "
        "WHERE container_id = :id",
        lines=LINES,
        project=home.project_id,
        id=container_id,
    )
