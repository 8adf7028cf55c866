"""How a model is named at the first step: what people paste, what keys do, and what is said where there is no way on."""

import re

from playwright.sync_api import Browser, expect

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
