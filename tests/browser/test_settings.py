"""Settings of a container that runs: staged, compared, applied; and what the page says when they were taken back."""

import json

from playwright.sync_api import Browser, expect

from moorage.kit.clock import system_clock
from tests.browser.conftest import browsing
from tests.browser.world import World


def test_changes_are_staged_applied_and_taken_back(browser: Browser, world: World) -> None:
    home = world.home("stager@example.com", "Drydock", "production")
    container = world.container(home, "chat", "RUNNING", ready=1, serving_generation=1)
    draft = f"/containers/{container}/draft"
    with browsing(browser, world, home.token) as page:
        page.goto(f"{world.url}/projects/{home.project_id}/containers/{container}/settings")
        expect(page.get_by_label("Name", exact=True)).to_be_disabled()
        expect(page.get_by_role("button", name="Stage changes")).to_be_disabled()
        page.get_by_role("radio", name="cpu-small").check(force=True)
        page.get_by_label("Start command").fill("serve --fast")
        page.get_by_label("Name of variable 1").fill("TOKEN")
        page.get_by_label("Value of variable 1").fill("a-secret-of-mine")
        page.get_by_role("button", name="Add a variable").click()
        page.get_by_label("Name of variable 2").fill("LOG_LEVEL")
        page.get_by_label("Value of variable 2").fill("debug")
        secret = page.get_by_role("button", name="LOG_LEVEL is a secret")
        expect(secret).to_have_attribute("aria-pressed", "true")
        secret.click()
        expect(secret).to_have_attribute("aria-pressed", "false")
        page.get_by_role("button", name="Stage changes").click()

        staged = page.get_by_role("region", name="Staged changes")
        expect(staged).to_contain_text("debug")
        expect(staged).to_contain_text("cpu-small")
        expect(staged).to_contain_text("serve --fast")
        expect(staged).to_contain_text("$0.005/h before, $0.01/h after")
        # It stops first, and yet buys an hour of the other type.
        expect(staged).to_contain_text(
            "the settings from before come back by themselves. Buys $0.01 of hours."
        )
        expect(staged).to_contain_text("TOKEN")
        assert "a-secret-of-mine" not in page.content()
        saved = world.do(world.api.get(home.admin, draft)).json()
        assert {one["field"] for one in saved["changes"]} == {
            "resources.instance_type",
            "start_command",
            "env.TOKEN",
            "plain_env.LOG_LEVEL",
        }

        staged.get_by_role("button", name="Edit").click()
        expect(page.get_by_text("write TOKEN once more")).to_be_visible()
        expect(page.get_by_label("Start command")).to_have_value("serve --fast")
        expect(page.get_by_label("Value of variable 1")).to_have_value("debug")
        page.get_by_role("button", name="Cancel").click()

        staged.get_by_role("button", name="Apply").click()
        applying = page.get_by_role("region", name="Being applied")
        expect(applying).to_contain_text("the settings from before come back by themselves")
        expect(page.get_by_role("button", name="Apply")).to_have_count(0)

        world.do(as_the_controller_gives_up(world, container))
        given_up = staged.get_by_role("alert")
        expect(given_up).to_contain_text("Applied, and taken back at")
        expect(given_up).to_contain_text("The process ended with exit code 3.")
        staged.get_by_role("button", name="Discard").click()
        expect(page.get_by_role("button", name="Stage changes")).to_be_visible()
        assert world.do(world.api.get(home.admin, draft)).json()["changes"] == []


def test_what_a_known_server_wants_is_offered_and_taken_by_a_press(browser: Browser, world: World) -> None:
    home = world.home("server@example.com", "Slipway", "production")
    settings = {"image": "local/chat:latest", "registry_provider": "local"}
    container = world.container(home, "chat", "STOPPED", settings=settings)
    with browsing(browser, world, home.token) as page:
        page.goto(f"{world.url}/projects/{home.project_id}/containers/{container}/settings")
        api_path = page.get_by_role("textbox", name="API path")
        expect(api_path).to_have_value("/api/v1, as it is asked for")
        page.get_by_label("Image", exact=True).fill("local/vllm-openai:latest")
        offered = page.get_by_role("region", name="Pre-flight")
        expect(offered).to_contain_text("vLLM serves its API at /v1, listens on port 8000")
        offered.get_by_role("button", name="Use these settings").click()
        expect(offered.get_by_role("status")).to_have_text("Set so.")
        expect(api_path).to_have_value("/v1, as vLLM, SGLang, TGI, llama.cpp and Ollama")
        page.get_by_label("Image", exact=True).fill("local/sglang:latest")
        expect(offered).to_contain_text("SGLang serves its API at /v1, listens on port 30000")
        expect(offered.get_by_role("status")).to_have_count(0)
        offered.get_by_role("button", name="Use these settings").click()
        page.get_by_label("Image", exact=True).fill("local/other:latest")
        expect(offered).to_contain_text(
            "API path /v1, port 30000 and health path /health were set for SGLang."
        )
        offered.get_by_role("button", name="Take them back").click()
        expect(api_path).to_have_value("/api/v1, as it is asked for")
        page.get_by_label("Image", exact=True).fill("local/vllm-openai:latest")
        offered.get_by_role("button", name="Use these settings").click()
        page.get_by_role("button", name="Save", exact=True).click()
        expect(page.get_by_text("Saved. The next start uses the new settings.")).to_be_visible()
    saved = world.do(world.api.get(home.admin, f"/containers/{container}")).json()
    assert (saved["api_path"], saved["port"], saved["health_check"]["path"]) == ("/v1", 8000, "/health")


