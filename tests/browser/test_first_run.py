"""An empty project: the example in one click, its answer with the second, and what else one can begin with."""

import re

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import Visitor, browsing
from tests.browser.world import World

ANSWERS_MS = 180_000


@pytest.mark.timeout(360)
def test_from_an_empty_project_to_an_answer_in_two_clicks(visitor_of_a_whole: Visitor) -> None:
    page = visitor_of_a_whole.page
    visitor_of_a_whole.sign_in("newcomer@example.com")
    page.get_by_label("Name").fill("first")
    page.get_by_role("button", name="Create project").click()

    page.get_by_role("button", name=re.compile(r"^Deploy the example for \$")).click()
    expect(page.get_by_text("The playground opens as soon as it answers.")).to_be_visible()
    expect(page).to_have_url(re.compile("/playground$"), timeout=ANSWERS_MS)
    page.get_by_role("button", name="Where do ships moor?").click()
    answered = page.get_by_role("log")
    expect(answered.get_by_text(re.compile("^req_"))).to_be_visible(timeout=30_000)
    expect(answered.locator("article > div")).to_contain_text("Where do ships moor?")

    # Back leads to the containers and not to the page that leads on.
    page.go_back()
    expect(page.get_by_role("heading", name="Welcome to Moorage")).to_be_hidden()
    expect(page).not_to_have_url(re.compile("/playground$"))


def test_an_empty_project_offers_models_and_templates(browser: Browser, world: World) -> None:
    home = world.home("begin@example.com", "Begin", "production")
    world.do(world.api.execute("UPDATE nodes SET seen_at = now() + interval '1 hour' WHERE name = 'node-03'"))
    with browsing(browser, world, home.token) as page:
        empty = f"{world.url}/projects/{home.project_id}/containers"
        page.goto(empty)
        deploy = page.get_by_role("button", name="Deploy the example for $0.005/h")
        expect(deploy).to_be_enabled()
        page.get_by_role("navigation", name="Start from a model").get_by_role("link").filter(
            has_text="Qwen/Qwen2.5-7B-Instruct"
        ).first.click()
        expect(page.get_by_label("Model", exact=True)).to_have_value("hf:Qwen/Qwen2.5-7B-Instruct")
        page.goto(empty)
        page.get_by_role("navigation", name="Start from a template").get_by_role(
            "link", name="llama.cpp"
        ).click()
        expect(page.get_by_role("radio", name="llama.cpp")).to_be_checked()

        # On a phone as well, where list and container are two pages.
        page.set_viewport_size({"width": 390, "height": 844})
        page.goto(empty)
        expect(deploy).to_be_in_viewport()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        deploy.click()
        expect(page.get_by_role("heading", name="chat", exact=True)).to_be_visible()
    made = world.do(world.api.get(home.admin, f"/projects/{home.project_id}/containers")).json()["items"]
    assert [(one["image"], one["resources"]["instance_type"]) for one in made] == [
        ("local/chat:latest", "cpu-nano")
    ]
