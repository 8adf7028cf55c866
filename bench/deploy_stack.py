"""An installation of its own for a benchmark: started in a temporary folder, removed with all it made."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import aiohttp

from moorage.engines.docker.daemon import ensure_engine
from moorage.kit.database import Database
from moorage.kit.ids import InstallationId
from moorage.kit.installation import ensure_installation_id
from moorage.kit.postgres import database_dsn
from moorage.kit.settings import Settings

IMAGE = "local/chat:latest"
HEALTH_PATH = "/health"
INSTANCE_TYPE = "cpu-small"
_STOP_TIMEOUT_S = 60


@dataclass(frozen=True)
class Stack:
    api_url: str
    dsn: str = field(repr=False)
    docker_host: str
    installation_id: InstallationId
    operator_headers: dict[str, str] = field(repr=False)
    project_id: str = ""
    endpoint_headers: dict[str, str] = field(default_factory=dict, repr=False)

    async def signed_in(self, http: aiohttp.ClientSession) -> "Stack":
        """With the operator's first project and a key for its endpoints."""
        headers = self.operator_headers
        async with http.get(f"{self.api_url}/organizations", headers=headers) as answer:
            organization_id = (await answer.json())["items"][0]["id"]
        async with http.get(
            f"{self.api_url}/organizations/{organization_id}/projects", headers=headers
        ) as answer:
            project_id = (await answer.json())["items"][0]["id"]
        async with http.post(
            f"{self.api_url}/projects/{project_id}/api-keys", json={"name": "bench"}, headers=headers
        ) as answer:
            key = (await answer.json())["key"]
        return replace(self, project_id=project_id, endpoint_headers={"Authorization": f"Bearer {key}"})


@contextlib.contextmanager
def running_stack() -> Iterator[Stack]:
    # Short, because the paths of unix sockets are; open, because the database's unprivileged user must reach it.
    home = Path(tempfile.mkdtemp(prefix="moor-", dir="/tmp"))
    home.chmod(0o755)
    settings = Settings(
        home=home,
        api_listen=f"127.0.0.1:{free_port()}",
        gateway_listen=f"127.0.0.1:{free_port()}",
    )
    environment = dict(os.environ) | {
        "MOORAGE_HOME": str(home),
        "MOORAGE_API_LISTEN": settings.api_listen,
        "MOORAGE_GATEWAY_LISTEN": settings.gateway_listen,
    }
    moor = [sys.executable, "-m", "moorage.entrypoints.moor"]
    up = subprocess.Popen([*moor, "up"], env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert up.stdout is not None
        for line in up.stdout:
            if "Moorage is ready" in line:
                break
            print(line, end="", flush=True)
        else:
            sys.exit("Moorage did not start.")
        yield asyncio.run(_stack_of(settings))
    finally:
        up.send_signal(signal.SIGINT)
        up.communicate(timeout=_STOP_TIMEOUT_S)
        subprocess.run(
            [*moor, "clean", "--yes"], env=environment, check=True, timeout=120, stdout=subprocess.DEVNULL
        )


async def _stack_of(settings: Settings) -> Stack:
    dsn = database_dsn(settings)
    database = Database(dsn, pool_size=2)
    async with database.transaction() as session:
        installation_id = await ensure_installation_id(session)
    await database.close()
    return Stack(
        api_url=f"{settings.api_base_url}/api/v1",
        dsn=dsn,
        docker_host=await ensure_engine(settings, print),
        installation_id=installation_id,
        operator_headers={"Authorization": f"Bearer {settings.operator_key_file.read_text().strip()}"},
    )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
