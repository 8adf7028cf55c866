"""What it costs gateways to agree on limits: CPU per minute of a gateway's process and its HAProxy, alone and beside another.

    python bench/limit_shares.py [--keys 1000] [--seconds 60]

Starts a Postgres and gateways of its own in a temporary folder. Every key has a limit of its own. Three times: one gateway, two that
nobody asks anything, and two after each key has used up what it may at the first, so that all of them are shared out every second.
"""

import argparse
import asyncio
import contextlib
import hashlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import asyncpg
import uvloop
from sqlalchemy import func

from moorage.catalog.repository import fill_empty_catalogue
from moorage.containers.models import ContainerRow, ReplicaRow
from moorage.containers.spec import ContainerSettings, RegistryProvider, ResourceMode
from moorage.entrypoints.gateway_role import create_dataplane
from moorage.entrypoints.migrate import migrate
from moorage.gateway.agent import GatewayAgent, stable_gateway_id
from moorage.gateway.limit_shares import LimitShares
from moorage.identity.api_keys.models import ApiKeyRow
from moorage.kit import ids
from moorage.kit.clock import system_clock
from moorage.kit.database import Database, Listener
from moorage.kit.home import prepare_home
from moorage.kit.logging import configure_logging
from moorage.kit.postgres import EmbeddedPostgres
from moorage.kit.settings import Settings
from moorage.organizations.models import OrganizationRow, ProjectRow

