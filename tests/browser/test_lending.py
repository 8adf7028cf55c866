"""Machines that organizations lend: their owner's page, the operator's, and what a tenant is told before strangers' machines run
anything of theirs."""

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, Page, expect

from moorage.kit.clock import system_clock
from moorage.machines.states import Happening, MachineState
from tests.browser.conftest import NAMED, browsing, build_console
from tests.browser.installations import Installation, installed, proxy
from tests.browser.lending import EARNED_MICROUSD, add_earnings, add_lent_machines, lend
from tests.browser.test_machines import act, happens, row_of
from tests.browser.test_pages import AXE, violations
from tests.browser.world import World
from tests.database.api_support import ANONYMOUS, Home, join_body
from tests.ports import free_port

OWN, LENT = "cpu-own", "cpu-lent"
SIZE = {
    "gpu_model": None,
    "gpu_count": 0,
    "vcpu_millis": 2000,
    "memory_bytes": 2**32,
    "disk_bytes": 2**34,
}
HOURS = 40
PAYABLE = f"${HOURS * EARNED_MICROUSD / 1e6:.2f}"


@pytest.fixture(scope="module")
def town() -> Iterator[World]:
    """A world with a size that both the operator and others offer, the others for less."""
    build_console()
    world = World()
    world.start()
    for name, kind, price in ((OWN, "operator", 50_000), (LENT, "community", 30_000)):
        wanted = {**SIZE, "name": name, "infrastructure": kind, "price_per_hour_microusd": price}
        made = world.do(world.api.post(world.api.operator, "/operator/instance-types", wanted))
        assert made.status_code == 201, made.text
    world.do(
        world.api.execute(
            "INSERT INTO nodes (engine, name, infrastructure, architecture, cpu_millis, memory_bytes, gpus, seen_at) VALUES "
            "('mch_far', 'mch_far', 'community', 'amd64', 64000, 549755813888, '[]', now() + interval '1 hour')"
        )
    )
    yield world
    world.stop()


def owner_of(world: World, email: str, organization: str) -> Home:
    return world.home(email, organization, "production")


@pytest.fixture
def reachable(browser: Browser, town: World, tmp_path: Path) -> Iterator[Installation]:
    """It has an https:// address, as machines need one."""
    behind, port = free_port(), free_port()
    with (
        installed(browser, town, behind, f"https://{NAMED}:{port}") as found,
        proxy(tmp_path, port, behind),
    ):
        yield found


def test_an_owner_lends_a_machine_and_has_the_say(reachable: Installation) -> None:
    world, page = reachable.world, reachable.visitor.page
    owner_of(world, "lender@example.com", "Harbour Labs")
    hub = world.do(world.api.new_hub())
    world.do(
        world.api.execute(
            "UPDATE tunnel_hubs SET seen_at = now() + interval '1 hour' WHERE id = :id", id=hub.hub_id
        )
    )
    reachable.visitor.sign_in("lender@example.com")
    page.get_by_role("link", name="Machines", exact=True).click()
    expect(page.get_by_role("region", name="Your machines")).to_contain_text("No machine is lent yet.")
    about = page.get_by_role("region", name="What owners and tenants see of each other")
    expect(about).to_contain_text("With root you can read their memory: prompts, weights, secrets.")
    expect(about).to_contain_text("Their code goes out through your public IP")

    add = page.get_by_role("region", name="Add a machine")
    add.get_by_label("Name").fill("Garage 1")
    add.get_by_role("button", name="Get the command").click()
    expect(add).to_contain_text("Must be 1 to 63 small letters, digits, dots or hyphens")
    add.get_by_label("Name").fill("garage-1")
    page.keyboard.press("Enter")
    expect(add).to_contain_text(re.compile("Expires in (29|30) min"))
    command = add.locator("code").first.inner_text()
    assert "/machines/join-community.sh" in command
    token = re.findall(r"moor_join_\w+", command)[0]
    body = join_body(token)
    body["facts"]["runtime"] = "runsc"
    joined = world.do(world.api.post(ANONYMOUS, "/machines/join", body)).json()
    happens(world, joined["id"], Happening.ANSWERED)
    expect(add.get_by_role("status")).to_have_text(
        "garage-1 has joined. It is proving the hardware that it claims. Nothing runs there yet."
    )
    add.get_by_role("button", name="Done").click()
    row = row_of(page, "garage-1")
    expect(row).to_contain_text("Verifying")
    happens(world, joined["id"], Happening.VERIFIED)
    expect(row).to_contain_text("It takes replicas of containers that also run elsewhere.")
    happens(world, joined["id"], Happening.PROMOTED)
    expect(row).to_contain_text("Active")

    act(page, "garage-1", "Pause")
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox", name="How long").click()
    page.get_by_role("option", name="For 8 hours").click()
    dialog.get_by_role("button", name="Pause").click()
    expect(row).to_contain_text("Pausedby you")
    expect(row).to_contain_text("It takes no new replicas. Those that run stay. Until ")
    act(page, "garage-1", "Resume")
    expect(row).to_contain_text("Active")
    act(page, "garage-1", "Reclaim")
    expect(dialog).to_contain_text("within 30 seconds the machine is empty")
    dialog.get_by_role("button", name="Reclaim").click()
    expect(row).to_contain_text("Drainingby you")

    # The operator's word is not the owner's to take back.
    world.do(world.api.post(world.api.operator, f"/machines/{joined['id']}/drain"))
    expect(row).to_contain_text("Drainingby the operator")
    page.get_by_role("button", name="Actions of garage-1").click()
    expect(page.get_by_role("menuitem", name="Remove")).to_be_visible()
    expect(page.get_by_role("menuitem", name="Resume")).to_have_count(0)
    page.keyboard.press("Escape")
    ban = {"reason": "It offers a GPU that it does not have."}
    world.do(world.api.post(world.api.operator, f"/operator/machines/{joined['id']}/ban", ban))
    expect(row).to_contain_text("Banned")
    expect(row).to_contain_text("It offers a GPU that it does not have.")
    expect(page.get_by_role("button", name="Actions of garage-1")).to_have_count(0)


