"""What cannot work is said in one clear line, and nothing is changed."""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.stack import MOOR, Person, Stack
from tests.ports import free_port

REPOSITORY = Path(__file__).parents[2]


def moor_up(
    folder: Path, *, command: list[str] | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """`moor up` that is expected to give up by itself."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MOORAGE_")}
    ours = {
        "MOORAGE_HOME": str(folder / "home"),
        "MOORAGE_API_LISTEN": f"127.0.0.1:{free_port()}",
        "MOORAGE_GATEWAY_LISTEN": f"127.0.0.1:{free_port()}",
    }
    complete = {**kept, **ours, **environment}
    try:
        return subprocess.run(
            command or [*MOOR, "up"], env=complete, cwd=folder, capture_output=True, text=True, timeout=60
        )
    except subprocess.TimeoutExpired as started:
        subprocess.run([*MOOR, "clean", "--yes"], env=complete, cwd=folder, timeout=120, check=True)
        raise AssertionError(f"it started although it should not: {started.stdout!r}") from started


def one_clear_line(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 2, done.stdout + done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    assert "Traceback" not in done.stdout
    return lines[0]


@pytest.mark.long
def test_a_port_in_use(short_folder: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        line = one_clear_line(moor_up(short_folder, MOORAGE_API_LISTEN=address))
    assert address in line
    assert "MOORAGE_API_LISTEN" in line
    assert not (short_folder / "home/postgres").exists(), "nothing was started"


@pytest.mark.long
def test_a_data_folder_that_cannot_be_written_to(short_folder: Path) -> None:
    (short_folder / "file").write_text("")
    line = one_clear_line(moor_up(short_folder, MOORAGE_HOME=str(short_folder / "file/home")))
    assert "file/home" in line
    assert "MOORAGE_HOME" in line


@pytest.mark.long
def test_a_path_that_is_too_long_for_sockets(short_folder: Path) -> None:
    line = one_clear_line(moor_up(short_folder, MOORAGE_HOME=str(short_folder / ("x" * 100))))
    assert "too long" in line


@pytest.mark.long
def test_a_broken_settings_file(short_folder: Path) -> None:
    (short_folder / "moorage.toml").write_text("api_listen = \n")
    line = one_clear_line(moor_up(short_folder))
    assert "moorage.toml" in line
    assert not (short_folder / "home").exists()


@pytest.mark.long
def test_a_wrong_setting(short_folder: Path) -> None:
    line = one_clear_line(moor_up(short_folder, MOORAGE_GATEWAY_LISTEN="everywhere"))
    assert "gateway_listen" in line
    assert "host:port" in line


@pytest.mark.long
def test_an_engine_that_does_not_answer(short_folder: Path) -> None:
    done = moor_up(short_folder, MOORAGE_DOCKER_HOST=f"unix://{short_folder}/nobody.sock")
    assert "nobody.sock" in one_clear_line(done)
    assert not (short_folder / "home/postgres").exists(), "nothing was started"


@pytest.mark.long
def test_no_engine_and_no_right_to_install_one(short_folder: Path) -> None:
    """As somebody else than root, with no engine in reach."""
    if Path("/var/run/docker.sock").exists():
        pytest.skip("an engine of the system answers here")
    script = (
        # Everything is imported before root is given up, because root's Python may be closed to others.
        "import os, sys\nfrom moorage.entrypoints import moor, up\n"
        "os.setgroups([])\nos.setgid(65534)\nos.setuid(65534)\n"
        "sys.argv = ['moor', 'up']\nmoor.main()\n"
    )
    home = short_folder / "home"
    home.mkdir()
    if os.geteuid() == 0:
        shutil.chown(home, 65534, 65534)
    command = [
        sys.executable,
        "-c",
        script if os.geteuid() == 0 else script.split("os.setgroups")[0] + "moor.main()",
    ]
    line = one_clear_line(moor_up(short_folder, command=command))
    assert "No Docker engine answers, and only root can start one" in line
    assert not (home / "postgres").exists(), "nothing was started"


@pytest.mark.long
def test_a_second_moor_up_on_the_same_data(stack: Stack) -> None:
    done = subprocess.run([*MOOR, "up"], env=stack.environment, capture_output=True, text=True, timeout=60)
    line = one_clear_line(done)
    assert str(stack.home) in line
    assert "already runs" in line
    assert stack.process is not None
    assert stack.process.poll() is None, "the first one did not notice"


def test_a_python_that_is_too_old(short_folder: Path) -> None:
    """Every python3 on the PATH says that it is not new enough."""
    old = short_folder / "bin"
    old.mkdir()
    for name in ("python3", "python3.11", "python3.12", "python3.13", "python3.14"):
        (old / name).write_text('#!/bin/sh\n[ "$1" = --version ] && echo "Python 3.9.2" && exit 0\nexit 1\n')
        (old / name).chmod(0o755)
    for name in ("bash", "dirname", "id", "cmp", "env"):
        (old / name).symlink_to(shutil.which(name) or name)
    copy = short_folder / "copy"
    (copy / "scripts").mkdir(parents=True)
    shutil.copy(REPOSITORY / "scripts/setup", copy / "scripts/setup")
    done = subprocess.run(
        [str(copy / "scripts/setup")], env={"PATH": str(old)}, capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 1
    assert done.stderr.strip() == (
        "setup: Moorage needs Python 3.11 or newer; found Python 3.9.2. "
        "Install it (Debian 12: apt-get install python3) and run this again."
    )
    assert not (copy / ".venv").exists()


@pytest.mark.parametrize(
    "name", ["x" * 64, "<script>alert(1)</script>", "a\nb", "../../etc", "$(reboot)", ""]
)
def test_names_that_are_too_long_or_hostile(person: Person, name: str) -> None:
    before = person.api.get(f"/projects/{person.project_id}/containers").json()
    body = {
        "name": name,
        "image": "local/chat:latest",
        "registry": {"provider": "local"},
        "resources": {"mode": "general", "instance_type": "cpu-nano"},
    }
    refused = person.api.post(f"/projects/{person.project_id}/containers", json=body)
    assert refused.status_code == 422
    assert refused.headers["content-type"] == "application/problem+json"
    assert [error["field"] for error in refused.json()["errors"]] == ["name"]
    assert person.api.get(f"/projects/{person.project_id}/containers").json() == before
