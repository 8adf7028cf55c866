"""The page of one request, and the ways that lead to it: a link, its id, a line of the log, the metrics."""

from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import browsing
from tests.browser.scene import Scene
from tests.browser.test_pages import AXE, violations
from tests.browser.world import World
from tests.database.request_support import PRICE_MICROUSD, REQUESTS_IN_ITS_HOUR


def request_id_of(address: str) -> str:
    return address.rsplit("/", 1)[1]


def test_a_container_says_what_its_keys_cost(browser: Browser, world: World, scene: Scene) -> None:
    """Its hours of the day or the week, divided by the requests that ended in them."""
    with browsing(browser, world, scene.home.token) as page:
        page.goto(world.url + scene.requests.woken.split("/requests/")[0] + "/overview")
        cost = page.get_by_role("region", name="Cost by API key")
        whole = dollars(PRICE_MICROUSD)
        expect(cost).to_contain_text(f"{whole} for 1 hour")
        key = cost.get_by_role("row", name=f"router-staging {REQUESTS_IN_ITS_HOUR} ")
        expect(key).to_contain_text(whole)
        expect(cost.get_by_text("Each paid hour is divided by the requests that ended in it")).to_be_visible()
        cost.get_by_text("7 days").click()
        expect(key).to_contain_text(whole)
        link = cost.get_by_role("link", name="How it is computed")
        expect(link).to_have_attribute("href", "/docs/billing#what-a-request-costs")


def dollars(microusd: int) -> str:
    return f"${microusd / 1_000_000:.2f}"


def test_a_request_that_woke_its_container(browser: Browser, world: World, scene: Scene) -> None:
    with browsing(browser, world, scene.home.token) as page:
        # What is handed around knows neither project nor container.
        page.goto(f"{world.url}/requests/{request_id_of(scene.requests.woken)}")
        where = page.get_by_role("region", name="Where its time went")
        expect(where.get_by_role("heading")).to_have_text(
            "Took 4.2 s: 2.6 s of it woke the container, asleep for 41 min"
        )
        assert page.url == f"{world.url}{scene.requests.woken}"
        expect(page.get_by_role("navigation", name="Dashboard").get_by_text("Logs")).to_have_attribute(
            "aria-current", "page"
        )
        for row in ("Queued 0.05 1", "Woken started 0.78 19", "Woken loaded 1.76 42", "Answering 1.40 33"):
            expect(where.get_by_role("row", name=row)).to_be_visible()
        receipt = page.get_by_role("region", name="Receipt")
        for fact in (
            "200",
            "POST /api/v1/chat/completions",
            "router-staging",
            "version 3",
            "gpu-node-05, L4",
        ):
            expect(receipt).to_contain_text(fact)
        expect(page.get_by_role("region", name="What it cost")).to_contain_text("$0.0216")
        lines = page.get_by_role("list", name="Lines, oldest first").get_by_role("listitem")
        expect(lines).to_have_count(11)
        expect(lines.nth(0)).to_contain_text("held: the container is asleep")
        expect(lines.nth(4)).to_contain_text("load_model: qwen2.5")
        expect(page.get_by_text("perhaps for other requests too")).to_be_visible()
        with page.expect_download() as download:
            page.get_by_role("link", name="JSON").click()
        assert '"held_ms":2620' in download.value.path().read_text()
        page.get_by_role("link", name="Change sleep").click()
        page.wait_for_url("**/settings")


def test_a_request_leads_to_its_lines_and_a_line_to_its_requests(
    browser: Browser, world: World, scene: Scene
) -> None:
    with browsing(browser, world, scene.home.token) as page:
        page.goto(f"{world.url}{scene.requests.failed}")
        expect(
            page.get_by_role("heading", name="The gateway answered 502 after 11 s: the container hung up")
        ).to_be_visible()
        page.get_by_role("link", name="Show among all lines").click()
        # The lines up to its end, of its replica, and nothing newer.
        expect(page.get_by_label("Live")).not_to_be_checked()
        log = page.get_by_role("region", name="Log lines, newest first")
        log.get_by_role("button").nth(1).click()
        during = log.get_by_text("at that time")
        expect(during).to_be_visible()
        log.get_by_role("link", name="502, 11 s").click()
        page.wait_for_url(f"**{scene.requests.failed}")
        page.get_by_role("link", name="Logs", exact=True).last.click()
        expect(page.get_by_label("Live")).to_be_checked()