def test_what_was_earned_is_asked_for_sent_and_seen(browser: Browser, town: World) -> None:
    home = owner_of(town, "earner@example.com", "Lighthouse")
    now = system_clock.now()
    history: Any = [(60, MachineState.ACTIVE, None), (5, MachineState.LOST, MachineState.ACTIVE)]
    history += [(4.5, MachineState.ACTIVE, None)]
    machine_id = town.do(lend(town.api, home.organization_id, "quay-1", MachineState.ACTIVE, history, now))
    town.do(add_earnings(town.api, home.organization_id, machine_id, hours=HOURS))
    with (
        browsing(browser, town, home.token) as page,
        browsing(browser, town, town.operator()) as operator,
    ):
        page.goto(f"{town.url}/projects/{home.project_id}/machines")
        short = page.get_by_role("region", name="In short")
        expect(short).to_contain_text(f"Payable now{PAYABLE}")
        expect(short).to_contain_text("70 % of what tenants paid")
        # 708 hours there, and 12 lost, which count tenfold.
        expect(row_of(page, "quay-1")).to_contain_text("85.7 %")
        strip = row_of(page, "quay-1").get_by_role("img", name=re.compile("^Last 30 days: "))
        expect(strip).to_have_accessible_name(
            re.compile(r"(28|29) there all day, 0 away, announced, [12] with a loss")
        )

        earnings = page.get_by_role("region", name="Earnings")
        expect(earnings.get_by_role("row").filter(has_text="quay-1").first).to_contain_text("+1.085")
        page.get_by_role("button", name="Statements").click()
        link = earnings.get_by_role("link", name=re.compile("^PDF of ")).first
        path = str(link.get_attribute("href"))
        pdf = town.do(town.api.ask(home.admin, "GET", path))
        assert pdf.headers["content-type"] == "application/pdf"
        assert pdf.content.startswith(b"%PDF")

        ask = page.get_by_role("button", name=f"Request payout of {PAYABLE}")
        ask.click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Holder").fill("Lighthouse Ltd")
        dialog.get_by_label("IBAN or account number").fill("DE02 1203 0000 0000 2020 51")
        dialog.get_by_role("button", name="Save the account").click()
        payouts = page.get_by_role("region", name="Payouts", exact=True)
        expect(payouts).to_contain_text("… 2051")
        expect(payouts).to_contain_text("Nothing is sent before")
        expect(ask).to_have_attribute("aria-disabled", "true")
        assert "1203 0000" not in page.locator("body").inner_text()
        town.do(
            town.api.execute(
                "UPDATE payout_accounts SET changed_at = now() - interval '8 days' WHERE organization_id = :id",
                id=home.organization_id,
            )
        )
        page.reload()
        ask.click()
        dialog.get_by_role("button", name=f"Request {PAYABLE}").click()
        expect(short).to_contain_text(f"{PAYABLE} requested")

        # Frozen, it cannot be marked as sent, and says until when.
        freeze = "UPDATE payout_accounts SET changed_at = now() - interval '{}' WHERE organization_id = :id"
        town.do(town.api.execute(freeze.format("1 day"), id=home.organization_id))
        operator.goto(f"{town.url}/operator/payouts")
        asked = operator.get_by_role("row").filter(has_text="Lighthouse")
        expect(asked).to_contain_text("DE02120300000000202051")
        expect(asked).to_contain_text(
            re.compile(r"On hold.*Send nothing before \w{3} \d+ \w+ \d{4}, \d\d:\d\d")
        )
        send = asked.get_by_role("button", name="Mark as sent…")
        expect(send).to_have_attribute("aria-disabled", "true")
        send.click(force=True)
        expect(operator.get_by_role("dialog")).to_have_count(0)
        # It may have left the bank before the account was changed.
        asked.get_by_role("button", name="It was sent…").click()
        sent = operator.get_by_role("dialog")
        expect(sent).to_contain_text("Only if the transfer has left your bank already.")
        expect(sent).to_contain_text("The bank account was changed.")
        sent.get_by_label("Reference of the transfer").fill("wire 6")
        expect(sent.get_by_role("button", name=f"Book {PAYABLE} as sent")).to_be_disabled()
        sent.get_by_label("It has been sent already").check()
        expect(sent.get_by_role("button", name=f"Book {PAYABLE} as sent")).to_be_enabled()
        operator.keyboard.press("Escape")
        town.do(town.api.execute(freeze.format("8 days"), id=home.organization_id))
        operator.reload()
        expect(asked).to_contain_text("Ready to send")
        asked.get_by_role("button", name="Refuse…").click()
        decision = operator.get_by_role("dialog")
        decision.get_by_label("Reason").fill("The bank does not know this account.")
        decision.get_by_role("button", name="Refuse").click()
        expect(asked).to_have_count(0)
        page.reload()
        ask.click()
        dialog.get_by_role("button", name=f"Request {PAYABLE}").click()
        expect(short).to_contain_text(f"{PAYABLE} requested")

        # A bank took some of it back meanwhile: it is not sent as it is.
        town.do(
            town.api.execute(
                "UPDATE earnings SET transfer_microusd = 0 WHERE hour_id = :hour", hour=f"hour_{machine_id}0"
            )
        )
        operator.reload()
        expect(asked).to_contain_text("the rest was taken back")
        asked.get_by_role("button", name="Mark as sent…").click()
        expect(decision).to_contain_text("Lighthouse Ltd")
        decision.get_by_label("Reference of the transfer").fill("wire 7")
        book = decision.get_by_role("button", name=f"Book {PAYABLE} as sent")
        expect(book).to_be_disabled()
        decision.get_by_label("It has been sent already").check()
        book.click()
        expect(asked).to_have_count(0)
        operator.get_by_text("Sent", exact=True).click()
        expect(asked).to_contain_text("wire 7")

        page.reload()
        earnings.get_by_text("Payouts", exact=True).click()
        expect(earnings.get_by_role("row").filter(has_text="wire 7")).to_contain_text("Sent")
        expect(earnings.get_by_role("row").filter(has_text="The bank does not know")).to_contain_text(
            "Refused"
        )
        expect(short).to_contain_text("taken back: later earnings make up for it")


