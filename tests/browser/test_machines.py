"""The operator's machines: one is added, joins and is known by itself; what is said about each holds."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from moorage.machines import service
from moorage.machines.states import Happening, MachineState, Speaker
from moorage.machines.words import sentence
from tests.browser.conftest import NAMED, browsing, build_console
from tests.browser.installations import Installation, installed, proxy
from tests.browser.world import World
from tests.database.api_support import ANONYMOUS, KEYRING, join_body
from tests.ports import free_port


@pytest.fixture(scope="module")
def bare() -> Iterator[World]:
    """A world to which nobody added a machine."""
    build_console()
    world = World()
    world.start()
    yield world
    world.stop()


@pytest.fixture
def reachable(browser: Browser, bare: World, tmp_path: Path) -> Iterator[Installation]:
    """It has an https:// address; the operator is signed in there."""
    behind, port = free_port(), free_port()
    url = f"https://{NAMED}:{port}"
    with installed(browser, bare, behind, url) as found, proxy(tmp_path, port, behind):
        page = found.visitor.page
        page.goto(found.sign_in_link())
        page.get_by_role("button", name="Sign in as operator").click()
        page.get_by_role("heading", name="You are signed in").wait_for()
        yield found


@pytest.fixture
def page(browser: Browser, bare: World) -> Iterator[Page]:
    with browsing(browser, bare, bare.operator()) as opened:
        yield opened


