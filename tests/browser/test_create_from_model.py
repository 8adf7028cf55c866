"""From a model to a container: what the first step shows, what it refuses, and what is sent. The hub is a stand-in."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, Page, expect
from starlette.responses import Response

from tests.browser.conftest import browsing
from tests.browser.scene import Scene
from tests.browser.world import World
from tests.database.api_support import Home
from tests.models.hub_stand_in import TOKEN

QWEN = "Qwen/Qwen2.5-7B-Instruct"
GGUF = "Qwen/Qwen2.5-0.5B-Instruct-GGUF"


@contextmanager
def creating(browser: Browser, world: World, home: Home) -> Iterator[Page]:
    with browsing(browser, world, home.token) as page:
        page.goto(f"{world.url}/projects/{home.project_id}/create")
        yield page


def newest(world: World, home: Home) -> dict[str, Any]:
    listed = world.do(world.api.get(home.admin, f"/projects/{home.project_id}/containers")).json()["items"]
    made: dict[str, Any] = max(listed, key=lambda one: str(one["created_at"]))
    return made


def test_what_fits_is_chosen_and_deployed(browser: Browser, world: World, scene: Scene) -> None:
    home = world.home("chooser@example.com", "Quay", "models")
    with creating(browser, world, home) as page:
        model = page.get_by_label("Model", exact=True)
        # Nothing is asked for half a name, and the address of its page is as good as its id.
        asked = len(world.hub.asked)
        model.fill("hf:Qwen")
        page.get_by_role("button", name="Next: Base settings").click()
        expect(page.get_by_text("Write it as hf:ORGANIZATION/NAME.")).to_be_visible()
        expect(model).to_be_focused()
        assert len(world.hub.asked) == asked
        model.fill(f"https://huggingface.co/{QWEN}/tree/v1.0")
        expect(page.get_by_text("Found: public, apache-2.0, 4 files.")).to_be_visible()
        expect(page.get_by_role("heading", name="Each replica needs 31.6 GB")).to_be_visible()

        rows = page.get_by_role("radiogroup", name="Instance type")
        expect(rows.get_by_role("radio", name="l40s-48gb")).to_be_checked()
        short = rows.get_by_role("group", name="l4-24gb")
        expect(short).to_contain_text(re.compile(r"[0-9.]+ GB short; fits at [0-9,]+ tokens"))
        expect(short.get_by_role("radio")).to_have_count(0)
        expect(page.get_by_text("Types without a GPU are left out: vLLM needs a GPU.")).to_be_visible()
        price = page.get_by_role("complementary", name="Price")
        expect(price).to_contain_text("$1.55/h")
        expect(price).to_contain_text("The cheapest type that fits.")
        expect(price).to_contain_text("15.2 GB and the image")
        assert widths(page, "l40s-48gb") == shares(world, home)
        expect(page.get_by_text("cache 22 GiB")).to_be_visible()

        # What is short names the context with which it fits, and takes it at a press.
        short.get_by_role("button", name="fits at").click()
        l4 = rows.get_by_role("radio", name="l4-24gb")
        expect(l4).to_be_checked()
        expect(l4).to_be_focused()
        expect(price).to_contain_text("$0.80/h")
        context = page.get_by_role("slider", name="Context")
        assert "tokens" in (context.get_attribute("aria-valuetext") or "")
        # By keyboard: the next row, and a smaller load.
        page.keyboard.press("ArrowDown")
        expect(rows.get_by_role("radio", name="l40s-48gb")).to_be_checked()
        requests = page.get_by_role("slider", name="Requests at once")
        requests.focus()
        page.keyboard.press("ArrowLeft")
        expect(requests).to_have_attribute("aria-valuetext", "8")

        page.get_by_role("button", name="Next: Base settings").click()
        expect(page.get_by_label("Name", exact=True)).to_have_value("Qwen2.5-7B-Instruct")
        expect(page.get_by_label("Image", exact=True)).to_have_value("vllm/vllm-openai:v0.11.0")
        page.get_by_label("Name", exact=True).fill("qwen")
        page.get_by_role("button", name="Next: Resources").click()
        tile = page.locator("label", has_text="cpu-large")
        expect(tile).to_contain_text("vLLM needs a GPU.")
        page.get_by_role("button", name="Next: Advanced").click()
        expect(page.get_by_label("Start command")).to_have_value(re.compile("--max-num-seqs 8"))
        expect(page.get_by_text("vLLM is also given HF_ENDPOINT.")).to_be_visible()
        # Another cache than the plan's is still the plan's deployment, and a refused one is said where it stands.
        cache = page.get_by_role("textbox", name="Cache", exact=True)
        expect(cache).to_have_value("22 GiB")
        cache.fill("2000")
        page.get_by_role("button", name="Next: Review").click()
        page.get_by_role("button", name="Deploy for $1.55/h").click()
        expect(page.get_by_text("must have a size_gib of at most 1024")).to_be_visible()
        expect(cache).to_be_focused()
        cache.fill("40")
        page.get_by_role("button", name="Next: Review").click()
        expect(page.get_by_role("region", name="Model", exact=True)).to_contain_text(f"hf:{QWEN}@v1.0")
        with page.expect_request("**/models/deploy") as sent:
            page.get_by_role("button", name="Deploy for $1.55/h").click()
        assert sent.value.post_data_json["requests_at_once"] == 8
        page.wait_for_url(re.compile("/containers/ctr_"))
        expect(page.get_by_role("heading", name="qwen")).to_be_visible()
        made = newest(world, home)
        assert (made["name"], made["resources"]["instance_type"]) == ("qwen", "l40s-48gb")
        assert page.url.endswith(made["id"])
        assert "--revision v1.0" in made["start_command"]
        assert made["cache"] == {"size_gib": 40}


def test_how_long_it_takes_is_told_from_earlier_starts(browser: Browser, world: World, scene: Scene) -> None:
    home = world.home("patient@example.com", "Quay", "waiting")
    path = f"/projects/{home.project_id}/models/resolve"
    plan = world.do(world.api.post(home.admin, path, {"model": f"hf:{QWEN}"})).json()
    with creating(browser, world, home) as page:
        page.get_by_label("Model", exact=True).fill(f"hf:{QWEN}")
        card = page.get_by_role("region", name="Until it answers")
        expect(card).to_contain_text("Nothing like it has started here yet")
        expect(card.get_by_text("not measured yet")).to_have_count(2)
        for step, size, took_s in (
            ("pull", 8 * 10**9, 40),
            ("download", 10**9, 10),
            ("load", plan["model"]["download_bytes"], 49),
            ("again", plan["model"]["download_bytes"], 50),
        ):
            columns = "organization_id, infrastructure, instance_type, image, step, bytes, took_s"
            values = f"'operator', 'l40s-48gb', '{plan['settings']['image']}', '{step}', {size}, {took_s}"
            statement = f"INSERT INTO measured_steps ({columns}) VALUES ('{home.organization_id}', {values})"
            world.do(world.api.execute(statement))
        page.reload()
        page.get_by_label("Model", exact=True).fill(f"hf:{QWEN}")
        expect(card).to_contain_text("2 min 32 s")
        expect(card).to_contain_text("49 s")
        # Its registry is not in reach of a test.
        expect(card).to_contain_text("size not known")
        expect(card).to_contain_text("Measured in your earlier starts")
        expect(card).to_contain_text(
            "Later starts find image and weights on the machine and take about 50 s."
        )


def widths(page: Page, instance_type: str) -> list[int]:
    """Of the bar's parts in percent, as they are drawn."""
    row = page.locator("label", has=page.get_by_role("radio", name=instance_type))
    drawn = row.locator("[data-part]").evaluate_all(
        "parts => parts.map(part => part.getBoundingClientRect().width / part.parentElement.clientWidth * 100)"
    )
    return [round(one) for one in drawn]