def test_who_is_no_admin_sees_machines_and_no_money(browser: Browser, town: World) -> None:
    home = owner_of(town, "crew@example.com", "Crew")
    town.do(add_lent_machines(town.api, home.organization_id, system_clock.now()))
    try:
        member, token = town.do(town.api.new_person("deckhand@example.com"))
        town.do(town.api.join(home.organization_id, member))
        town.do(
            town.api.execute(
                "INSERT INTO project_members (project_id, user_id) VALUES (:project, :id)",
                project=home.project_id,
                id=member,
            )
        )
        with browsing(browser, town, token) as page:
            page.goto(f"{town.url}/projects/{home.project_id}/machines")
            expect(row_of(page, "harbour-01")).to_contain_text("Trusted")
            expect(
                page.get_by_role("region", name="What owners and tenants see of each other")
            ).to_be_visible()
            for region in ("Add a machine", "Earnings", "Payouts"):
                expect(page.get_by_role("region", name=region, exact=True)).to_have_count(0)
            expect(page.get_by_role("button", name=re.compile("^Actions of|payout"))).to_have_count(0)
            expect(page.get_by_role("main").get_by_text("$")).to_have_count(0)
    finally:
        town.do(
            town.api.execute(
                "DELETE FROM machines WHERE owner_organization_id = :id", id=home.organization_id
            )
        )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_operator_sees_trust_and_proofs_bans_and_voids(
    browser: Browser, town: World, scheme: Literal["light", "dark"]
) -> None:
    home = owner_of(town, f"trusted-{scheme}@example.com", "Breakwater")
    ids = town.do(add_lent_machines(town.api, home.organization_id, system_clock.now()))
    try:
        with browsing(browser, town, town.operator()) as page:
            page.emulate_media(color_scheme=scheme)
            page.set_viewport_size({"width": 1440, "height": 900})
            page.goto(f"{town.url}/operator/machines")
            lent = page.get_by_role("region", name="Community machines")
            for name, state, more in (
                ("harbour-01", "Active", "Trusted"),
                ("lab-l40s", "Draining", "by its owner"),
                ("attic-4090", "Probation", "Passed 7 h"),
                ("cellar-l4", "Verifying", "Not passed yet"),
                ("garage-3090", "Lost", "Probation"),
                ("shed-t4", "Banned", "It offers a GPU that it does not have."),
            ):
                row = lent.get_by_role("row", name=re.compile(f"^{name} "))
                expect(row).to_contain_text(state)
                expect(row).to_contain_text(more)
                expect(row).to_contain_text("Breakwater")
            own = page.get_by_role("region", name="Machines", exact=True)
            expect(own.get_by_role("row").filter(has_text="harbour-01")).to_have_count(0)
            # Where probation takes what has room, another is not the only one.
            act(page, "attic-4090", "Drain")
            dialog = page.get_by_role("dialog")
            expect(dialog).to_contain_text("What has room nowhere else stays")
            dialog.get_by_role("button", name="Cancel").click()

            act(page, "harbour-01", "Void held earnings")
            dialog.get_by_label("Reason").fill("It is another GPU.")
            dialog.get_by_role("button", name="Void them").click()
            expect(dialog).to_be_hidden()
            voided = town.do(
                town.api.rows("SELECT reason FROM machine_voids WHERE machine_id = :id", id=ids["harbour-01"])
            )
            assert [one[0] for one in voided] == ["operator"]

            act(page, "harbour-01", "Ban")
            dialog.get_by_label("Reason").fill("It is another GPU.")
            dialog.get_by_role("button", name="Ban").click()
            row = row_of(page, "harbour-01")
            expect(row).to_contain_text("Banned")
            expect(row).to_contain_text("It is another GPU.")
            act(page, "harbour-01", "Unban")
            expect(row).to_contain_text("Joining")
            assert usable(page) == []
    finally:
        town.do(town.api.execute("DELETE FROM machine_voids"))
        town.do(
            town.api.execute(
                "DELETE FROM machines WHERE owner_organization_id = :id", id=home.organization_id
            )
        )


