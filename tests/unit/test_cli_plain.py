"""What `moor` writes where no terminal is, and where nobody wants colours: text, in every command."""

import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_server import DIAGNOSIS, OPERATOR_KEY, FakeMoorage, Moor, log_line, project
from typer.core import TyperArgument, TyperCommand

from moorage.entrypoints.handbook.commands_page import commands
from moorage_cli.output import json_text
from moorage_cli.terminal_text import uncoloured

pytest_plugins = ["cli_fixtures"]

HOSTILE = "bad \x1b[31mred\x1b[0m \x1b]0;title\x07\x9b2J\x7f"
_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_VALUES = {"MACHINE": "mch_1", "REQUEST": "req_seen", "NAME|ID": "main", "IMAGE": "local/chat", "ID": "key_0"}
_MORE = {
    "moor deploy": ["--image", "local/chat", "--name", "new"],
    "moor delete": ["--yes"],
    "moor preflight": ["--image", "acme/chat"],
    "moor scale": ["--max", "2"],
    "moor edit": ["--set", "port=8001"],
    "moor update": ["--set", "port=8001"],
    "moor run": ["-d"],
    "moor project delete": ["--confirm", "main"],
    "moor top": ["--once"],
    "moor chat": ["hello"],
}
_WAITS = frozenset({"moor deploy", "moor start", "moor restart"})
"""Until it has failed; the others would wait for what never comes."""
_ON_THIS_MACHINE = "Run Moorage"
"""Their words go through no command of the client's."""


def arguments(path: str, command: TyperCommand) -> list[str]:
    words = path.split()[1:]
    before = _MORE.get(path, []) if path != "moor chat" else []
    if path not in _WAITS and any("--no-wait" in one.opts for one in command.params):
        before = [*before, "--no-wait"]
    given = [
        _VALUES.get(one.metavar or "", "chat" if one.metavar == "CONTAINER" else "x")
        for one in command.params
        if isinstance(one, TyperArgument) and (one.required or one.metavar == "CONTAINER")
    ]
    return [*words, *before, *given, *(_MORE["moor chat"] if path == "moor chat" else [])]


@pytest.fixture
def hostile(fake: FakeMoorage) -> Iterator[FakeMoorage]:
    fake.device_expires_in_s = 0
    fake.log_lines = [log_line(1, HOSTILE), log_line(2, HOSTILE, "stderr")]
    yield fake
    # Of what no story tells it knows nothing.
    fake.drift[:] = [one for one in fake.drift if not one.endswith("to answer 404 not_found")]


def run_all(moor: Moor, fake: FakeMoorage, config: Path, *more: str) -> dict[str, tuple[int, str]]:
    said = {}
    for path, command in commands():
        if command.rich_help_panel == _ON_THIS_MACHINE or path.startswith("moor kubernetes"):
            continue
        # Some end the sign-in, or choose what others depend on.
        config.write_text(f'url = "{fake.url}"\ntoken = "{OPERATOR_KEY}"\n')
        fake.containers.clear()
        fake.projects = [project("prj_one", "main")]
        fake.add_container("chat", message=HOSTILE, image=f"local/{HOSTILE}", state="FAILED", reason="exited")
        fake.steps = [{"state": "FAILED", "message": HOSTILE}] * 3
        fake.diagnoses = [{**DIAGNOSIS, "message": HOSTILE}]
        fake.chat_answers = [
            (200, "application/json", b'{"choices": [{"message": {"content": "\\u001b[2J"}}]}')
        ]
        result = moor(*arguments(path, command), *more, stdin="")
        said[path] = result.exit_code, result.stdout + result.stderr
    return said


def test_no_control_characters_without_a_terminal(
    moor: Moor, hostile: FakeMoorage, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Both are taken for a terminal by the libraries that draw.
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("FORCE_COLOR", "1")
    said = run_all(moor, hostile, config)
    assert {path: text for path, (_, text) in said.items() if _CONTROL.search(text)} == {}
    failed = [path for path, (exit_code, _) in said.items() if exit_code]
    assert len(said) - len(failed) > 60, failed
    assert sum("bad" in text for _, text in said.values()) > 5, "or nothing hostile was shown"


@pytest.mark.long
def test_no_control_characters_in_json(moor: Moor, hostile: FakeMoorage, config: Path) -> None:
    said = run_all(moor, hostile, config, "--json")
    assert {path: text for path, (_, text) in said.items() if _CONTROL.search(text)} == {}


@pytest.mark.long
def test_no_styles_on_a_terminal_where_nobody_wants_them(
    moor: Moor, hostile: FakeMoorage, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("typer.testing._NamedTextIOWrapper.isatty", lambda _: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    styled = [path for path, (_, text) in run_all(moor, hostile, config).items() if _STYLE.search(text)]
    assert len(styled) > 30, "or this is no terminal"
    monkeypatch.setenv("NO_COLOR", "1")
    assert [path for path, (_, text) in run_all(moor, hostile, config).items() if _STYLE.search(text)] == []


def test_help_and_mistakes_have_none_on_a_build_server() -> None:
    environment = {**os.environ, "GITHUB_ACTIONS": "true", "FORCE_COLOR": "1"}
    moor = Path(sys.executable).with_name("moor")
    for told in (["run", "--help"], ["list", "--absent"]):
        done = subprocess.run([moor, *told], env=environment, capture_output=True, text=True, timeout=60)
        assert "Usage: moor" in done.stdout + done.stderr
        assert not _CONTROL.search(done.stdout + done.stderr)


def test_text_without_colours() -> None:
    assert uncoloured(HOSTILE + "\r\n") == "bad red ␛]0;title␇\ufffd2J␡"
    assert json_text({"a": "\x1b\x9b\x7fé"}) == '{"a": "\\u001b\\u009b\\u007fé"}'
    assert io.StringIO(json_text("\x9b")).read() == '"\\u009b"'