def test_a_line_that_names_a_request_leads_to_it_alone(browser: Browser, world: World) -> None:
    home = world.home("named@example.com", "Named", "production")

    async def asked() -> str:
        key_id, _ = await world.api.new_key(home.project_id, "inference")
        return await world.api.new_request(home.project_id, key_id, status=200, total_ms=120_000)

    request_id = world.do(asked())
    container = world.container(home, "chat", "RUNNING", ready=1, logs=[f"done {request_id} in 12 ms"])

    async def belongs() -> None:
        await world.api.execute(
            "UPDATE request_records SET container_id = r.container_id, replica_id = r.id, ended = 'completed', "
            # It was under way when the line was printed, however long ago that is.
            "started_at = now() - interval '120 s' FROM replicas r WHERE r.container_id = :container AND request_id = :id",
            container=container,
            id=request_id,
        )

    world.do(belongs())
    with browsing(browser, world, home.token) as page:
        page.goto(f"{world.url}/projects/{home.project_id}/containers/{container}/logs")
        log = page.get_by_role("region", name="Log lines, newest first")
        log.get_by_role("button").first.click()
        log.get_by_role("link", name=request_id).click()
        expect(page.get_by_text("The marked line names this request by its id")).to_be_visible()


def test_the_metrics_and_an_id_lead_to_a_request(browser: Browser, world: World, scene: Scene) -> None:
    with browsing(browser, world, scene.home.token) as page:
        page.goto(f"{world.url}{scene.project}/containers/{scene.running}/metrics")
        table = page.get_by_role("region", name="Requests", exact=True)
        expect(table.get_by_role("row")).to_have_count(11)
        table.get_by_text("Failed", exact=True).click()
        expect(table.get_by_role("row")).to_have_count(2)
        table.get_by_role("row").nth(1).get_by_role("link").click()
        page.wait_for_url(f"**{scene.requests.failed}")
        page.keyboard.press("Control+k")
        page.get_by_placeholder("or a request's id").fill(request_id_of(scene.requests.woken))
        page.keyboard.press("Enter")
        page.wait_for_url(f"**{scene.requests.woken}")


def test_nobody_else_learns_that_it_exists(browser: Browser, world: World, scene: Scene) -> None:
    stranger = world.home("stranger@example.com", "Strangers", "default")
    with browsing(browser, world, stranger.token) as page:
        page.goto(f"{world.url}/requests/{request_id_of(scene.requests.woken)}")
        expect(page.get_by_text("no receipt of this request that you can see")).to_be_visible()
        expect(page.locator("body")).not_to_contain_text("support-router")


def test_of_a_deleted_container_the_receipt_stays(browser: Browser, world: World) -> None:
    home = world.home("gone@example.com", "Gone", "production")
    container = world.container(home, "gone-chat", "STOPPED")

    async def asked() -> str:
        key_id, _ = await world.api.new_key(home.project_id, "inference")
        request_id = await world.api.new_request(home.project_id, key_id, container_id=container, status=503)
        await world.api.execute("UPDATE containers SET deleted_at = now() WHERE id = :id", id=container)
        return request_id

    request_id = world.do(asked())
    with browsing(browser, world, home.token) as page:
        page.goto(f"{world.url}/requests/{request_id}")
        expect(page.get_by_text("to gone-chat, which is deleted")).to_be_visible()
        assert page.url == f"{world.url}/projects/{home.project_id}/requests/{request_id}"
        expect(page.get_by_text("It reached no replica")).to_be_visible()


def test_everybody_can_use_it(browser: Browser, world: World, scene: Scene) -> None:
    axe = AXE.read_text()
    for address in (scene.requests.woken, scene.requests.failed):
        for scheme in ("light", "dark"):
            for width in (1280, 390):
                with browsing(browser, world, scene.home.token) as page:
                    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
                    page.set_viewport_size({"width": width, "height": 844})
                    page.goto(f"{world.url}{address}")
                    expect(page.get_by_role("list", name="Lines, oldest first")).to_contain_text("INFO")
                    page.evaluate(axe)
                    assert (
                        violations(page, f"{address}, {scheme}, {width}", "{resultTypes: ['violations']}")
                        == []
                    )
                    assert sideways(page) <= 0


def sideways(page: Page) -> int:
    scrolls: int = page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    return scrolls
