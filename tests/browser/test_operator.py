"""The operator's area: what is decided there is what customers find."""

import json
import re

from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.conftest import browsing
from tests.browser.world import World


def test_a_bank_top_up_is_confirmed_by_the_operator(browser: Browser, world: World) -> None:
    """Less arrives than was announced, and that is what becomes credit."""
    home = world.home("payer@example.com", "Tidewater", "production")
    with (
        browsing(browser, world, home.token) as customer,
        browsing(browser, world, world.operator()) as operator,
    ):
        customer.goto(f"{world.url}/projects/{home.project_id}/billing")
        expect(balance(customer)).to_contain_text("$20.00")
        customer.get_by_text("Bank transfer", exact=True).click()
        customer.get_by_text("$250", exact=True).click()
        customer.get_by_role("button", name="Get transfer details for $250.00").click()
        waiting = customer.get_by_role("region", name="Waiting for your payment")
        expect(waiting).to_contain_text("Not received yet")
        expect(waiting).to_contain_text("IBAN XX00")
        reference = waiting.locator("code").inner_text()

        operator.goto(f"{world.url}/operator/transfers")
        row = operator.get_by_role("row").filter(has_text=reference)
        expect(row).to_contain_text("Tidewater")
        row.get_by_role("button", name="Mark as received…").click()
        dialog = operator.get_by_role("dialog")
        expect(dialog.get_by_label("Amount received in USD")).to_have_value("$250")
        dialog.get_by_label("Amount received in USD").fill("240.50")
        dialog.get_by_role("button", name="Credit $240.50").click()
        expect(row).to_have_count(0)
        operator.get_by_text("Received", exact=True).click()
        expect(row).to_contain_text("$240.50")

        customer.reload()
        expect(balance(customer)).to_contain_text("$260.50")
        expect(waiting).to_have_count(0)


def test_credit_is_granted_with_a_reason_and_an_organization_suspended_and_resumed(
    browser: Browser, world: World
) -> None:
    home = world.home("granted@example.com", "Lighthouse", "production")
    with browsing(browser, world, world.operator()) as page:
        page.goto(f"{world.url}/operator/health")
        # No controller runs here, and the page says so.
        jobs = page.get_by_role("listitem").filter(has_text="controller jobs")
        expect(jobs).to_contain_text("Has never run.")
        jobs.get_by_text(re.compile("^Show all")).click()
        expect(jobs).to_contain_text("starting and stopping containers")
        expect(page.get_by_role("main").get_by_role("status")).to_contain_text("controller jobs")
        page.get_by_role("link", name="Organizations").click()
        page.get_by_label("Filter organizations").fill("lighth")
        row = page.get_by_role("row").filter(has_text="Lighthouse")
        act(page, "Grant credit")
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Amount in USD").fill("7.25")
        expect(dialog.get_by_role("button", name="Grant $7.25")).to_be_disabled()
        dialog.get_by_label("Reason").fill("An outage of ours")
        dialog.get_by_role("button", name="Grant $7.25").click()
        expect(dialog).to_be_hidden()
        entries = world.do(
            world.api.get(home.admin, f"/organizations/{home.organization_id}/billing/entries")
        )
        assert "An outage of ours" in entries.text

        act(page, "Suspend")
        dialog.get_by_label("Reason").fill("Abuse")
        dialog.get_by_role("button", name="Suspend").click()
        expect(row).to_contain_text("Suspended")
        assert is_suspended(world, home.organization_id)
        act(page, "Resume")
        expect(row).to_contain_text("Active")
        assert not is_suspended(world, home.organization_id)


def test_more_replicas_are_granted_or_refused(browser: Browser, world: World) -> None:
    home = world.home("many-replicas@example.com", "Breakwater", "production")
    requests = f"/projects/{home.project_id}/replica-limit-requests"
    world.do(world.api.post(home.admin, requests, {"replicas": 64, "note": "a launch"}))
    with browsing(browser, world, world.operator()) as page:
        page.goto(f"{world.url}/operator/requests")
        row = page.get_by_role("row").filter(has_text="Breakwater")
        expect(row).to_contain_text("a launch")
        row.get_by_role("button", name="Grant").click()
        page.get_by_label("Answer").fill("For the launch.")
        page.get_by_role("dialog").get_by_role("button", name="Grant").click()
        expect(row).to_have_count(0)
        asked = world.do(world.api.get(home.admin, requests)).json()["items"]
        assert [(one["state"], one["answer"]) for one in asked] == [("approved", "For the launch.")]

        world.do(world.api.post(home.admin, requests, {"replicas": 99}))
        page.reload()
        row.get_by_role("button", name="Refuse").click()
        page.get_by_role("dialog").get_by_role("button", name="Refuse").click()
        expect(row).to_have_count(0)
        page.get_by_text("Refused", exact=True).click()
        expect(row).to_contain_text("99")