def test_what_the_next_replica_waits_for_is_seen_while_others_serve(browser: Browser, world: World) -> None:
    home = world.home("mover@example.com", "Quay", "moves")
    pull = {"phase": "pull", "done_bytes": 5_100_000_000, "total_bytes": 8_200_000_000}
    container = world.container(home, "llm", "RUNNING", ready=1, desired_replicas=2, progress=pull)
    with browsing(browser, world, home.token) as page:
        page.goto(f"{world.url}/projects/{home.project_id}/containers/{container}")
        shown = page.get_by_role("region", name="Progress")
        expect(shown).to_contain_text("Another replica: pulling its image")
        expect(shown).to_contain_text("5.1 GB of 8.2 GB · not billed yet")
        expect(shown.get_by_role("progressbar", name="Another replica")).to_have_attribute(
            "aria-valuenow", "62"
        )
        world.do(world.api.execute("UPDATE containers SET progress = NULL WHERE id = :id", id=container))
        expect(shown).to_have_count(0)


def test_caches_are_seen_to_fill_listed_bounded_and_deleted(browser: Browser, world: World) -> None:
    home = world.home("cacher@example.com", "Icehouse", "production")
    progress = {
        "phase": "start",
        "started_at": system_clock.now().isoformat(),
        "limit_s": 1200,
        "step": "download",
        "cache_bytes": 3_200_000_000,
        "bytes_per_s": 112_000_000,
        "waiting": 2,
    }
    container = world.container(
        home, "llm", "STARTING", ready=1, progress=progress, settings={"cache_gib": 22}
    )
    cache = world.do(world.api.new_cache(container, "node-03", size_bytes=int(14.8 * 2**30)))
    other = world.do(world.api.new_cache(container, "node-04", engine="second", size_bytes=2**30))
    world.do(world.api.new_cache(world.container(home, "else", "STOPPED"), "node-05"))
    address = f"{world.url}/projects/{home.project_id}/containers/{container}"
    with browsing(browser, world, home.token) as page:
        page.goto(address)
        shown = page.get_by_role("region", name="Progress")
        expect(shown).to_contain_text("Starting: downloading weights, 3.2 GB in the cache, 112 MB/s")
        expect(shown).to_contain_text("2 more replicas wait for the first to fill the cache.")
        expect(page.get_by_role("region", name="Settings")).to_contain_text("22 GiB on each machine")

        page.goto(f"{address}/settings")
        rows = page.get_by_role("region", name="Caches").locator("tbody tr")
        expect(rows).to_have_count(2)
        used, idle = rows.filter(has_text="node-03"), rows.filter(has_text="node-04")
        expect(used).to_contain_text("14.8 GiB of 22 GiB")
        expect(used).to_contain_text("in use")
        expect(used.get_by_role("button")).to_have_count(0)
        idle.get_by_role("button", name="Delete the cache on node-04").click()
        dialog = page.get_by_role("dialog", name="Delete the cache on node-04")
        expect(dialog).to_contain_text("The next start of llm on that machine downloads and compiles again.")
        dialog.get_by_role("button", name="Delete cache").click()
        expect(idle).to_contain_text("being deleted")
        expect(dialog).to_have_count(0)

        page.get_by_role("textbox", name="Cache", exact=True).fill("30")
        page.get_by_role("button", name="Stage changes").click()
        staged = page.get_by_role("region", name="Staged changes")
        expect(staged).to_contain_text("Cache, GiB")
        staged.get_by_role("button", name="Edit").click()
        expect(page.get_by_role("textbox", name="Cache", exact=True)).to_have_value("30 GiB")
    caches = world.do(world.api.get(home.admin, f"/organizations/{home.organization_id}/caches")).json()[
        "items"
    ]
    assert {one["id"]: one["deleting"] for one in caches if one["container_id"] == container} == {
        cache: False,
        other: True,
    }
    (change,) = world.do(world.api.get(home.admin, f"/containers/{container}/draft")).json()["changes"]
    assert (change["field"], change["from"], change["to"]) == ("cache.size_gib", 22, 30)


async def as_the_controller_gives_up(world: World, container_id: str) -> None:
    failure = {
        "reason": "exited",
        "message": "The process ended with exit code 3.",
        "fix": None,
        "at": system_clock.now().isoformat(),
    }
    await world.api.execute(
        "UPDATE containers SET trial_settings = NULL, trial_secrets = NULL, trial_failure = CAST(:failure AS jsonb) "
        "WHERE id = :id",
        id=container_id,
        failure=json.dumps(failure),
    )
