"""The whole story at a browser, in front of real Postgres, Docker and HAProxy."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Visitor

DEPLOYED_MS = 90_000


@pytest.mark.timeout(240)
@pytest.mark.long
def test_from_sign_up_to_an_answer_and_back_to_nothing(visitor_of_a_whole: Visitor) -> None:
    visitor = visitor_of_a_whole
    page = visitor.page
    visitor.sign_in("story@example.com")
    page.get_by_label("Name").fill("harbour")
    page.get_by_role("button", name="Create project").click()

    # Funded by a bank transfer that arrives.
    page.get_by_role("link", name="Top up").click()
    page.get_by_text("Bank transfer", exact=True).click()
    page.get_by_text("$50", exact=True).click()
    page.get_by_role("button", name="Get transfer details for $50.00").click()
    reference = page.get_by_role("region", name="Waiting for your payment").locator("code").inner_text()
    confirm_transfer(visitor, reference, 50_000_000)
    page.reload()
    expect(page.get_by_role("group", name="Credit")).to_contain_text("$70.00")
    page.get_by_role("link", name="Service").click()
    page.get_by_role("link", name="Create a container").click()

    # Five steps. One that lacks something says so beside the field and lets nobody pass.
    page.get_by_role("radio", name="Your own image").check()
    page.get_by_role("button", name="Next: Base settings").click()
    expect(page.get_by_text("Name the image to run.")).to_be_visible()
    page.get_by_role("button", name="Use the example").click()
    page.get_by_role("button", name="Next: Base settings").click()
    page.get_by_label("Name", exact=True).fill("")
    page.get_by_role("button", name="Next: Resources").click()
    expect(page.get_by_text("Give it a name.")).to_be_visible()
    page.get_by_label("Name", exact=True).fill("pilot")
    page.get_by_role("button", name="Next: Resources").click()
    page.get_by_role("radio", name="cpu-nano").check(force=True)
    page.get_by_role("button", name="Next: Advanced").click()
    page.get_by_label("Name of variable 1").fill("GREETING")
    page.get_by_label("Value of variable 1").fill("ahoy")

    # Leaving and coming back keeps the draft, and the step.
    page.reload()
    expect(page.get_by_label("Name of variable 1")).to_have_value("GREETING")
    page.get_by_role("button", name="Next: Review").click()
    expect(page.get_by_text("GREETING")).to_be_visible()
    expect(page.get_by_text("pilot", exact=True)).to_be_visible()
    page.get_by_role("button", name=re.compile("Deploy for")).click()

    status = page.get_by_role("main").get_by_role("status").first
    expect(status).to_contain_text("Running", timeout=DEPLOYED_MS)
    page.get_by_role("link", name="Dashboard").click()

    page.get_by_role("link", name="Playground").click()
    page.get_by_label("Message", exact=True).fill("Where do I moor?")
    page.keyboard.press("Enter")
    expect(page.get_by_role("log")).to_contain_text("Where do I moor?", timeout=20_000)
    expect(page.get_by_role("log").get_by_text(re.compile("^req_"))).to_be_visible(timeout=20_000)
    # It was asked for its models, and how its answer came about is told.
    expect(page.get_by_role("textbox", name="Model")).to_have_attribute("placeholder", "harbour-pilot")
    page.get_by_role("log").get_by_text(re.compile("^req_")).click()
    expect(page.get_by_role("heading", name=re.compile("^Took "))).to_be_visible(timeout=30_000)
    receipt = page.get_by_role("region", name="Receipt")
    for fact in ("200", "POST /api/v1/chat/completions", "playground", "version 1", "none"):
        expect(receipt).to_contain_text(fact)

    page.get_by_role("link", name="Playground", exact=True).click()
    page.get_by_text("HTTP", exact=True).click()
    page.get_by_role("button", name="Send").click()
    answer = page.get_by_role("region", name="Answer")
    expect(answer).to_contain_text('"id": "harbour-pilot"', timeout=20_000)
    page.get_by_text("Embeddings", exact=True).click()
    page.get_by_label("Text to embed").fill("Where do I moor?")
    page.get_by_role("button", name="Send").click()
    expect(answer).to_contain_text("404", timeout=20_000)

    page.get_by_role("link", name="Metrics").click()
    page.get_by_text(
        "15 min", exact=True
    ).click()  # second by second, so nothing waits for a longer step to end
    answered = page.get_by_role("region", name="Response time", exact=True)
    expect(answered.get_by_role("img")).to_be_visible(timeout=60_000)

    page.get_by_role("link", name="Logs").click()
    lines = page.get_by_role("region", name="Log lines, newest first")
    expect(lines).to_be_visible(timeout=20_000)

    # It has answered just now, so who stops it is told so first.
    page.get_by_role("button", name="Stop", exact=True).click()
    page.get_by_role("dialog", name="Stop pilot?").get_by_role("button", name="Stop").click()
    expect(page.get_by_role("banner").get_by_role("status")).to_contain_text("Stopped", timeout=DEPLOYED_MS)
    page.get_by_role("link", name="Settings").click()
    page.get_by_label("Name", exact=True).fill("pilot-2")
    page.get_by_role("button", name="Save and start").click()
    expect(page.get_by_role("banner").get_by_role("status")).to_contain_text("Running", timeout=DEPLOYED_MS)

    page.get_by_role("button", name="More actions").click()
    page.get_by_role("menuitem", name="Delete").click()
    expect(page.get_by_role("button", name="Delete container")).to_be_disabled()
    page.get_by_label("Type pilot-2").fill("pilot-2")
    page.get_by_role("button", name="Delete container").click()
    expect(page.get_by_text("Nothing runs here yet.")).to_be_visible(timeout=DEPLOYED_MS)


def confirm_transfer(visitor: Visitor, reference: str, received_microusd: int) -> None:
    with visitor.operator() as operator:
        waiting = operator.get("/operator/bank-transfers", params={"state": "pending"}).json()["items"]
        [transfer] = [one for one in waiting if one["reference"] == reference]
        body = {"received_microusd": received_microusd}
        operator.post(f"/operator/bank-transfers/{transfer['id']}/confirm", json=body).raise_for_status()