def test_a_type_is_added_priced_and_no_longer_offered(browser: Browser, world: World) -> None:
    with browsing(browser, world, world.operator()) as page:
        page.goto(f"{world.url}/operator/machines")
        expect(page.get_by_role("row", name=re.compile("^node-03 "))).to_contain_text("512 GiB")
        page.get_by_role("link", name="Instance types").click()
        # The page before has such a button too.
        expect(page.get_by_role("heading", name="Instance types")).to_be_visible()
        page.get_by_role("button", name="Add an instance type", exact=True).click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Name").fill("cpu-harbour")
        dialog.get_by_label("Price per hour in USD").fill("0.0125")
        dialog.get_by_role("button", name="Add").click()
        row = page.get_by_role("row").filter(has_text="cpu-harbour")
        expect(row).to_contain_text("$0.0125")

        def act(action: str) -> None:
            page.get_by_role("button", name="Actions of cpu-harbour").click()
            page.get_by_role("menuitem", name=action).click()

        act("Change price")
        dialog.get_by_label("Price per hour in USD").fill("0.02")
        dialog.get_by_role("button", name="Set $0.02/h").click()
        expect(row).to_contain_text("$0.02")
        act("Stop offering")
        expect(row).to_contain_text("No")
        home = world.home("buyer@example.com", "Buyer", "production")
        offered = world.do(world.api.get(home.admin, "/instance-types")).json()["items"]
        assert "cpu-harbour" not in [one["name"] for one in offered]
        act("Delete")
        dialog.get_by_role("button", name="Delete").click()
        expect(row).to_have_count(0)


def test_what_is_wrong_with_a_machine_is_said_and_a_type_for_its_gpu_is_added_by_a_press(
    browser: Browser, world: World
) -> None:
    gpus = [
        {"device_id": "GPU-0", "model": "NVIDIA Harbour 9", "memory_bytes": 24 * 2**30},
        {
            "device_id": "GPU-1",
            "model": "NVIDIA L4",
            "memory_bytes": 24 * 2**30,
            "unusable_because": "it fell off the bus",
        },
    ]
    fault = {
        "code": "persistence_off",
        "message": "It is unloaded.",
        "command": "nvidia-smi -pm 1",
        "broken": False,
    }
    world.do(
        world.api.execute(
            "INSERT INTO nodes (name, infrastructure, architecture, cpu_millis, memory_bytes, gpus, gpu_driver, "
            "cuda_version, gpu_handover, gpu_handover_reason, findings, seen_at) VALUES ('gpu-01', 'operator', 'amd64', "
            "16000, 68719476736, CAST(:gpus AS jsonb), '580.65', '13.0', 'direct', 'the engine has no CDI', "
            "CAST(:findings AS jsonb), now() + interval '1 hour')",
            gpus=json.dumps(gpus),
            findings=json.dumps([fault]),
        )
    )
    try:
        with browsing(browser, world, world.operator()) as page:
            page.goto(f"{world.url}/operator/machines")
            row = page.get_by_role("row", name=re.compile("^gpu-01 "))
            expect(row).to_contain_text("Direct")
            expect(row).to_contain_text("0 of 1 Harbour 9, 0 of 1 L4 in use")
            expect(row).to_contain_text("1 GPU out of use")
            about = page.get_by_role("region", name="gpu-01")
            expect(about).to_contain_text("GPUs are handed over directly")
            expect(about).to_contain_text("L4 GPU-1: it fell off the bus.")
            expect(about).to_contain_text("It is unloaded.")
            expect(about).to_contain_text("nvidia-smi -pm 1")
            page.get_by_role("link", name="Instance types").click()
            proposed = page.get_by_role("region", name="Proposed for GPUs that nothing offers")
            expect(proposed).to_contain_text("gpu-01 has NVIDIA Harbour 9, but no instance type offers it.")
            proposed.get_by_role("button", name="Add harbour-9-24gb").click()
            dialog = page.get_by_role("dialog")
            expect(dialog.get_by_label("Name")).to_have_value("harbour-9-24gb")
            dialog.get_by_label("Price per hour in USD").fill("0.5")
            dialog.get_by_role("button", name="Add").click()
            expect(page.get_by_role("row").filter(has_text="harbour-9-24gb")).to_contain_text("$0.50")
            expect(proposed).to_have_count(0)
    finally:
        world.do(world.api.execute("DELETE FROM nodes WHERE name = 'gpu-01'"))
        world.do(world.api.execute("DELETE FROM instance_types WHERE name = 'harbour-9-24gb'"))


def test_for_anybody_else_there_is_nothing_there(browser: Browser, world: World) -> None:
    home = world.home("curious@example.com", "Curious", "production")
    with browsing(browser, world, home.token) as page:
        page.goto(f"{world.url}/operator/organizations")
        expect(page.get_by_role("heading", name="There is nothing at this address.")).to_be_visible()
        page.goto(f"{world.url}/projects/{home.project_id}/containers")
        page.get_by_role("button", name="Account of curious@example.com").click()
        expect(page.get_by_role("menuitem", name="Sign out")).to_be_visible()
        expect(page.get_by_role("menuitem", name="Operator area")).to_have_count(0)


