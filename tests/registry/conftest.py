"""Debian's own registry, once open and once behind htpasswd, on loopback ports for the session."""

import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.packages import install
from tests.ports import free_port

USERNAME, PASSWORD = "ann", "htpasswd-canary-4711"
_PACKAGES = {"docker-registry": "docker-registry", "htpasswd": "apache2-utils"}
_START_DEADLINE_S = 30.0
_CONFIG = """
version: 0.1
log: {{level: warn, accesslog: {{disabled: true}}}}
storage:
  filesystem: {{rootdirectory: {folder}/data}}
  delete: {{enabled: true}}
http: {{addr: "{host}"}}
"""
_HTPASSWD_CONFIG = "auth: {{htpasswd: {{realm: test, path: {folder}/htpasswd}}}}\n"


@dataclass(frozen=True)
class RunningRegistry:
    host: str

    @property
    def url(self) -> str:
        return f"http://{self.host}"


@pytest.fixture(scope="session")
def open_registry() -> Iterator[RunningRegistry]:
    yield from run_registry(with_password=False)


@pytest.fixture(scope="session")
def private_registry() -> Iterator[RunningRegistry]:
    yield from run_registry(with_password=True)


def run_registry(*, with_password: bool) -> Iterator[RunningRegistry]:
    _install_missing()
    folder = Path(tempfile.mkdtemp(prefix="moor-registry-", dir="/tmp"))
    host = f"127.0.0.1:{free_port()}"
    template = _CONFIG + (_HTPASSWD_CONFIG if with_password else "")
    (folder / "config.yml").write_text(template.format(folder=folder, host=host))
    entry = subprocess.run(
        ["htpasswd", "-niB", USERNAME], input=PASSWORD, capture_output=True, text=True, check=True
    )
    (folder / "htpasswd").write_text(entry.stdout)
    with open(folder / "registry.log", "wb") as log:
        process = subprocess.Popen(
            ["docker-registry", "serve", str(folder / "config.yml")], stdout=log, stderr=log
        )
    try:
        _wait_until_it_answers(process, host, folder / "registry.log")
        yield RunningRegistry(host)
    finally:
        process.terminate()
        process.wait(timeout=20)
        shutil.rmtree(folder)


def _install_missing() -> None:
    missing = [package for program, package in _PACKAGES.items() if shutil.which(program) is None]
    if missing:
        install(*missing)


def _wait_until_it_answers(process: subprocess.Popen[bytes], host: str, log: Path) -> None:
    deadline_s = time.monotonic() + _START_DEADLINE_S
    while True:
        assert process.poll() is None, f"the registry ended: {log.read_text()[-2000:]}"
        try:
            urllib.request.urlopen(f"http://{host}/v2/", timeout=5).close()
        except urllib.error.HTTPError:  # it wants a password, so it is there
            return
        except OSError:
            assert time.monotonic() < deadline_s, "the registry did not answer in time"
            time.sleep(0.05)
        else:
            return
