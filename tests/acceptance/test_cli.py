"""`moor` against the real thing."""

import json
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.acceptance.stack import MOOR, Stack, until

EXAMPLE = str(Path(__file__).parents[2] / "examples/chat/container.toml")


@pytest.fixture
def cli(stack: Stack) -> Iterator[Stack]:
    stack.moor("login")
    yield stack
    stack.moor("logout")


@pytest.mark.long
def test_a_container_from_deploy_to_delete(cli: Stack) -> None:
    deployed = cli.moor("deploy", "-f", EXAMPLE, "--name", "cli")
    assert "cli is RUNNING." in deployed.stdout
    assert "/c/ctr_" in deployed.stdout
    listed = json.loads(cli.moor("list", "--json").stdout)
    assert [(one["name"], one["state"]) for one in listed] == [("cli", "RUNNING")]
    assert json.loads(cli.moor("describe", "cli", "--json").stdout)["id"] == listed[0]["id"]

    answer = cli.moor("chat", "cli", "Ahoy")
    assert "Ahoy" in answer.stdout

    logged = lambda: "POST /api/v1/chat/completions" in cli.moor("logs", "cli").stdout  # noqa: E731
    until(logged, "the request is in the logs", timeout_s=15)

    assert "cli is RUNNING" in cli.moor("restart", "cli").stdout
    assert "cli is STOPPED" in cli.moor("stop", "cli").stdout
    assert "cli is RUNNING" in cli.moor("start", "cli").stdout
    states = {one["state"] for one in json.loads(cli.moor("replicas", "cli", "--json").stdout)}
    assert "routed" in states
    assert "container.restart" in cli.moor("events", "cli").stdout
    cli.moor("delete", "cli", "--yes")
    assert json.loads(cli.moor("list", "--json").stdout) == []


@pytest.mark.long
def test_logs_follow(cli: Stack) -> None:
    cli.moor("deploy", "-f", EXAMPLE, "--name", "follow")
    found: list[str] = []
    following = threading.Thread(
        target=lambda: found.append(_first_line_with(cli, "POST /echo")), daemon=True
    )
    following.start()
    key = cli.moor("keys", "create").stdout.strip()
    url = json.loads(cli.moor("describe", "follow", "--json").stdout)["endpoint_url"]

    def seen() -> bool:
        httpx.post(f"{url}/echo", headers={"Authorization": f"Bearer {key}"}, timeout=10)
        return bool(found)

    until(seen, "the line arrives", timeout_s=30, pause_s=0.5)
    assert "POST /echo" in found[0]
    cli.moor("delete", "follow", "--yes")


@pytest.mark.long
def test_status_and_exit_codes(cli: Stack) -> None:
    assert "ready" in cli.moor("status").stdout
    assert cli.moor("describe", "nothing", check=False).returncode == 7
    assert cli.moor("deploy", "--image", "NOT VALID", "--name", "x", check=False).returncode == 2
    broken = cli.moor("deploy", "-f", EXAMPLE, "--name", "broken", "-e", "CHAT_CRASH=at-start", check=False)
    assert broken.returncode == 1
    assert "exited" in broken.stdout + broken.stderr
    cli.moor("delete", "broken", "--yes")


def test_config_masks_secrets(stack: Stack) -> None:
    shown = json.loads(stack.moor("config").stdout)
    assert shown["home"] == str(stack.home)


def _first_line_with(stack: Stack, wanted: str) -> str:
    process = subprocess.Popen(
        [*MOOR, "logs", "follow", "-f"], env=stack.environment, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        return next(line for line in process.stdout if wanted in line)
    finally:
        process.terminate()
        process.wait()
