"""Keys and members, as an admin handles them: what the page says has happened has happened in the API."""

import re

from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import browsing
from tests.browser.test_pages import in_both_themes
from tests.browser.world import World
from tests.database.api_support import bearer, container_body


def status_with(world: World, key: str) -> int:
    return world.do(world.api.get(bearer("key", key), "/me")).status_code


def test_a_key_is_shown_once_then_disabled_rotated_and_revoked(browser: Browser, world: World) -> None:
    home = world.home("keys@example.com", "Keys", "production")
    with browsing(browser, world, home.token) as page:
        page.goto(f"{world.url}/projects/{home.project_id}/api-keys")
        expect(page.get_by_text("There is no key yet.")).to_be_visible()
        page.get_by_role("button", name="Create key").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Name").fill("my-app")
        dialog.get_by_label("Scope").click()
        page.get_by_role("option", name="Manage").click()
        dialog.get_by_label("Requests per minute").fill("1200")
        dialog.get_by_role("button", name="Create key").click()
        expect(dialog.get_by_text("It is not shown again")).to_be_visible()
        first = dialog.locator("code").first.inner_text()
        assert status_with(world, first) == 200
        dialog.get_by_role("button", name="I have copied it").click()
        expect(dialog).to_be_hidden()
        assert first not in page.content()
        page.reload()
        row = page.get_by_role("row").filter(has_text="my-app")
        expect(row).to_contain_text("1,200")
        expect(row).to_contain_text(re.compile(r"ago from \d"))

        act(page, "Disable")
        expect(page.get_by_text("No key is active.")).to_be_visible()
        page.get_by_text("All 1").click()
        expect(page.get_by_role("cell", name="Disabled")).to_be_visible()
        assert status_with(world, first) == 401
        act(page, "Enable")
        expect(page.get_by_role("cell", name="Active", exact=True)).to_be_visible()
        page.get_by_text("Active 1").click()

        act(page, "Rotate")
        dialog.get_by_label("The old key").click()
        page.get_by_role("option", name="It stops at once").click()
        dialog.get_by_role("button", name="Rotate key").click()
        expect(dialog.get_by_text("It is not shown again")).to_be_visible()
        second = dialog.locator("code").first.inner_text()
        dialog.get_by_role("button", name="I have copied it").click()
        expect(dialog).to_be_hidden()
        assert (status_with(world, first), status_with(world, second)) == (401, 200)

        act(page, "Revoke")
        dialog.get_by_role("button", name="Revoke key").click()
        expect(page.get_by_text("No key is active.")).to_be_visible()
        assert status_with(world, second) == 401


def act(page: Page, action: str) -> None:
    page.get_by_role("button", name="Actions of my-app").click()
    page.get_by_role("menuitem", name=action).click()


def test_an_invitation_is_for_one_person_who_can_be_removed_again(browser: Browser, world: World) -> None:
    home = world.home("admin@example.com", "Harbour", "production")
    _, ben = world.do(world.api.new_person("ben@example.com"))
    _, eve = world.do(world.api.new_person("eve@example.com"))
    members = f"{world.url}/projects/{home.project_id}/members"
    with browsing(browser, world, home.token) as page:
        page.goto(members)
        page.get_by_role("button", name="Invite").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("E-mail").fill("ben@example.com")
        dialog.get_by_role("button", name="Send invitation").click()
        expect(page.get_by_role("button", name="Resend to ben@example.com")).to_be_visible()
    link = invitation_for(world, "ben@example.com")

    with browsing(browser, world, eve) as page:
        page.goto(f"{world.url}{link}")
        expect(page.get_by_role("heading", name="There is no invitation for you here.")).to_be_visible()
        expect(page.get_by_text("sign out and open the link again")).to_be_visible()
        assert "Harbour" not in page.content()

    with browsing(browser, world, ben) as page:
        page.goto(f"{world.url}{link}")
        expect(page.get_by_role("heading", name="Join Harbour")).to_be_visible()
        page.get_by_role("button", name="Accept the invitation").click()
        page.wait_for_url(re.compile(f"/projects/{home.project_id}/containers"))
        tabs = page.get_by_role("navigation", name="Sections")
        expect(tabs.get_by_role("link", name="API keys")).to_be_visible()
        expect(tabs.get_by_role("link", name="Members")).to_have_count(0)
        expect(page.get_by_role("link", name="Top up")).to_have_count(0)

        with browsing(browser, world, home.token) as admin:
            admin.goto(members)
            admin.get_by_role("button", name="Remove ben@example.com").click()
            admin.get_by_role("button", name="Remove member").click()
            expect(admin.get_by_role("button", name="Remove ben@example.com")).to_have_count(0)
        page.reload()
        page.wait_for_url(re.compile("/login"))


