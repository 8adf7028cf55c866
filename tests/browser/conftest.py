"""A real Chromium in front of an API, and once in front of a whole Moorage. What a browser complains of fails its test."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright

from tests.acceptance.conftest import run_stack
from tests.acceptance.stack import Stack, until
from tests.browser.scene import Scene, paint
from tests.browser.world import World
from tests.packages import install

REPOSITORY = Path(__file__).parent.parent.parent
FLAGS = ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
NAMED = "moorage.test"
"""This machine by a name. Over plain HTTP a browser trusts loopback addresses alone, and tells such a name less."""
FLAGS.append(f"--host-resolver-rules=MAP {NAMED} 127.0.0.1")
DESKTOP = {"width": 1280, "height": 800}
PATIENCE_MS = 60_000
"""A loaded machine is slow, not wrong, and waiting costs nothing where a page is as it should be."""
expect.set_options(timeout=PATIENCE_MS)


_SHORT = (
    "test_sign_in.py",
    "test_plain_pages.py",
    "test_pages.py",
    "test_live.py",
    "test_handbook.py",
)
"""What `make test` meets of the console. Each of the other pages is quick, but together they take minutes."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == Path(__file__).parent and item.path.name not in _SHORT:
            item.add_marker(pytest.mark.long)


# Of the package, not of the session: Playwright's loop must be gone when other packages run theirs.
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=chromium(), args=FLAGS)


@pytest.fixture(scope="package")
def stack(docker_host: str) -> Iterator[Stack]:
    build_console()
    yield from run_stack(docker_host, "27000-27999", MOORAGE_BANK_DETAILS_LOCAL="IBAN XX00 TEST")


@pytest.fixture(scope="package")
def world() -> Iterator[World]:
    """An API whose rows the tests write, for pages that need no engine."""
    build_console()
    world = World()
    world.start()
    yield world
    world.stop()


@pytest.fixture(scope="package")
def scene(world: World) -> Scene:
    return paint(world)


@dataclass
class Visitor:
    """Somebody at a browser of their own."""

    url: str
    operator_key: str
    others: tuple[str, ...]
    """Other addresses that pages may ask."""
    context: BrowserContext
    page: Page
    complaints: list[str] = field(default_factory=list)
    api_url: str = ""
    """Where programs of this machine reach it, which know no names of the browser's."""

    def open(self, path: str) -> None:
        self.page.goto(f"{self.url}{path}")

    def sign_in(self, email: str) -> None:
        self.open("/login")
        self.prove_address(email)

    def prove_address(self, email: str) -> None:
        """At the sign-in, as a person does it: an address, the code from the mail."""
        self.page.get_by_label("E-mail").fill(email)
        self.page.get_by_role("button", name="Send me a code").click()
        self.page.get_by_role("heading", name="Enter the code").wait_for()
        self.page.get_by_label("Digit of the code").first.focus()
        self.page.keyboard.type(self._code(email))

    def operator(self) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self.operator_key}"}
        return httpx.Client(
            base_url=f"{self.api_url or self.url}/api/v1", headers=headers, trust_env=False, timeout=30
        )

    def _code(self, email: str) -> str:
        def newest() -> str | None:
            with self.operator() as operator:
                mails = operator.get("/operator/outbox").json()["items"]
            texts = [mail["text"] for mail in mails if mail["to"] == email]
            found = re.search(r"\b(\d{6})\b", texts[0]) if texts else None
            return found[1] if found else None

        code = until(newest, f"a code for {email}", timeout_s=10)
        assert code is not None
        return code


@pytest.fixture
def visitor(browser: Browser, world: World) -> Iterator[Visitor]:
    yield from visit(browser, world.url, world.api.settings.operator_key_file)


@pytest.fixture
def visitor_of_a_whole(browser: Browser, stack: Stack) -> Iterator[Visitor]:
    gateway = f"http://127.0.0.1:{stack.gateway_port}"
    yield from visit(browser, stack.api_url, stack.home / "operator-key", gateway)


def visit(browser: Browser, url: str, operator_key_file: Path, *others: str) -> Iterator[Visitor]:
    # A certificate of a test is signed by nobody.
    context = browser.new_context(viewport=DESKTOP, ignore_https_errors=True)
    context.set_default_timeout(PATIENCE_MS)
    if NAMED not in url:
        context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = context.new_page()
    one = Visitor(url, operator_key_file.read_text().strip(), others, context, page)
    page.on("console", lambda message: _note(one, message))
    page.on("pageerror", lambda error: one.complaints.append(str(error)))
    page.on("request", lambda request: _only_ours(one, request.url))
    yield one
    context.close()
    assert one.complaints == []


@contextmanager
def browsing(browser: Browser, world: World, token: str) -> Iterator[Page]:
    """Somebody who is signed in, in a browser of their own."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, reduced_motion="reduce")
    context.set_default_timeout(PATIENCE_MS)
    context.add_cookies([{"name": "moorage_session", "value": token, "url": world.url}])
    errors: list[str] = []
    page = context.new_page()
    page.on("pageerror", lambda error: errors.append(str(error)))
    # Said where a failed test shows it: a page that lacks a file says only that it does.
    page.on("requestfailed", lambda request: print(request.url, request.failure, file=sys.stderr))
    yield page
    context.close()
    assert errors == []


def build_console() -> None:
    subprocess.run(["scripts/console", "build"], cwd=REPOSITORY, check=True, timeout=300)


def _note(visitor: Visitor, message: ConsoleMessage) -> None:
    # A refused request is part of some stories, and the browser mentions each.
    expected = ["Failed to load resource"]
    if visitor.url.startswith(f"http://{NAMED}"):
        expected.append(
            "The Cross-Origin-Opener-Policy header has been ignored, because the URL's origin was untrustworthy"
        )
    if message.type == "error" and not any(text in message.text for text in expected):
        visitor.complaints.append(message.text)


def _only_ours(visitor: Visitor, url: str) -> None:
    if not url.startswith((visitor.url, *visitor.others, "blob:", "data:")):
        visitor.complaints.append(f"a request to {url}")


def chromium() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        install("chromium")
        found = shutil.which("chromium")
    if found is None:
        pytest.skip("no Chromium here, and only root on Debian or Ubuntu can install one")
    return found