def test_home_says_what_is_missing_and_leads_to_what_waits(browser: Browser, world: World) -> None:
    home = world.home("waiter@example.com", "Waiting Room", "production")
    world.do(world.api.new_bank_transfer(home.organization_id))
    with browsing(browser, world, world.operator()) as page:
        page.goto(f"{world.url}/operator")
        expect(page).to_have_url(re.compile("/operator/home$"))
        setup = page.get_by_role("region", name="Set-up")
        backup = setup.get_by_role("listitem").filter(has_text="Backup")
        expect(backup.get_by_role("img", name="Missing")).to_be_visible()
        expect(backup).to_contain_text("If this disk fails, balances, invoices and settings are lost.")
        expect(backup).to_contain_text("moor backup FILE")
        expect(setup.get_by_role("link", name="Set up Backup, in the handbook")).to_have_attribute(
            "href", "/docs/backup"
        )
        # What is missing comes first, and only what was looked at is done.
        states = (
            setup.get_by_role("listitem")
            .get_by_role("img")
            .evaluate_all("all => all.map(one => one.getAttribute('aria-label'))")
        )
        assert states == sorted(states, key=["Missing", "Not known", "Done"].index)
        done = states.count("Done")
        expect(setup).to_contain_text(f"{done} of {len(states)} done")
        world.do(world.api.execute("UPDATE installation SET backed_up_at = now()"))
        expect(backup.get_by_role("img", name="Done")).to_be_visible()
        expect(setup).to_contain_text(f"{done + 1} of {len(states)} done")
        world.do(world.api.execute("UPDATE installation SET backed_up_at = NULL"))
        page.get_by_role("link", name=re.compile("bank transfer")).click()
        expect(page.get_by_role("heading", name="Bank transfers")).to_be_visible()


def test_an_organization_is_found_and_seen_from_above(browser: Browser, world: World) -> None:
    home = world.home("keeper@example.com", "Breakwater", "production")
    world.container(home, "breakwater-chat", "RUNNING", ready=1, settings={"image": "acme/hidden:1"})
    with browsing(browser, world, world.operator()) as page:
        page.goto(f"{world.url}/operator/health")
        page.get_by_role("button", name=re.compile("Search or jump to")).click()
        field = page.get_by_placeholder("Organization, person, container, machine, request id")
        field.fill("breakwater-ch")
        expect(page.get_by_role("option", name="breakwater-chat Container of Breakwater")).to_be_visible()
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="Breakwater")).to_be_visible()
        expect(page).to_have_url(re.compile(f"/operator/organizations/{home.organization_id}$"))
        expect(page.get_by_role("region", name="In numbers")).to_contain_text("$20.00")
        row = (
            page.get_by_role("region", name="Containers")
            .get_by_role("row")
            .filter(has_text="breakwater-chat")
        )
        expect(row).to_contain_text("Running")
        expect(row).to_contain_text("1 of 1")
        expect(page.get_by_role("region", name="People")).to_contain_text("keeper@example.com")
        assert "acme/hidden" not in page.content()
        page.get_by_role("button", name="Actions of Breakwater").click()
        page.get_by_role("menuitem", name="Suspend").click()
        page.get_by_role("dialog").get_by_label("Reason").fill("unpaid")
        page.get_by_role("dialog").get_by_role("button", name="Suspend").click()
        expect(page.get_by_text("Suspended since")).to_be_visible()
        expect(page.get_by_role("region", name="Audit")).to_contain_text("organization.suspend")
        # Nothing of that name: said, and not before it was asked.
        page.keyboard.press("Control+k")
        field.fill("no such thing anywhere")
        expect(page.get_by_text("Nothing has that name.")).to_be_visible()


def test_a_person_is_signed_out_everywhere(browser: Browser, world: World) -> None:
    home = world.home("taken@example.com", "Taken", "production")
    with (
        browsing(browser, world, home.token) as theirs,
        browsing(browser, world, world.operator()) as operator,
    ):
        theirs.goto(f"{world.url}/projects/{home.project_id}/api-keys")
        expect(theirs.get_by_role("heading", name="API keys")).to_be_visible()
        operator.goto(f"{world.url}/operator/users")
        operator.get_by_label("Filter users").fill("taken@")
        operator.get_by_role("button", name="Actions of taken@example.com").click()
        operator.get_by_role("menuitem", name="Sign out everywhere").click()
        operator.get_by_role("dialog").get_by_role("button", name="Sign out everywhere").click()
        expect(operator.get_by_text("taken@example.com is signed out everywhere.")).to_be_visible()
        theirs.reload()
        expect(theirs).to_have_url(re.compile("/login"))


def balance(page: Page) -> Locator:
    return page.get_by_role("group", name="Credit")


def act(page: Page, action: str) -> None:
    page.get_by_role("button", name="Actions of Lighthouse").click()
    page.get_by_role("menuitem", name=action).click()


def is_suspended(world: World, organization_id: str) -> bool:
    answer = world.do(world.api.get(world.api.operator, "/operator/organizations?limit=200")).json()
    return any(one["id"] == organization_id and one["suspended_at"] for one in answer["items"])
