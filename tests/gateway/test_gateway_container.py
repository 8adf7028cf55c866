"""A gateway as the first process of a container: HAProxy outlives the role, and ends in order."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from sqlalchemy import text

from moorage.entrypoints.gateway_pods import pod_gateway_id
from moorage.kit.daemon import Daemon
from moorage.kit.database import Database
from tests.ports import free_port

UID = "8b7ff2b1-30d5-4f6c-9d24-0a0c5f6c1d11"


class Container:
    def __init__(self, home: Path, dsn: str) -> None:
        self.home, self.health = home, free_port()
        self.endpoints = free_port()
        environment = {
            **os.environ,
            "MOORAGE_HOME": str(home),
            "MOORAGE_DATABASE_DSN": dsn,
            "MOORAGE_API_LISTEN": f"127.0.0.1:{free_port()}",
            "MOORAGE_GATEWAY_LISTEN": f"127.0.0.1:{self.endpoints}",
            "MOORAGE_HEALTH_LISTEN": f"127.0.0.1:{self.health}",
            "MOORAGE_POD_UID": UID,
            "MOORAGE_DRAIN_TIMEOUT_S": "5",
        }
        command = [
            sys.executable,
            "-m",
            "moorage.entrypoints.moor",
            "serve",
            "--role",
            "gateway",
            "--in-container",
        ]
        self.process = subprocess.Popen(command, env=environment, start_new_session=True)

    def says(self, path: str) -> int | None:
        try:
            return httpx.get(f"http://127.0.0.1:{self.health}{path}").status_code
        except httpx.TransportError:
            return None

    def answers(self) -> bool:
        """HAProxy, that it does not know us."""
        return httpx.get(f"http://127.0.0.1:{self.endpoints}/").status_code == 401

    def haproxy(self) -> int | None:
        return Daemon("haproxy", self.home / "run").running_pid()

    def role(self) -> int | None:
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        roles = [int(one) for one in children if b"\0serve\0" in Path(f"/proc/{one}/cmdline").read_bytes()]
        return roles[0] if roles else None


def until(condition: Callable[[], bool], what: str, within_s: float = 60) -> None:
    deadline_s = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline_s, f"not in time: {what}"
        time.sleep(0.05)


@pytest.fixture
def container(short_folder: Path, database_dsn: str) -> Iterator[Container]:
    running = Container(short_folder / "home", database_dsn)
    yield running
    if running.process.poll() is None:
        running.process.send_signal(signal.SIGTERM)
        running.process.wait(30)
    if (left := running.haproxy()) is not None:
        os.kill(left, signal.SIGKILL)


@pytest.mark.long
async def test_haproxy_outlives_the_role_and_ends_in_order(container: Container, database: Database) -> None:
    async def known() -> list[str]:
        async with database.reading() as session:
            return list((await session.execute(text("SELECT id FROM gateways"))).scalars())

    until(lambda: container.says("/livez") == 200, "it lives")
    until(lambda: container.says("/readyz") == 200, "it is ready")
    assert await known() == [pod_gateway_id(UID)]
    haproxy, role = container.haproxy(), container.role()
    assert haproxy is not None
    assert role is not None
    os.kill(role, signal.SIGKILL)
    until(lambda: container.role() not in (None, role), "the role runs again")
    assert container.haproxy() == haproxy
    assert container.says("/readyz") == 200
    assert container.answers()
    assert container.says("/other") == 404

    container.process.send_signal(signal.SIGTERM)
    assert container.process.wait(30) == 0
    assert container.haproxy() is None
    assert await known() == []


@pytest.mark.long
async def test_one_without_a_database_is_not_ready(short_folder: Path) -> None:
    """It never served anything. It lives, and waits."""
    container = Container(short_folder / "home", "postgresql://nobody@127.0.0.1:1/none")
    try:
        until(lambda: container.says("/livez") == 200, "it lives")
        until(lambda: container.haproxy() is not None, "HAProxy runs")
        assert container.says("/readyz") == 503
    finally:
        container.process.send_signal(signal.SIGTERM)
        assert container.process.wait(40) == 0
        assert container.haproxy() is None
