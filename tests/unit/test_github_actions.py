"""The handbook's workflow: its steps as GitHub runs them, with `moor` against a server that plays the documented API."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from cli_server import MANAGE_KEY, FakeMoorage

from tests.handbook_blocks import blocks_of

pytest_plugins = ["cli_fixtures"]

_CONTEXT = {
    "github.sha": "4f1c2a9",
    "github.actor": "ada",
    "secrets.GITHUB_TOKEN": "ghs_secret",
    "secrets.MOORAGE_KEY": MANAGE_KEY,
}


def filled(text: str, url: str) -> str:
    assert set(found := re.findall(r"\$\{\{ ([\w.]+) \}\}", text)) <= _CONTEXT.keys(), found
    text = re.sub(r"\$\{\{ ([\w.]+) \}\}", lambda match: _CONTEXT[match[1]], text)
    return text.replace("https://cloud.example.com", url)


@pytest.fixture
def job() -> dict[str, Any]:
    (block,) = [
        one for one in blocks_of("continuous-deployment") if one.file == ".github/workflows/deploy.yml"
    ]
    (found,) = yaml.safe_load(block.text)["jobs"].values()
    assert isinstance(found, dict)
    return found


def run(job: dict[str, Any], fake: FakeMoorage, folder: Path) -> tuple[int, str, list[str]]:
    """Until a step fails: its exit code, what it said, and what `docker` and `pip` were told."""
    programs = folder / "bin"
    programs.mkdir()
    for name in ("docker", "pip"):
        (programs / name).write_text(
            f'#!/bin/sh\n[ "$1" != login ] || cat > /dev/null\necho "{name} $*" >> {folder}/told\n'
        )
        (programs / name).chmod(0o755)
    (programs / "moor").symlink_to(Path(sys.executable).with_name("moor"))
    usual = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(folder), "GITHUB_ACTIONS": "true"}
    code, said = 0, ""
    for step in job["steps"]:
        if "run" not in step:
            continue
        given = {**job.get("env", {}), **step.get("env", {})}
        environment = usual | {name: filled(str(value), fake.url) for name, value in given.items()}
        assert "${{" not in step["run"], "what others may write stands in no script"
        # As GitHub starts it.
        shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        done = subprocess.run(shell, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)
        code, said = done.returncode, said + done.stdout + done.stderr
        if code:
            break
    return code, said, (folder / "told").read_text().splitlines()


def test_the_workflow_updates_and_waits(job: dict[str, Any], fake: FakeMoorage, tmp_path: Path) -> None:
    fake.add_container("chat", draft={"applying": True, "failure": None})
    fake.steps = [{}, {"draft": {"applying": True, "failure": None}}, {"draft": None}]
    code, said, told = run(job, fake, tmp_path)
    assert (code, "chat is RUNNING." in said) == (0, True), said
    assert "\x1b" not in said
    assert told == [
        "docker login ghcr.io -u ada --password-stdin",
        "docker build -t ghcr.io/acme/chat:4f1c2a9 .",
        "docker push ghcr.io/acme/chat:4f1c2a9",
        "pip install moorage",
    ]
    assert fake.asked("PUT", "/containers/ctr_0/draft") == [{"image": "ghcr.io/acme/chat:4f1c2a9"}]
    assert fake.asked("POST", "/containers/ctr_0/draft/apply") == [{"strategy": "rolling"}]
    assert fake.steps == [], "until it served"
    assert _CONTEXT["secrets.MOORAGE_KEY"] not in said


def test_an_update_that_fails_is_a_step_that_fails(
    job: dict[str, Any], fake: FakeMoorage, tmp_path: Path
) -> None:
    failure = {"reason": "exited", "message": "The process ended."}
    fake.add_container("chat", draft={"applying": True, "failure": None})
    fake.steps = [{"draft": {"applying": False, "failure": failure}}]
    code, said, _ = run(job, fake, tmp_path)
    assert (code, "The new settings failed (exited)" in said) == (1, True), said


def test_what_the_exit_codes_say(job: dict[str, Any], fake: FakeMoorage, tmp_path: Path) -> None:
    assert run(job, fake, tmp_path)[0] == 7, "no container of that name"
