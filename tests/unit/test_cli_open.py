"""`moor open`."""

import json
import webbrowser
from pathlib import Path

import pytest
from cli_server import FakeMoorage, Moor

pytest_plugins = ["cli_fixtures"]


@pytest.fixture(autouse=True)
def no_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    # It remembers the browsers that it found first.
    monkeypatch.setattr(webbrowser, "_tryorder", None)


def test_without_a_browser_it_prints_the_address(moor: Moor, fake: FakeMoorage) -> None:
    fake.add_container("chat")
    assert moor("open").stdout == f"{fake.url}/\n"
    assert moor("open", "chat").stdout == f"{fake.url}/projects/prj_one/containers/ctr_0\n"
    assert moor("open", "--project", "main").stdout == f"{fake.url}/projects/prj_one/containers\n"
    assert moor("open", "absent").exit_code == 7


def test_with_one_it_opens_there(
    moor: Moor, fake: FakeMoorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {tmp_path}/opened\n')
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", str(browser))
    fake.add_container("chat")
    address = f"{fake.url}/projects/prj_one/containers/ctr_0"
    assert json.loads(moor("open", "chat", "--json").stdout) == {"url": address}
    assert not (tmp_path / "opened").exists(), "a program asked"
    assert moor("open", "chat").stdout == f"Opened {address}\n"
    assert (tmp_path / "opened").read_text() == address
