"""The pages that are not the console's own, in a real browser: the operator's link, the approval of a command line, the way
through a provider, an invitation. At a loopback address, at a name without TLS, and behind a proxy that ends TLS."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.responses import HTMLResponse
from playwright.sync_api import Browser, expect
from pydantic import SecretStr

from tests.browser.conftest import NAMED
from tests.browser.installations import Installation, installed, proxy, served
from tests.browser.world import World
from tests.identity_provider import CLIENT_ID, CLIENT_SECRET, Person, Provider
from tests.ports import free_port


@pytest.fixture(params=["loopback", "name without TLS", "behind a proxy that ends TLS"])
def installation(
    request: pytest.FixtureRequest, browser: Browser, world: World, tmp_path: Path
) -> Iterator[Installation]:
    behind = free_port()
    if request.param == "loopback":
        url = f"http://127.0.0.1:{behind}"
    elif request.param == "name without TLS":
        url = f"http://{NAMED}:{behind}"
    else:
        url = f"https://{NAMED}:{free_port()}"
    with installed(browser, world, behind, url) as found:
        if url.startswith("https"):
            with proxy(tmp_path, int(url.rpartition(":")[2]), behind):
                yield found
        else:
            yield found


def test_the_operators_link_signs_in_once(installation: Installation) -> None:
    page, link = installation.visitor.page, installation.sign_in_link()
    page.goto(link)
    page.get_by_role("button", name="Sign in as operator").click()
    expect(page.get_by_role("heading", name="You are signed in")).to_be_visible()
    page.get_by_role("link", name="Open the console").click()
    expect(page.get_by_role("button", name=re.compile("Account of operator@localhost"))).to_be_visible()
    page.goto(link)
    page.get_by_role("button", name="Sign in as operator").click()
    expect(page.get_by_role("heading", name="This link no longer works")).to_be_visible()


def test_a_command_line_is_approved_by_somebody_who_signs_in_for_it(installation: Installation) -> None:
    visitor = installation.visitor
    page = visitor.page
    started = start_device(installation)
    assert started["verification_url"].startswith(visitor.url)
    page.goto(started["verification_url"])
    expect(page.get_by_role("heading", name="Sign in first")).to_be_visible()
    page.get_by_role("link", name="Sign in").click()
    visitor.prove_address("dana@example.com")
    expect(page.get_by_text("moor on a laptop")).to_be_visible()
    expect(page.get_by_text("dana@example.com")).to_be_visible()
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_role("heading", name="Approved")).to_be_visible()
    assert collect_device(installation, started) == 200

    refused = start_device(installation)
    page.goto(refused["verification_url"])
    page.get_by_role("button", name="Refuse").click()
    expect(page.get_by_role("heading", name="Refused")).to_be_visible()
    assert collect_device(installation, refused) == 401


@pytest.mark.long
def test_another_site_cannot_press_the_button(browser: Browser, world: World) -> None:
    """With everything right but where it comes from. What it gets is a page, for it is a person who reads it."""
    behind = free_port()
    with installed(browser, world, behind, f"http://127.0.0.1:{behind}") as installation:
        token = installation.sign_in_link().partition("token=")[2]
        target = f"{installation.visitor.url}/sign-in"
        app, elsewhere = FastAPI(), free_port()

        @app.get("/")
        async def lure() -> HTMLResponse:
            return HTMLResponse(
                '<link rel="icon" href="data:,">'
                f'<form method="post" action="{target}"><input name="token" value="{token}"><button>Win</button></form>'
            )

        with served(world, app, elsewhere):
            page = installation.visitor.page
            for host in ("127.0.0.1", "localhost"):  # the same site at another port, and another site
                origin = f"http://{host}:{elsewhere}"
                installation.visitor.others += (origin,)
                page.goto(origin)
                page.get_by_role("button", name="Win").click()
                expect(page.get_by_text("Another site sent this request.")).to_be_visible()
                assert installation.visitor.context.cookies(target) == []
        page.goto(f"{target}?token={token}")
        page.get_by_role("button", name="Sign in as operator").click()
        expect(page.get_by_role("heading", name="You are signed in")).to_be_visible()


@pytest.mark.long
@pytest.mark.parametrize("name", ["google", "github"])
def test_through_a_provider_and_back(browser: Browser, world: World, name: str) -> None:
    provider, elsewhere, behind = Provider(), free_port(), free_port()
    # Another site than the installation's, as a provider is.
    provider.url = f"http://localhost:{elsewhere}"
    url = f"http://127.0.0.1:{behind}"
    provider.redirect_uris = {f"{url}/api/v1/auth/{name}/callback"}
    provider.visitor = Person("4711", f"{name}-visitor@example.com")
    settings = {f"{name}_client_id": CLIENT_ID, f"{name}_client_secret": SecretStr(CLIENT_SECRET)}
    settings |= (
        {"google_issuer": provider.url}
        if name == "google"
        else {"github_url": provider.url, "github_api_url": f"{provider.url}/api/v3"}
    )
    with (
        served(world, provider.app(), elsewhere),
        installed(browser, world, behind, url, provider.url, **settings) as installation,
    ):
        page = installation.visitor.page
        for answer in ("Cancel", "Continue"):
            installation.visitor.open("/login")
            page.get_by_role("link", name=re.compile(f"with {name}", re.IGNORECASE)).click()
            page.get_by_role("link", name=answer).click()
            if answer == "Cancel":
                expect(page.get_by_role("heading", name="You are not signed in")).to_be_visible()
                page.get_by_role("link", name="Back to the sign-in").click()
        expect(page.get_by_role("heading", name="Welcome to Moorage")).to_be_visible()
        # The way back, opened again from the history, is used up; and one that nobody set up is a page too.
        for path in (f"{name}/callback?code=x&state=y", "gitlab/callback?code=x"):
            installation.visitor.open(f"/api/v1/auth/{path}")
            expect(page.get_by_role("heading")).to_be_visible()
            assert page.evaluate("document.contentType") == "text/html"


@pytest.mark.long
def test_an_invitation_waits_while_somebody_signs_in(installation: Installation) -> None:
    visitor, world = installation.visitor, installation.world
    home = world.home("host@example.com", "Lighthouse", "beacon")
    _, token = world.do(world.api.new_invitation(home.organization_id, "guest@example.com"))
    page = visitor.page
    visitor.open(f"/invitations/{token}")
    visitor.prove_address("guest@example.com")
    expect(page.get_by_role("heading", name="Join Lighthouse")).to_be_visible()
    page.get_by_role("button", name="Accept the invitation").click()
    expect(page.get_by_role("heading", name="Welcome to Moorage")).to_be_visible()
    members = (
        "SELECT email FROM organization_members JOIN users ON users.id = user_id WHERE organization_id = :id"
    )
    joined = world.do(world.api.rows(members, id=home.organization_id))
    assert ("guest@example.com",) in joined


def start_device(installation: Installation) -> dict[str, str]:
    with installation.visitor.operator() as client:
        answer = client.post("/auth/device", json={"client_name": "moor on a laptop"})
        started: dict[str, str] = answer.raise_for_status().json()
    return started


def collect_device(installation: Installation, started: dict[str, str]) -> int:
    with installation.visitor.operator() as client:
        answer = client.post("/auth/device/token", json={"device_code": started["device_code"]})
    return answer.status_code