@pytest.mark.parametrize(("scheme", "width"), [("light", 390), ("dark", 390), ("light", 820), ("dark", 1280)])
def test_nothing_is_outside_the_page_on_a_phone_or_beside_it(
    browser: Browser, town: World, scheme: Literal["light", "dark"], width: int
) -> None:
    home = owner_of(town, f"{scheme}-{width}@example.com", "Pocket")
    ids = town.do(add_lent_machines(town.api, home.organization_id, system_clock.now()))
    town.do(add_earnings(town.api, home.organization_id, ids["harbour-01"], hours=3))
    try:
        for token, path in (
            (home.token, f"/projects/{home.project_id}/machines"),
            (town.operator(), "/operator/machines"),
        ):
            with browsing(browser, town, token) as page:
                page.emulate_media(color_scheme=scheme)
                page.set_viewport_size({"width": width, "height": 900})
                page.goto(f"{town.url}{path}")
                expect(row_of(page, "harbour-01")).to_contain_text("Active")
                for table in page.get_by_role("region", name="Table").all():
                    assert table.evaluate("element => element.scrollWidth - element.clientWidth") == 0
                assert page.evaluate("document.documentElement.scrollWidth") == width
                assert usable(page) == []
    finally:
        town.do(
            town.api.execute(
                "DELETE FROM machines WHERE owner_organization_id = :id", id=home.organization_id
            )
        )


