"""How a model is named at the first step: what people paste, what keys do, and what is said where there is no way on."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, expect
from starlette.responses import JSONResponse

from tests.browser.scene import Scene
from tests.browser.test_create_from_model import GGUF, QWEN, creating
from tests.browser.world import World

GGUF_FILE = "qwen2.5-0.5b-instruct-q4_k_m.gguf"


def test_the_address_of_a_page_or_a_file_names_the_model(
    browser: Browser, world: World, scene: Scene
) -> None:
    home = world.home("paster@example.com", "Quay", "addresses")
    with creating(browser, world, home) as page:
        model = page.get_by_label("Model", exact=True)
        for text in (f"https://huggingface.co/{QWEN}/tree/main", f"HF:{QWEN}@main", f"hf.co/{QWEN}/?a=b"):
            model.fill("")
            model.fill(text)
            expect(page.get_by_text("Found: public, apache-2.0, 4 files.")).to_be_visible()
        page.get_by_role("button", name="Next: Base settings").click()
        expect(page.get_by_label("Name", exact=True)).to_have_value("Qwen2.5-7B-Instruct")
        page.go_back()

        with page.expect_request("**/models/resolve") as asked:
            model.fill(f"https://huggingface.co/{GGUF}/blob/main/{GGUF_FILE}")
        wish = asked.value.post_data_json
        assert (wish["model"], wish["file"]) == (f"hf:{GGUF}", GGUF_FILE)
        expect(page.get_by_text("Found: public, 1 file.")).to_be_visible()
        page.get_by_role("button", name="Skip to Review").click()
        with page.expect_request("**/models/deploy") as sent:
            page.get_by_role("button", name=re.compile("Deploy for")).click()
        assert sent.value.post_data_json["file"] == GGUF_FILE
        page.wait_for_url(re.compile("/containers/ctr_"))
        # Nobody has asked it for its list yet.
        expect(page.get_by_role("region", name="Endpoint")).to_contain_text(f'"model": "{GGUF}"')


def test_what_is_no_model_is_refused_at_once(browser: Browser, world: World) -> None:
    home = world.home("elsewhere@example.com", "Quay", "others")
    with creating(browser, world, home) as page:
        model = page.get_by_label("Model", exact=True)
        asked = len(world.hub.asked)
        for text, why in (
            ("https://ollama.com/library/llama3", "addresses at huggingface.co, not at ollama.com"),
            ("https://huggingface.co/datasets/acme/questions", "address of a dataset, not of a model"),
            ("https://huggingface.co/spaces/acme/demo", "address of a Space, not of a model"),
        ):
            model.fill(text)
            said = page.get_by_text(why).and_(page.locator("[id$=error]"))
            expect(said).to_contain_text("Paste a model's page, such as")
        page.get_by_role("button", name="Next: Base settings").click()
        expect(model).to_be_focused()
        expect(said).to_be_visible()
        assert len(world.hub.asked) == asked


def test_keys_choose_nothing_by_themselves(browser: Browser, world: World, scene: Scene) -> None:
    home = world.home("keys@example.com", "Quay", "keys")
    with creating(browser, world, home) as page:
        model = page.get_by_label("Model", exact=True)
        expect(model).to_be_focused()
        page.keyboard.type(QWEN)
        expect(page.get_by_text("Found: public, apache-2.0, 4 files.")).to_be_visible()
        # To look at another field is not to choose it.
        image = page.get_by_label("Image", exact=True)
        image.focus()
        expect(page.get_by_role("radio", name="From a model")).to_be_checked()
        expect(model).to_have_value(QWEN)
        page.keyboard.type("ghcr.io/you/server:1.0")
        expect(page.get_by_role("radio", name="Your own image")).to_be_checked()
        expect(image).to_have_value("ghcr.io/you/server:1.0")
        expect(image).to_be_focused()

        page.get_by_role("radio", name="From a model").check()
        go_on = page.get_by_role("button", name="Next: Base settings")
        expect(go_on).not_to_have_attribute("data-loading", "true")
        expect(page.get_by_text("Found: public, apache-2.0, 4 files.")).to_be_visible()
        model.press("Enter")
        expect(page.get_by_role("heading", name="Base settings")).to_be_visible()
        expect(page.get_by_label("Image", exact=True)).to_have_value(re.compile("vllm-openai"))


def test_a_phone_opens_the_step_without_its_keyboard(browser: Browser, world: World) -> None:
    home = world.home("thumbs@example.com", "Quay", "phones")
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    context.add_cookies([{"name": "moorage_session", "value": home.token, "url": world.url}])
    page = context.new_page()
    page.goto(f"{world.url}/projects/{home.project_id}/create")
    model = page.get_by_label("Model", exact=True)
    expect(model).to_be_visible()
    expect(model).not_to_be_focused()
    context.close()


def test_a_gpu_that_no_machine_has(browser: Browser, world: World, scene: Scene) -> None:
    home = world.home("nogpu@example.com", "Quay", "plain")
    with without_gpus(world), creating(browser, world, home) as page:
        page.get_by_label("Model", exact=True).fill(QWEN)
        sentence = page.get_by_text("It fits on l40s-48gb")
        expect(sentence).to_contain_text("but no machine here offers")
        expect(sentence).to_contain_text(
            "Choose a GGUF model, which runs without a GPU, or ask the operator."
        )
        expect(sentence).not_to_be_focused()
        page.get_by_role("button", name="Next: Base settings").click()
        expect(sentence).to_be_focused()
        expect(sentence).to_be_in_viewport()


def test_a_hub_that_answers_nonsense_is_asked_again(browser: Browser, world: World, scene: Scene) -> None:
    home = world.home("nonsense@example.com", "Quay", "nonsense")
    with creating(browser, world, home) as page:
        world.hub.broken = JSONResponse(["nonsense"])
        page.get_by_label("Model", exact=True).fill("Qwen/Qwen3-8B@v1.0")
        expect(page.get_by_text("answered something that is not").first).to_be_visible()
        world.hub.broken = None
        page.get_by_role("button", name="Try again").click()
        expect(page.get_by_text("Found: public")).to_be_visible()


def test_words_are_the_same_everywhere(browser: Browser, world: World, scene: Scene) -> None:
    home = world.home("words@example.com", "Quay", "words")
    with creating(browser, world, home) as page:
        page.get_by_label("Model", exact=True).fill(QWEN)
        form = page.get_by_role("region", name="From a model")
        expect(form).to_contain_text("context 15.0 GB")
        expect(form).to_contain_text("Reserved for the system: 7 % of a GPU's memory. The context of a")
        expect(form).not_to_contain_text("KV cache")
        # Templates are called as their tiles are.
        page.get_by_role("radio", name="From a template").check()
        page.get_by_role("radiogroup", name="Template").get_by_role("radio", name="llama.cpp").check(
            force=True
        )
        page.get_by_label("Model", exact=True).fill(QWEN)
        refused = page.get_by_text("cannot be served by llama.cpp")
        expect(refused.first).to_contain_text("choose vLLM, SGLang, TGI")


@contextmanager
def without_gpus(world: World) -> Iterator[None]:
    had = world.do(world.api.rows("SELECT engine, name, gpus FROM nodes WHERE gpus <> '[]'"))
    world.do(world.api.execute("UPDATE nodes SET gpus = '[]'"))
    yield
    for one in had:
        put_back = "UPDATE nodes SET gpus = CAST(:gpus AS jsonb) WHERE engine = :engine AND name = :name"
        world.do(world.api.execute(put_back, gpus=json.dumps(one.gpus), engine=one.engine, name=one.name))