PATIENCE_S = 120.0
PER_MINUTE = 4
CONTAINER_PORT = 18190
AT_ONCE = 20
PROBE = "moor_" + "p" * 28
TYPE = "cpu-small"
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def main() -> None:
    if sys.argv[1:2] == ["gateway"]:
        uvloop.run(run_gateway(Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--keys", type=int, default=1000)
    parser.add_argument("--seconds", type=int, default=60)
    options = parser.parse_args()
    print(f"command: python {' '.join(sys.argv)}\n")
    with tempfile.TemporaryDirectory(prefix="moor-bench-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        asyncio.run(measure(Path(folder), options.keys, options.seconds))


async def measure(folder: Path, keys: int, seconds: int) -> None:
    container = await asyncio.start_server(answer, "127.0.0.1", CONTAINER_PORT)
    async with container, running_postgres(folder) as dsn:
        container_id, secrets = await fill(dsn, keys)
        print(f"{keys} keys, CPU of one gateway per minute{'its process':>24}{'HAProxy':>12}")
        with running_gateway(folder / "a", dsn, 18181) as one:
            await until_served(18181, container_id, PROBE)
            await show("one gateway", one, seconds)
            with running_gateway(folder / "b", dsn, 18182):
                await until_served(18182, container_id, PROBE)
                await until(dsn, "SELECT count(*) = 2 FROM gateways WHERE limit_divisor = 2")
                await show("two, nobody asks anything", one, seconds)
                await use_up(18181, container_id, secrets)
                await until(dsn, f"SELECT count(*) >= {2 * keys} FROM limit_shares")
                await show("two, all keys shared out", one, seconds)


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    writer.close()


async def show(what: str, gateway: "Gateway", seconds: int) -> None:
    before = gateway.cpu_s()
    await asyncio.sleep(seconds)
    process_s, haproxy_s = (
        (after - start) * 60 / seconds for after, start in zip(gateway.cpu_s(), before, strict=True)
    )
    print(f"{what:<40}{process_s:>20.2f} s{haproxy_s:>10.2f} s", flush=True)


@dataclass
class Gateway:
    process: subprocess.Popen[bytes]
    home: Path

    def cpu_s(self) -> tuple[float, float]:
        master = int((self.home / "run" / "haproxy.pid").read_text().split()[0])
        workers = Path(f"/proc/{master}/task/{master}/children").read_text().split()
        return _cpu_s(self.process.pid), sum(_cpu_s(int(pid)) for pid in workers)


def _cpu_s(pid: int) -> float:
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / _TICKS_PER_S


@contextlib.contextmanager
def running_gateway(home: Path, dsn: str, port: int) -> Iterator[Gateway]:
    command = [sys.executable, __file__, "gateway", str(home), dsn, str(port)]
    process = subprocess.Popen(command)
    try:
        yield Gateway(process, home)
    finally:
        process.terminate()
        process.wait()


async def run_gateway(home: Path, dsn: str, port: int) -> None:
    configure_logging("warning", as_json=True)
    settings = Settings(home=home, gateway_listen=f"127.0.0.1:{port}", api_listen=f"127.0.0.1:{port + 10}")
    prepare_home(settings)
    database, listener, dataplane = Database(dsn, pool_size=2), Listener(dsn), create_dataplane(settings)
    gateway_id = stable_gateway_id(home)
    shares = LimitShares(gateway_id, database, listener, dataplane, system_clock)
    agent = GatewayAgent(gateway_id, database, listener, dataplane, system_clock, shares.applied, shares.join)
    work = asyncio.gather(listener.run(), agent.run(), shares.run())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, work.cancel)
    try:
        with contextlib.suppress(asyncio.CancelledError):
            await work
    finally:
        await dataplane.stop()
        await database.close()


@contextlib.asynccontextmanager
async def running_postgres(folder: Path) -> AsyncIterator[str]:
    settings = Settings(home=folder / "postgres")
    prepare_home(settings)
    server = EmbeddedPostgres(settings, options=("fsync=off",))
    await server.start()
    try:
        await migrate(server.dsn)
        yield server.dsn
    finally:
        await server.stop()


async def fill(dsn: str, keys: int) -> tuple[str, list[str]]:
    organization_id, project_id = ids.new_organization_id(), ids.new_project_id()
    container_id, secrets = ids.new_container_id(), [f"moor_{number:028}" for number in range(keys)]
    settings = ContainerSettings("local/chat:1", RegistryProvider.LOCAL, None, ResourceMode.GENERAL, TYPE)
    database = Database(dsn)
    async with database.transaction() as session:
        await fill_empty_catalogue(session)
        session.add(OrganizationRow(id=organization_id, name="acme"))
        await session.flush()
        session.add(ProjectRow(id=project_id, organization_id=organization_id, name="default"))
        await session.flush()
        container = ContainerRow(
            id=container_id,
            project_id=project_id,
            name="chat",
            instance_type=TYPE,
            settings=settings.to_json(),
            secrets=b"",
            desired_state="running",
            desired_replicas=1,
            generation=1,
            state="RUNNING",
            state_since=func.now(),
        )
        session.add(container)
        await session.flush()
        session.add(
            ReplicaRow(
                id=ids.new_replica_id(),
                container_id=container_id,
                slot=0,
                generation=1,
                instance_type=TYPE,
                state="ready",
                node="local",
                host="127.0.0.1",
                host_port=CONTAINER_PORT,
            )
        )
        session.add_all(
            ApiKeyRow(
                id=ids.new_api_key_id(),
                project_id=project_id,
                name=f"key {number}",
                scope="inference",
                key_hash=hashlib.sha256(secret.encode()).digest(),
                hint=secret[-4:],
                requests_per_minute=PER_MINUTE if secret != PROBE else None,
            )
            for number, secret in enumerate([*secrets, PROBE])
        )
    await database.close()
    return container_id, secrets


async def until(dsn: str, question: str) -> None:
    connection = await asyncpg.connect(dsn)
    async with asyncio.timeout(PATIENCE_S):
        while not await connection.fetchval(question):  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.1)
    await connection.close()


async def until_served(port: int, container_id: str, secret: str) -> None:
    async with asyncio.timeout(PATIENCE_S), aiohttp.ClientSession() as client:
        while True:
            with contextlib.suppress(aiohttp.ClientConnectionError):
                if await _ask(client, port, container_id, secret) == 200:
                    return
            await asyncio.sleep(0.2)


async def use_up(port: int, container_id: str, secrets: list[str]) -> None:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=AT_ONCE)) as client:
        asked = [_ask(client, port, container_id, secret) for secret in secrets for _ in range(PER_MINUTE)]
        await asyncio.gather(*asked)


async def _ask(client: aiohttp.ClientSession, port: int, container_id: str, secret: str) -> int:
    url, headers = f"http://127.0.0.1:{port}/c/{container_id}/v1", {"Authorization": f"Bearer {secret}"}
    async with client.get(url, headers=headers) as response:
        return response.status


if __name__ == "__main__":
    main()