def test_a_user_sees_no_admin_action(browser: Browser, world: World) -> None:
    """Neither a tab nor a button, and at an admin's address a sentence."""
    home = world.home("boss@example.com", "Quay", "production")
    user_id, token = world.do(world.api.new_person("hand@example.com"))
    world.do(world.api.join(home.organization_id, user_id))
    project = world.do(world.api.new_project(home.organization_id, "joined", user_id))
    container = world.do(world.api.new_container(project, "chat"))
    with browsing(browser, world, token) as page:
        page.goto(f"{world.url}/projects/{project}/containers/{container}")
        tabs = page.get_by_role("navigation", name="Sections").get_by_role("link")
        expect(tabs).to_have_text(["Service", "API keys", "Billing", "Machines"])
        expect(page.get_by_role("button", name="Start")).to_be_visible()
        expect(page.get_by_role("link", name="Top up")).to_have_count(0)
        page.get_by_role("button", name="Project: joined").click()
        expect(page.get_by_role("menuitem", name="joined")).to_be_visible()
        expect(page.get_by_role("menuitem", name="New project")).to_have_count(0)
        expect(page.get_by_role("menuitem", name="production")).to_have_count(0)
        for section in ("members", "audit", "webhooks"):
            page.goto(f"{world.url}/projects/{project}/{section}")
            expect(page.get_by_role("main").get_by_text("Only admins see")).to_be_visible()
            expect(page.get_by_role("main").get_by_role("button")).to_have_count(0)
        page.goto(f"{world.url}/projects/{project}/billing")
        expect(page.get_by_role("region", name="Usage by day")).to_be_visible()
        for admins in ("Top up", "Monthly limits", "Entries", "Documents", "Waiting for your payment"):
            expect(page.get_by_role("region", name=admins)).to_have_count(0)


def test_the_audit_log_names_what_is_gone(browser: Browser, world: World) -> None:
    """A container and its project, and the key that made it."""
    home = world.home("audits@example.com", "Audits", "production")
    api, trials = world.api, world.do(world.api.new_project(home.organization_id, "trials"))
    _, key = world.do(api.new_key(trials, "manage", name="ci"))
    made = world.do(api.post(bearer("ci", key), f"/projects/{trials}/containers", container_body("chat")))
    container = made.json()["id"]
    world.do(api.ask(home.admin, "DELETE", f"/api/v1/containers/{container}"))
    world.do(api.execute("UPDATE containers SET deleted_at = now() WHERE id = :id", id=container))
    removed = api.ask(home.admin, "DELETE", f"/api/v1/projects/{trials}", params={"name": "trials"})
    assert world.do(removed).status_code == 204
    with browsing(browser, world, home.token) as page:
        page.goto(f"{world.url}/projects/{home.project_id}/audit")
        rows = page.get_by_role("region", name="Audit").get_by_role("row")
        expect(rows.filter(has_text="Deleted the project trials")).to_contain_text("audits@example.com")
        expect(rows.filter(has_text="Deleted chat in trials")).to_contain_text("audits@example.com")
        expect(rows.filter(has_text="Created chat in trials")).to_contain_text("API key ci")


def test_an_organization_without_projects_can_be_entered(browser: Browser, world: World) -> None:
    """Whoever was invited elsewhere still has their own, in which there is nothing yet."""
    host = world.home("host@example.com", "Host", "shared")
    guest = world.home("enters@example.com", "Guest", "gone")
    world.do(world.api.execute("DELETE FROM projects WHERE id = :id", id=guest.project_id))
    world.do(world.api.join(host.organization_id, guest.user_id))
    shared = world.do(world.api.new_project(host.organization_id, "joined", guest.user_id))
    with browsing(browser, world, guest.token) as page:
        page.goto(world.url)
        page.wait_for_url(re.compile(f"/projects/{shared}/containers"))
        page.get_by_role("button", name="Organization: Host").click()
        page.get_by_role("menuitem", name="Guest").click()
        expect(page.get_by_role("heading", name="Guest")).to_be_visible()
        expect(page.get_by_role("link", name="Back to your other projects")).to_be_visible()
        page.get_by_label("Name").fill("mine")
        page.get_by_role("button", name="Create project").click()
        expect(page.get_by_role("button", name="Organization: Guest")).to_be_visible()
        expect(page.get_by_role("button", name="Project: mine")).to_be_visible()


def invitation_for(world: World, email: str) -> str:
    texts = [mail["text"] for mail in world.do(world.api.mails()) if mail["to"] == email]
    found = re.search(r"/invitations/\S+", texts[0])
    assert found, texts
    return found[0]


