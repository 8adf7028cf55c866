"""What Tab completes in each shell, and how quiet it is where it cannot."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_server import SESSION_TOKEN, FakeMoorage, Moor, project

from tests import packages

pytest_plugins = ["cli_fixtures"]

_MOOR = Path(sys.executable).with_name("moor")
_SHELLS = {
    # What each does when somebody presses Tab behind `line`, and prints what it would offer.
    "bash": """
eval "$(_MOOR_COMPLETE=source_bash moor)"
COMP_WORDS=({line}"{word}"); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_moor_completion moor
printf '%s\\n' "${{COMPREPLY[@]}}"
""",
    "fish": """
_MOOR_COMPLETE=source_fish moor | source
complete --do-complete '{line}{word}'
""",
    "zsh": """
function compdef {{ }}
function _arguments {{ print -rl -- ${{(Q)${{(z)${{${{1#*\\(\\(}}%\\)\\)}}}}}} }}
function _files {{ }}
eval "$(_MOOR_COMPLETE=source_zsh moor)"
words=({line}"{word}"); CURRENT=${{#words}}
_moor_completion
""",
}


def offered(
    shell: str, line: str, word: str, environment: dict[str, str], wanted: list[str], within_s: float = 60
) -> list[str]:
    """On a busy machine an answer may come too late for somebody who pressed Tab; then they press it again."""
    end = time.monotonic() + within_s
    while (found := asked(shell, line, word, environment)) != wanted and time.monotonic() < end:
        assert found == [], "nothing else than what there is"
    return found


def asked(shell: str, line: str, word: str, environment: dict[str, str]) -> list[str]:
    script = _SHELLS[shell].format(line=line, word=word)
    program = (
        [shell, "--norc"] if shell == "bash" else [shell, "--no-config"] if shell == "fish" else [shell, "-f"]
    )
    done = subprocess.run(
        [*program, "-c", script], env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.stderr == ""
    return sorted(text.partition("\t")[0] for text in done.stdout.splitlines() if text)


@pytest.fixture
def environment(fake: FakeMoorage, tmp_path: Path) -> dict[str, str]:
    config = tmp_path / "cli.toml"
    config.write_text(f'url = "{fake.url}"\ntoken = "{SESSION_TOKEN}"\n')
    paths = {"PATH": f"{_MOOR.parent}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    return paths | {"MOORAGE_CLI_CONFIG": str(config), "TERM": "dumb", "LC_ALL": "C.UTF-8"}


@pytest.mark.long
@pytest.mark.parametrize("shell", sorted(_SHELLS))
def test_shells_complete_names(shell: str, fake: FakeMoorage, environment: dict[str, str]) -> None:
    if shutil.which(shell) is None:
        packages.install(shell)
    for name in ("chat", "chat-2", "web"):
        fake.add_container(name)
    found = ["chat", "chat-2"]
    assert offered(shell, "moor describe ", "ch", environment, found) == found
    assert offered(shell, "moor project use ", "m", environment, ["main"]) == ["main"]


Complete = Callable[..., tuple[list[str], str]]


@pytest.fixture
def complete(moor: Moor, monkeypatch: pytest.MonkeyPatch) -> Complete:
    """By bash's protocol, without a shell around it: what is offered for the last of these words, and what is said beside."""
    # The stand-in reads the API's description when it is asked first, which nobody should wait for here.
    monkeypatch.setattr("moorage_cli.completion.DEADLINE_S", 30.0)

    def run(*words: str) -> tuple[list[str], str]:
        monkeypatch.setenv("_MOOR_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", " ".join(["moor", *words]))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        result = moor()
        return result.stdout.split(), result.stderr

    return run


def test_names_of_containers_and_projects(fake: FakeMoorage, complete: Complete) -> None:
    for name in ("chat", "chat-2", "web", "cha t", "$(reboot)"):
        fake.add_container(name)
    for command in ("describe", "logs", "stop", "open"):
        assert complete(command, "ch") == (["chat", "chat-2"], "")
    assert complete("describe", "ct") == (["ctr_3", "ctr_4"], ""), "a shell would take their names apart"
    for words in (["--project", "m"], ["project", "use", "m"], ["list", "--project", "m"]):
        assert complete(*words) == (["main"], "")
    assert complete("desc") == (["describe"], "")


def test_it_asks_the_project_and_the_address_that_stand_on_the_line(
    fake: FakeMoorage, complete: Complete
) -> None:
    fake.projects.append(project("prj_two", "second"))
    fake.add_container("chat")
    assert complete("logs", "") == ([], ""), "there are several projects, and none is chosen"
    assert complete("logs", "--project", "second", "") == (["chat"], "")
    assert complete("--project", "second", "logs", "") == (["chat"], "")
    assert len(fake.queries("/projects/prj_two/containers")) == 2
    assert complete("--url", "http://127.0.0.1:9", "--project", "second", "logs", "") == ([], "")


def test_it_is_silent_and_soon_over_where_nobody_answers(
    complete: Complete, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moorage_cli.completion.DEADLINE_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("MOORAGE_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setenv("MOORAGE_TOKEN", "x")
        begun = time.monotonic()
        assert complete("describe", "") == ([], "")
        assert time.monotonic() - begun < 15, "an answer would be waited for thirty seconds"
    monkeypatch.delenv("MOORAGE_TOKEN")
    monkeypatch.setattr("moorage_cli.completion.DEADLINE_S", 30.0)
    assert complete("describe", "") == ([], ""), "not signed in"
    config.write_text("not toml")
    assert complete("describe", "") == ([], "")
