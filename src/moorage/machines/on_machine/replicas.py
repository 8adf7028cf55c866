"""What an installation runs on this machine, when the machine leaves it: nobody else could end it afterwards."""

import asyncio
from pathlib import Path

from moorage.engines.docker.connection import UNIX_PREFIX
from moorage.engines.docker.engine import DockerEngine
from moorage.kit.clock import system_clock
from moorage.kit.ids import InstallationId


async def end_replicas(docker_host: str, installation_id: str) -> None:
    """Safe to repeat. Raises `EngineError`. Where Docker was taken away, what it ran is gone."""
    socket = Path(docker_host.removeprefix(UNIX_PREFIX)) if docker_host.startswith(UNIX_PREFIX) else None
    if socket is not None and not await asyncio.to_thread(socket.exists):
        return
    engine = DockerEngine(docker_host, InstallationId(installation_id), system_clock)
    try:
        for one in await engine.list_replicas():
            await engine.remove(one.engine_id)
    finally:
        await engine.close()