def test_an_organization_is_deleted_once_it_is_empty(browser: Browser, world: World) -> None:
    """What stands in the way is listed with the page on which it ends; what is given up is said before it is."""
    home = world.home("leaves@example.com", "Dock", "production")
    container = world.container(home, "chat", "STOPPED")
    elsewhere = world.home("stays@example.com", "Pier", "other")
    world.do(world.api.join(elsewhere.organization_id, home.user_id))
    pier = world.do(world.api.new_project(elsewhere.organization_id, "joined", home.user_id))
    gone = "UPDATE containers SET desired_state = 'deleted', deleted_at = now() WHERE id = :id"
    with browsing(browser, world, home.token) as page:
        page.goto(f"{world.url}/projects/{home.project_id}/containers")
        dialog = page.get_by_role("dialog", name="Delete Dock")
        ask_to_delete(page, "Dock")
        expect(dialog.get_by_role("listitem")).to_have_text([re.compile("It has 1 container: chat.")])
        expect(dialog.get_by_role("textbox")).to_have_count(0)
        dialog.get_by_role("link", name="Containers").click()
        expect(dialog).to_be_hidden()

        world.do(world.api.execute(gone, id=container))
        ask_to_delete(page, "Dock")
        expect(dialog.get_by_text("$20.00 is left in it and cannot be used any more.")).to_be_visible()
        button = dialog.get_by_role("button", name="Delete organization")
        dialog.get_by_label("Type Dock").fill("dock")
        expect(button).to_be_disabled()
        assert in_both_themes(page, "deleting an organization") == []
        dialog.get_by_label("Type Dock").fill("Dock")
        button.click()
        page.wait_for_url(re.compile(f"/projects/{pier}/containers"))
        expect(page.get_by_text("Dock is deleted.")).to_be_visible()
        page.get_by_role("button", name="Organization: Pier").click()
        expect(page.get_by_role("menuitem", name="Pier")).to_be_visible()
        expect(page.get_by_role("menuitem", name="Dock")).to_have_count(0)
        # Of this one they are no admin.
        expect(page.get_by_role("menuitem", name="Delete organization")).to_have_count(0)

    with browsing(browser, world, world.operator()) as page:
        page.goto(f"{world.url}/operator/organizations/{home.organization_id}")
        expect(page.get_by_text("its books stay")).to_be_visible()
        expect(page.get_by_role("button", name="Actions of Dock")).to_have_count(0)


def ask_to_delete(page: Page, organization: str) -> None:
    page.get_by_role("button", name=f"Organization: {organization}").click()
    page.get_by_role("menuitem", name="Delete organization").click()


def test_whoever_belongs_to_no_organization_is_told_so_and_goes_on(browser: Browser, world: World) -> None:
    """They found one and pay for its first project, accept an invitation, or sign out."""
    _, token = world.do(world.api.new_person("alone@example.com"))
    with browsing(browser, world, token) as page:
        page.goto(world.url)
        expect(page.get_by_role("heading", name="You belong to no organization")).to_be_visible()
        expect(page.get_by_text("Open the link in the mail that went to alone@example.com")).to_be_visible()
        assert in_both_themes(page, "no organization") == []
        page.set_viewport_size({"width": 390, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.set_viewport_size({"width": 1280, "height": 800})
        create = page.get_by_role("button", name="Create organization")
        expect(create).to_be_disabled()
        page.get_by_label("Name of the organization").fill("Fairway")
        create.click()

        expect(page.get_by_role("heading", name="Welcome to Moorage")).to_be_visible()
        expect(page.get_by_text("There is no credit yet")).to_be_visible()
        page.get_by_role("link", name="Top up").click()
        expect(page.get_by_role("heading", name="Billing", exact=True)).to_be_visible()
        expect(page.get_by_text("Fairway. Once there is credit")).to_be_visible()
        page.get_by_role("button", name="Get transfer details for $100.00").click()
        expect(
            page.get_by_role("region", name="Waiting for your payment").get_by_text("Reference", exact=True)
        ).to_be_visible()
        assert in_both_themes(page, "the first top-up") == []

        (row,) = world.do(world.api.rows("SELECT id FROM organizations WHERE name = 'Fairway'"))
        given = {"organization_id": row[0], "amount_microusd": 5_000_000, "reason": "To begin with"}
        assert world.do(world.api.post(world.api.operator, "/operator/credits", given)).status_code == 201
        page.get_by_role("link", name="Moorage, containers").click()
        page.get_by_label("Name of the project").fill("production")
        page.get_by_role("button", name="Create project").click()
        expect(page.get_by_role("button", name="Organization: Fairway")).to_be_visible()


def test_whoever_belongs_to_no_organization_can_sign_out(browser: Browser, world: World) -> None:
    _, token = world.do(world.api.new_person("signs-out@example.com"))
    with browsing(browser, world, token) as page:
        page.goto(world.url)
        page.get_by_role("button", name="Sign out").click()
        page.wait_for_url(re.compile("/login"))
        assert world.do(world.api.get(bearer("them", token), "/me")).status_code == 401