def shares(world: World, home: Home) -> list[int]:
    """What they should be: weights, server, context, and what no server can have."""
    path = f"/projects/{home.project_id}/models/resolve"
    plan = world.do(world.api.post(home.admin, path, {"model": f"hf:{QWEN}"})).json()
    [fit] = [one for one in plan["instance_types"] if one["instance_type"] == "l40s-48gb"]
    parts = ("weights_bytes", "server_bytes", "context_bytes")
    sizes = [*(fit["memory"][part] for part in parts), fit["total_bytes"] - fit["usable_bytes"]]
    return [round(size / fit["total_bytes"] * 100) for size in sizes]


def test_a_token_reaches_the_hub_and_no_storage(browser: Browser, world: World, scene: Scene) -> None:
    home = world.home("token@example.com", "Quay", "private")
    gated = "mistralai/Mistral-7B-Instruct-v0.3"
    world.hub.repositories[gated].gated = "auto"
    with creating(browser, world, home) as page:
        page.get_by_label("Model", exact=True).fill(gated)
        expect(page.get_by_text("is gated: accept its licence at").first).to_be_visible()
        token = page.get_by_label("Hub token").and_(page.locator("input"))
        expect(token).to_have_attribute("type", "password")
        token.fill("hf_mistyped")
        page.get_by_role("button", name="Use this token").click()
        expect(page.get_by_text("refused the token").first).to_be_visible()
        token.fill(TOKEN)
        page.keyboard.press("Enter")
        expect(page.get_by_text("Found: gated, apache-2.0, 4 files.")).to_be_visible()
        page.get_by_role("slider", name="Requests at once").press("Home")
        expect(page.get_by_role("radio", name="l4-24gb")).to_be_checked()
        page.get_by_role("button", name="Skip to Review").click()
        expect(page.get_by_role("region", name="Advanced")).to_contain_text("HF_TOKEN")
        stored = page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])")
        assert "Mistral" in stored
        assert TOKEN not in stored + page.content() + json.dumps(page.context.cookies())
        page.get_by_role("button", name=re.compile("Deploy for")).click()
        page.wait_for_url(re.compile("/containers/ctr_"))
    assert "HF_TOKEN" in newest(world, home)["env"]
    assert TOKEN not in world.do(world.api.dump())
    world.hub.repositories[gated].gated = False