@pytest.mark.parametrize(
    ("scheme", "width"), [("light", 1280), ("dark", 390)], ids=["light-wide", "dark-phone"]
)
def test_what_community_means_is_said_before_it_is_chosen_and_has_to_be_accepted(
    browser: Browser, town: World, scheme: Literal["light", "dark"], width: int
) -> None:
    home = owner_of(town, f"tenant-{scheme}@example.com", "Tenant")
    with browsing(browser, town, home.token) as page:
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 900})
        page.goto(f"{town.url}/projects/{home.project_id}/create")
        page.get_by_role("radio", name="Your own image").check()
        page.get_by_label("Image", exact=True).first.fill("local/chat:latest")
        page.get_by_role("button", name="Next: Base settings").click()
        page.get_by_label("Name", exact=True).fill(f"exposed-{scheme}")
        page.get_by_role("button", name="Next: Resources").click()
        meaning = page.get_by_text("the owner of a machine can read what runs there")
        expect(meaning).to_be_visible()
        kinds = page.get_by_role("radiogroup", name="Infrastructure")
        expect(kinds.get_by_role("radio", name="Operator")).to_be_checked()
        accepted = page.get_by_label("The owner of the machine may read what runs there")
        expect(accepted).to_have_count(0)

        kinds.get_by_text("Community", exact=True).click()
        page.get_by_role("radio", name=LENT).check()
        price = page.get_by_label("Price", exact=True)
        expect(price).to_contain_text("$0.03/h")
        expect(price).to_contain_text("Held at deploy$0.03")
        page.get_by_role("button", name="Next: Advanced").click()
        expect(page.get_by_text("Accept it, or choose the operator's machines.")).to_be_visible()
        accepted.check()

        # Whatever is chosen of the two, either may be taken, and the dearer is held. Who accepted one has not accepted the other.
        kinds.get_by_text("Any", exact=True).click()
        expect(accepted).not_to_be_checked()
        page.get_by_role("radio", name=LENT).check()
        expect(price).to_contain_text("$0.03 – 0.05/h")
        expect(price).to_contain_text(
            "cpu-lent at $0.03/h or cpu-own at $0.05/h, the cheaper one that has room"
        )
        expect(price).to_contain_text("Held at deploy$0.05")
        expect(price).to_contain_text("The dearer price is held")
        assert usable(page) == []
        accepted.check()
        page.get_by_role("button", name="Next: Advanced").click()
        page.get_by_role("button", name="Next: Review").click()
        expect(page.get_by_role("region", name="Resources")).to_contain_text(
            "their owners can read what runs there"
        )
        page.get_by_role("button", name="Deploy for $0.03 – 0.05/h").click()
        page.wait_for_url(re.compile("/containers/ctr_"))
    (made,) = town.do(town.api.get(home.admin, f"/projects/{home.project_id}/containers")).json()["items"]
    assert (made["infrastructure"], made["accept_exposure"]) == ("any", True)
    held = town.do(town.api.get(home.admin, f"/organizations/{home.organization_id}/billing")).json()
    assert held["held_microusd"] == 50_000
    audit = town.do(town.api.get(home.admin, f"/organizations/{home.organization_id}/audit")).json()["items"]
    assert "container.accept_exposure" in [one["action"] for one in audit]


def test_a_tenant_sees_what_their_replica_runs_on_and_not_whose_it_is(browser: Browser, town: World) -> None:
    owner, tenant = (
        owner_of(town, "host@example.com", "Host Ltd"),
        owner_of(town, "guest@example.com", "Guest"),
    )
    now = system_clock.now()
    history: Any = [(4, MachineState.ACTIVE, None)]
    machine_id = town.do(lend(town.api, owner.organization_id, "host-1", MachineState.ACTIVE, history, now))
    town.do(
        town.api.execute(
            "INSERT INTO nodes (engine, name, infrastructure, architecture, cpu_millis, memory_bytes, gpus, seen_at, owner) "
            "VALUES (:id, :id, 'community', 'amd64', 1000, 1000, CAST(:gpus AS jsonb), :ahead, :owner)",
            id=machine_id,
            gpus='[{"device_id": "GPU-0", "model": "NVIDIA L4"}]',
            ahead=now + timedelta(hours=1),
            owner=owner.organization_id,
        )
    )
    container_id = town.container(tenant, "guest-chat", "RUNNING", ready=1)
    town.do(
        town.api.execute(
            "UPDATE replicas SET engine = :machine, node = :machine, gpu_device_ids = '{GPU-0}' WHERE container_id = :id",
            machine=machine_id,
            id=container_id,
        )
    )
    with browsing(browser, town, tenant.token) as page:
        page.goto(f"{town.url}/projects/{tenant.project_id}/containers/{container_id}")
        replicas = page.get_by_role("region", name="Replicas")
        expect(replicas).to_contain_text(re.compile(r"Community · L4 · standard · 0\.99\d"))
        for secret in ("host-1", "Host Ltd"):
            expect(page.get_by_text(secret)).to_have_count(0)


def usable(page: Page) -> list[str]:
    """What axe-core finds serious."""
    page.evaluate(AXE.read_text())
    return violations(page, page.url, "{resultTypes: ['violations']}")