@pytest.mark.parametrize("width", [390, 820, 1280])
def test_what_can_be_said_about_a_machine_is_within_the_page(page: Page, bare: World, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(f"{bare.url}/operator/machines")
    table = page.get_by_role("region", name="Table")
    expect(table.get_by_role("button", name=re.compile("^Actions of")).first).to_be_visible()
    assert table.evaluate("element => element.scrollWidth - element.clientWidth") == 0


def test_without_an_https_address_the_page_says_what_is_missing(page: Page, bare: World) -> None:
    page.goto(f"{bare.url}/operator/machines")
    more = page.get_by_role("region", name="More machines")
    expect(more).to_contain_text("Others join by one command each")
    expect(more).to_contain_text("moor machines add")
    more.get_by_role("button", name="Add a machine").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Get the command").click()
    expect(dialog.get_by_role("alert")).to_contain_text("Machines join over HTTPS")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    assert bare.do(bare.api.rows("SELECT 1 FROM machines")) == []


def test_a_machine_is_added_and_joins_while_the_page_is_open(reachable: Installation) -> None:
    world, page = reachable.world, reachable.visitor.page
    world.do(world.api.new_hub())
    reachable.visitor.open("/operator/machines")
    page.get_by_role("button", name="Add a machine").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("Rack 7")
    dialog.get_by_role("button", name="Get the command").click()
    expect(dialog).to_contain_text("Must be 1 to 63 small letters, digits, dots or hyphens")
    dialog.get_by_label("Name").fill("rack-7")
    page.keyboard.press("Enter")
    command = dialog.locator("code").inner_text()
    assert re.fullmatch(
        r"f=\$\(mktemp\) && curl .* moor_join_\S+ \| \$\(command -v sudo\) sh \"\$f\"", command
    )
    expect(dialog.get_by_role("button", name="Copy the command")).to_be_focused()
    page.keyboard.press("Enter")
    expect(dialog).to_contain_text("Copied")
    expect(dialog).to_contain_text(re.compile(r"Waits for the machine, (29|30) min more"))

    # What keeps machines from joining is said where somebody waits for one.
    world.do(world.api.execute("UPDATE tunnel_hubs SET error = 'Install `wireguard-tools`.'"))
    not_open = dialog.get_by_text(
        "The installation's end of the tunnel is not open. Install wireguard-tools."
    )
    expect(not_open).to_be_visible()
    world.do(world.api.execute("UPDATE tunnel_hubs SET error = NULL, seen_at = now() + interval '1 hour'"))
    expect(not_open).to_have_count(0)

    token = re.findall(r"moor_join_\S+", command)[0]
    joined = world.do(world.api.post(ANONYMOUS, "/machines/join", join_body(token)))
    assert joined.status_code == 200
    expect(dialog.get_by_role("status")).to_have_text(
        "rack-7 has joined. Its first answer through the tunnel is awaited."
    )
    happens(world, joined.json()["id"], Happening.ANSWERED)
    expect(dialog.get_by_role("status")).to_have_text("rack-7 has joined. It takes containers.")
    dialog.get_by_role("button", name="Done").click()
    expect(row_of(page, "rack-7")).to_contain_text("Active")

    # Its engine describes it: the same row.
    described(world, joined.json()["id"], "rack-7")
    expect(row_of(page, "rack-7")).to_contain_text("0 of 64 GiB")
    expect(row_of(page, "rack-7")).to_have_count(1)

    page.get_by_role("button", name="Add a machine").click()
    dialog.get_by_label("Name").fill("rack-7")
    dialog.get_by_role("button", name="Get the command").click()
    expect(dialog).to_contain_text("A machine rack-7 already exists.")


def test_a_command_that_ran_out_is_replaced(reachable: Installation) -> None:
    world, page = reachable.world, reachable.visitor.page
    added = reachable_post(reachable, "/operator/machines", {"name": "rack-8"})
    world.do(
        world.api.execute(
            "UPDATE machine_join_tokens SET expires_at = now() - interval '1 minute' WHERE machine_id = :id",
            id=added["id"],
        )
    )
    reachable.visitor.open("/operator/machines")
    expect(row_of(page, "rack-8")).to_contain_text("Its command ran out.")
    act(page, "rack-8", "Another command")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("The command that you were given before stops working.")
    dialog.get_by_role("button", name="Get the command").click()
    expect(dialog.locator("code")).to_contain_text("moor_join_")
    assert added["token"] not in dialog.locator("code").inner_text()
    dialog.get_by_role("button", name="Close", exact=True).last.click()
    expect(row_of(page, "rack-8")).to_contain_text(
        re.compile(r"Waits until (\d\d:\d\d|\d+ \w+) for its command")
    )
    act(page, "rack-8", "Remove")
    expect(dialog).to_contain_text("Its command stops working.")
    dialog.get_by_role("button", name="Remove").click()
    expect(row_of(page, "rack-8")).to_have_count(0)


def test_pause_resume_drain_and_remove(page: Page, bare: World) -> None:
    machine_id = joined_machine(bare, "dock-1", replicas=2)
    page.goto(f"{bare.url}/operator/machines")
    row = row_of(page, "dock-1")
    expect(row).to_contain_text("It takes containers.")
    act(page, "dock-1", "Pause")
    expect(row).to_contain_text("Paused")
    expect(row).to_contain_text("It takes no new replicas. Those that run stay.")
    assert state_of(bare, machine_id) == "paused"
    act(page, "dock-1", "Resume")
    expect(row).to_contain_text("Active")
    assert state_of(bare, machine_id) == "active"

    # By the keyboard alone.
    page.get_by_role("button", name="Actions of dock-1").focus()
    page.keyboard.press("Enter")
    # It takes keys once it has the focus, which is a moment after it is to be seen.
    expect(page.get_by_role("menu", name="Actions of dock-1").locator(":focus")).to_have_count(1)
    for action in ("Pause", "Drain"):
        page.keyboard.press("ArrowDown")
        expect(page.get_by_role("menuitem", name=action)).to_be_focused()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("2 replicas move to other machines, a few at a time.")
    dialog.get_by_role("button", name="Drain").click()
    expect(row).to_contain_text("Its replicas are moving to other machines.")
    assert state_of(bare, machine_id) == "draining"

    # Replicas are left: removing it needs force, and says what that does.
    act(page, "dock-1", "Remove")
    expect(dialog).to_contain_text("2 replicas run there. If you remove it now, they are cut off at once")
    expect(dialog.get_by_role("button", name="Remove now")).to_be_disabled()
    dialog.get_by_role("button", name="Cancel").click()
    bare.do(bare.api.execute("UPDATE machines SET replicas = 0 WHERE id = :id", id=machine_id))
    expect(row).to_contain_text("It is empty: switch it off, or remove it.")
    act(page, "dock-1", "Remove")
    expect(dialog).to_contain_text("Nothing runs there.")
    dialog.get_by_role("button", name="Remove").click()
    expect(row).to_have_count(0)
    assert state_of(bare, machine_id) == "removed"


def test_removing_by_force_and_what_a_lost_machine_will_be(page: Page, bare: World) -> None:
    busy, lost = joined_machine(bare, "dock-2", replicas=1), joined_machine(bare, "dock-3", replicas=4)
    happens(bare, lost, Happening.SILENT)
    page.goto(f"{bare.url}/operator/machines")
    row = row_of(page, "dock-3")
    expect(row).to_contain_text("Lost")
    act(page, "dock-3", "Pause")
    expect(row).to_contain_text("When it answers again, it is paused.")
    act(page, "dock-3", "Remove")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("What ran there is replaced elsewhere.")
    dialog.get_by_role("button", name="Remove").click()
    expect(row).to_have_count(0)

    act(page, "dock-2", "Remove")
    dialog.get_by_role("button", name="Drain it instead").click()
    expect(dialog).to_contain_text("1 replica moves to other machines")
    dialog.get_by_role("button", name="Cancel").click()
    act(page, "dock-2", "Remove")
    dialog.get_by_label("Remove it although 1 replica runs there").check()
    dialog.get_by_role("button", name="Remove now").click()
    expect(row_of(page, "dock-2")).to_have_count(0)
    assert [state_of(bare, one) for one in (busy, lost)] == ["removed", "removed"]


def test_the_installations_own_machine_is_closed_emptied_and_opened(page: Page, bare: World) -> None:
    def intake() -> str:
        nodes = bare.do(bare.api.get(bare.api.operator, "/operator/nodes")).json()["items"]
        return str(next(node["intake"] for node in nodes if node["name"] == "node-03"))

    page.goto(f"{bare.url}/operator/machines")
    row = row_of(page, "node-03")
    expect(row).to_contain_text("Control plane")
    act(page, "node-03", "Pause")
    expect(row).to_contain_text("Paused")
    assert intake() == "cordoned"
    act(page, "node-03", "Drain")
    page.get_by_role("dialog").get_by_role("button", name="Drain").click()
    expect(row).to_contain_text("Draining")
    assert intake() == "draining"
    page.get_by_role("button", name="Actions of node-03").click()
    expect(page.get_by_role("menuitem", name="Resume")).to_be_visible()
    expect(page.get_by_role("menuitem", name="Remove")).to_have_count(0)
    page.get_by_role("menuitem", name="Resume").click()
    expect(row).to_contain_text("It takes containers.")
    assert intake() == "open"


def row_of(page: Page, name: str) -> Locator:
    return page.get_by_role("row", name=re.compile(f"^{re.escape(name)} "))


def act(page: Page, name: str, action: str) -> None:
    page.get_by_role("button", name=f"Actions of {name}").click()
    page.get_by_role("menuitem", name=action).click()


def joined_machine(world: World, name: str, replicas: int) -> str:
    said = sentence(MachineState.ACTIVE)
    machine_id = world.do(world.api.new_machine(name=name, replicas=replicas, message=said))
    described(world, machine_id, name)
    return machine_id


def described(world: World, machine_id: str, name: str) -> None:
    world.do(
        world.api.execute(
            "INSERT INTO nodes (engine, name, infrastructure, architecture, cpu_millis, memory_bytes, gpus, seen_at) VALUES "
            "(:id, :name, 'operator', 'amd64', 16000, 68719476736, '[]', now() + interval '1 hour')",
            id=machine_id,
            name=name,
        )
    )


def happens(world: World, machine_id: str, happening: Happening) -> None:
    """As the controller says it."""

    async def say() -> None:
        async with world.api.database.transaction() as session:
            await service.say(
                session,
                KEYRING,
                world.api.settings,
                machine_id,
                happening,
                speaker=Speaker.MOORAGE,
                actor_id="system",
            )

    world.do(say())


def state_of(world: World, machine_id: str) -> str:
    return str(world.do(world.api.get(world.api.operator, f"/machines/{machine_id}")).json()["state"])


def reachable_post(installation: Installation, path: str, body: dict[str, str]) -> dict[str, str]:
    with installation.visitor.operator() as operator:
        answer = operator.post(path, json=body)
    assert answer.status_code == 201, answer.text
    found: dict[str, str] = answer.json()
    return found
