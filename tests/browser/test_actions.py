"""What is done with a container from its menu: another instance type, other machines, a look at its network."""

import json

from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import browsing
from tests.browser.world import World

FINDINGS = {
    "resolvers": ["127.0.0.11"],
    "upstream_resolvers": [],
    "names": [{"name": "huggingface.co", "addresses": ["192.0.2.7"], "failure": None}],
    "outbound": [{"address": "192.0.2.7", "port": 443, "outcome": "connected"}],
    "forbidden": [{"address": "169.254.169.254", "port": 80, "outcome": "timed_out"}],
    "listening": [{"address": "0.0.0.0", "port": 8080}],
    "egress": "Every public address is allowed.",
}


def choose(page: Page, action: str) -> None:
    page.get_by_role("button", name="More actions").click()
    page.get_by_role("menuitem", name=action).click()


def test_a_stopped_container_is_redeployed_on_another_type(browser: Browser, world: World) -> None:
    home = world.home("move@example.com", "Move", "production")
    container = world.container(home, "grows", "STOPPED", settings={"instance_type": "cpu-nano"})
    # A machine that was not heard of for a while has nothing free.
    world.do(world.api.execute("UPDATE nodes SET seen_at = now()"))
    with browsing(browser, world, home.token) as page:
        page.goto(f"{world.url}/projects/{home.project_id}/containers/{container}")
        choose(page, "Redeploy on another type")
        dialog = page.get_by_role("dialog")
        expect(dialog.get_by_role("button", name="Redeploy")).to_be_disabled()
        dialog.get_by_role("radio", name="cpu-small").check(force=True)
        dialog.get_by_role("button", name="Redeploy for").click()
        expect(page.get_by_text("is being redeployed on cpu-small")).to_be_visible()
    shown = world.do(world.api.get(home.admin, f"/containers/{container}")).json()
    assert shown["resources"]["instance_type"] == "cpu-small"
    assert shown["state"] == "PENDING"


def test_the_doctor_says_what_it_found(browser: Browser, world: World) -> None:
    home = world.home("doctor@example.com", "Doctor", "production")
    container = world.container(home, "patient", "RUNNING", ready=1)
    world.do(world.api.execute("UPDATE replicas SET engine_id = 'e' WHERE container_id = :id", id=container))
    with browsing(browser, world, home.token) as page:
        page.goto(f"{world.url}/projects/{home.project_id}/containers/{container}")
        with page.expect_response(
            lambda answer: answer.request.method == "POST" and answer.url.endswith("/doctor")
        ):
            choose(page, "Run doctor")
        dialog = page.get_by_role("dialog")
        expect(dialog.get_by_text("Looks from inside a replica")).to_be_visible()
        world.do(
            world.api.execute(
                "UPDATE network_diagnoses SET state = 'done', finished_at = now(), message = 'Names resolve.', "
                "findings = CAST(:findings AS jsonb) WHERE container_id = :id",
                id=container,
                findings=json.dumps(FINDINGS),
            )
        )
        expect(dialog.get_by_text("Names resolve.")).to_be_visible()
        expect(dialog.get_by_role("row").filter(has_text="169.254.169.254:80")).to_contain_text(
            "as it should be"
        )


def test_a_restart_on_other_machines(browser: Browser, world: World) -> None:
    home = world.home("elsewhere@example.com", "Elsewhere", "production")
    container = world.container(home, "moves", "RUNNING", ready=1)
    with browsing(browser, world, home.token) as page:
        page.goto(f"{world.url}/projects/{home.project_id}/containers/{container}")
        choose(page, "Restart on other machines")
        expect(page.get_by_text("restarts on other machines")).to_be_visible()
    found = world.do(world.api.rows("SELECT avoidance FROM containers WHERE id = :id", id=container))
    assert found[0].avoidance is not None
