"""The log collector in a process of its own, to be killed: `python log_collector_process.py DSN DOCKER_HOST INSTALLATION`."""

import asyncio
import sys

from log_support import KEYRING

from moorage.engines.base import LOCAL_ENGINE
from moorage.engines.docker.engine import DockerEngine
from moorage.engines.engines import Engines
from moorage.kit.clock import system_clock
from moorage.kit.database import Database, Listener
from moorage.kit.ids import InstallationId
from moorage.kit.settings import Settings
from moorage.reconcile.driver import Driver
from moorage.telemetry.logs.collector import LogCollector


async def main(dsn: str, docker_host: str, installation_id: str) -> None:
    database, listener = Database(dsn), Listener(dsn)
    engine = DockerEngine(docker_host, InstallationId(installation_id), system_clock)
    logs = LogCollector(database, Engines({LOCAL_ENGINE: engine}), KEYRING, Settings(), system_clock)
    driver = Driver(logs, database, listener, "a process", system_clock)
    async with asyncio.TaskGroup() as group:
        group.create_task(listener.run())
        group.create_task(driver.run())


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