def test_refusals_say_what_to_do(browser: Browser, world: World, scene: Scene) -> None:
    home = world.home("refused@example.com", "Quay", "refusals")
    odd = world.hub.add("BAAI/bge-m3")
    odd.files["config.json"] = json.dumps({"architectures": ["OddForCausalLM"], "model_type": "odd"}).encode()
    odd.description = {"pipeline_tag": "text-generation"}
    with creating(browser, world, home) as page:
        model = page.get_by_label("Model", exact=True)
        field = page.get_by_role("region", name="From a model").get_by_role("status").first

        model.fill("nobody/nothing")
        expect(field).to_contain_text("knows no model nobody/nothing. Check the spelling")
        expect(page.get_by_role("textbox", name="Hub token")).to_be_visible()
        page.get_by_role("button", name="Next: Base settings").click()
        expect(page.get_by_role("heading", name="Start")).to_be_visible()

        model.fill("BAAI/bge-m3")
        expect(field).to_contain_text("Deploy it with an image of your own.")

        world.hub.broken = Response(status_code=503)
        model.fill("Qwen/Qwen3-8B")
        expect(field).to_contain_text(
            "answered with HTTP status 503 when asked for Qwen/Qwen3-8B. Try again later."
        )
        world.hub.broken = None
        page.get_by_role("button", name="Try again").click()
        expect(page.get_by_text("Found: public")).to_be_visible()

        # Too much for anything here: the sentence, and no way on.
        for slider in ("Context", "Requests at once"):
            page.get_by_role("slider", name=slider).press("End")
        rows = page.get_by_role("radiogroup", name="Instance type")
        expect(rows.get_by_role("radio")).to_have_count(0)
        nothing = page.get_by_text("does not fit on").or_(page.get_by_text("It starts as soon as"))
        expect(nothing.first).to_be_visible()
        expect(page.get_by_role("button", name="Next: Base settings")).to_be_enabled()
        page.get_by_role("button", name="Next: Base settings").click()
        expect(page.get_by_role("heading", name="Start")).to_be_visible()
    world.hub.add_examples()


def test_a_template_is_a_start_and_its_settings_may_be_changed(browser: Browser, world: World) -> None:
    home = world.home("template@example.com", "Quay", "templates")
    with creating(browser, world, home) as page:
        page.get_by_role("radio", name="From a template").check()
        gallery = page.get_by_role("radiogroup", name="Template")
        expect(gallery.get_by_role("radio")).to_have_count(9)
        page.get_by_role("button", name="Next: Base settings").click()
        expect(page.get_by_text("Choose a template.")).to_be_visible()
        gallery.get_by_role("radio", name="llama.cpp").check(force=True)
        model = page.get_by_label("Model", exact=True)
        expect(model).to_have_value("hf:Qwen/Qwen2.5-7B-Instruct-GGUF")
        model.fill(GGUF)
        expect(
            page.get_by_role("radiogroup", name="Instance type").get_by_role("radio", checked=True)
        ).to_be_visible()
        page.get_by_role("button", name="Next: Base settings").click()
        page.get_by_label("Image", exact=True).fill("local/llama:test")
        page.get_by_role("button", name="Review").click()
        expect(page.get_by_text("nobody checks again that the model fits")).to_be_visible()

        # Back to the first step and on again: what was written stays.
        page.get_by_role("button", name="Edit Model").click()
        expect(page.get_by_text("Found: public")).to_be_visible()
        page.get_by_role("button", name="Skip to Review").click()
        with page.expect_request(re.compile("/projects/[^/]+/containers$")) as sent:
            page.get_by_role("button", name=re.compile("Deploy for")).click()
        assert sent.value.method == "POST"
        page.wait_for_url(re.compile("/containers/ctr_"))
    made = newest(world, home)
    assert (made["image"], made["port"], set(made["env"])) == ("local/llama:test", 8080, {"HF_ENDPOINT"})
    assert made["start_command"].startswith(f"/app/llama-server --hf-repo {GGUF} ")
