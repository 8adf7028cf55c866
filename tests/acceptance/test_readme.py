"""The README's walk, typed in from the README itself, in a fresh copy with an environment of its own."""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.acceptance.stack import until
from tests.ports import free_port

REPOSITORY = Path(__file__).parents[2]
BUILT_PAGES = ("src/moorage/console/dist", "src/moorage/console/dist-handbook")


@dataclass
class Fresh:
    """A clone of the repository: no .venv, no data."""

    folder: Path
    environment: dict[str, str]

    def run(self, command: str, timeout_s: float = 120) -> str:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture
def fresh(short_folder: Path, docker_host: str) -> Iterator[Fresh]:
    folder = short_folder / "moorage"
    files = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    for name in files:
        if (REPOSITORY / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / name, folder / name)
    # What `make test` has just built from nothing is not built again where the sources are the same.
    for built in BUILT_PAGES:
        if (REPOSITORY / built).is_dir():
            shutil.copytree(REPOSITORY / built, folder / built)
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("MOORAGE_", "VIRTUAL_ENV"))
    }
    environment = {
        **kept,
        "MOORAGE_HOME": str(short_folder / "home"),
        "MOORAGE_API_LISTEN": f"127.0.0.1:{free_port()}",
        "MOORAGE_GATEWAY_LISTEN": f"127.0.0.1:{free_port()}",
        "MOORAGE_DOCKER_HOST": docker_host,
        "MOORAGE_REPLICA_PORTS": "25000-25999",
        "MOORAGE_CLI_CONFIG": str(short_folder / "cli.toml"),
        "PATH": f"{folder}/.venv/bin:{kept['PATH']}",
    }
    environment["MOORAGE_URL"] = f"http://{environment['MOORAGE_API_LISTEN']}"
    copy = Fresh(folder, environment)
    yield copy
    copy.run("make clean", timeout_s=180)


def walk() -> list[str]:
    """The commands of the README's walk: lines that begin with `$ `, continued by a backslash."""
    section = (REPOSITORY / "README.md").read_text().split("## A five-minute walk")[1].split("\n## ")[0]
    blocks = "\n".join(re.findall(r"```console\n(.*?)```", section, re.DOTALL))
    joined = blocks.replace("\\\n", "")
    return [line.removeprefix("$ ") for line in joined.splitlines() if line.startswith("$ ")]


@pytest.mark.timeout(540)
@pytest.mark.long
def test_the_walk(fresh: Fresh, short_folder: Path) -> None:
    commands = walk()
    assert commands[0] == "make up"
    output = short_folder / "up.out"
    with open(output, "wb") as file:
        up = subprocess.Popen(
            ["make", "up"],
            cwd=fresh.folder,
            env=fresh.environment,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    ready = lambda: "Moorage is ready." in output.read_text() or up.poll() is not None  # noqa: E731
    until(ready, "make up is ready", timeout_s=360)
    assert up.poll() is None, output.read_text()
    curl = next(line.strip() for line in output.read_text().splitlines() if line.strip().startswith("curl"))
    assert "operator@localhost" in fresh.run(curl), "the curl that make up prints works"

    # One shell for the rest, because the walk sets variables.
    said = fresh.run("\n".join(commands[1:]), timeout_s=180)
    assert "is RUNNING." in said
    assert said.count("Harbour pilot here") >= 2, "plain, through curl and through moor chat"
    assert "data: [DONE]" in said, "and streamed"

    os.killpg(up.pid, signal.SIGINT)
    up.wait(timeout=60)
    assert "keep running" in output.read_text()
