"""Several APIs behind one gateway: one that is killed costs no request that may be repeated, and none is done twice."""

import asyncio
import contextlib
import os
import re
import socket
import struct
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import aiohttp
import pytest
from gateway_support import Place, make_place
from pydantic import SecretStr

from moorage.entrypoints.bootstrap import make_keys, operator_key_of
from moorage.entrypoints.bootstrap_job import bootstrap_installation
from moorage.gateway.config import GatewayConfig
from moorage.gateway.dataplane import DataPlane
from moorage.gateway.table import GatewayTable
from moorage.kit.settings import Settings
from tests.ports import free_port

WAIT_S = 60.0


@dataclass
class StandInApi:
    """Answers as it is told to, and counts."""

    port: int = field(default_factory=free_port)
    host: str = "127.0.0.1"
    ready: bool = True
    hangs_up: bool = False
    """Takes a request and says nothing to it, as a process that is killed."""
    asked: list[str] = field(default_factory=list)
    checks: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                method, path, _ = head.split(" ", 2)
                length = re.search(r"\r\ncontent-length: (\d+)", head, re.IGNORECASE)
                await reader.readexactly(int(length[1]) if length else 0)
                if path == "/readyz":
                    self.checks += 1
                    await self._answer(writer, 200 if self.ready else 503)
                    continue
                self.asked.append(f"{method} {path}")
                if self.hangs_up:
                    break
                await self._answer(writer, 200)
        writer.close()

    async def _answer(self, writer: asyncio.StreamWriter, status: int) -> None:
        writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: 5\r\n\r\n{self.port:5}".encode())
        await writer.drain()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["StandInApi"]:
        async with await asyncio.start_server(self.serve, self.host, self.port):
            yield self


@contextlib.asynccontextmanager
async def gateway_to(home: Path, *upstreams: str, **others: object) -> AsyncIterator[Place]:
    place = make_place(home, api_upstreams=upstreams, **others)
    dataplane = place.dataplane()
    await _start(dataplane)
    try:
        yield place
    finally:
        await dataplane.stop()


async def _start(dataplane: DataPlane) -> None:
    await dataplane.start()
    await dataplane.apply(GatewayTable({}, {}))


def client_of(place: Place) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(f"http://127.0.0.1:{place.management_port}")


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():  # noqa: ASYNC110 - of many kinds
            await asyncio.sleep(0.02)


async def status_of(client: aiohttp.ClientSession, method: str = "GET", **how: object) -> int:
    async with client.request(method, "/api/v1/thing", **how) as response:  # type: ignore[arg-type]
        await response.read()
        return response.status


async def test_what_asks_goes_to_another_and_what_changes_does_not(short_folder: Path) -> None:
    broken, well = StandInApi(hangs_up=True), StandInApi()
    async with broken.running(), well.running():
        upstreams = [f"127.0.0.1:{one.port}" for one in (broken, well)]
        async with gateway_to(short_folder, *upstreams) as place, client_of(place) as client:
            await until(lambda: broken.checks > 0 and well.checks > 0)
            assert [await status_of(client) for _ in range(20)] == [200] * 20
            assert "GET /api/v1/thing" in broken.asked, "it was asked, and another after it"
            broken.asked.clear()
            well.asked.clear()
            statuses = [await status_of(client, "POST", data=b"{}") for _ in range(20)]
            posts = [one for one in broken.asked + well.asked if one.startswith("POST")]
            assert len(posts) == 20, "each was sent once"
            assert statuses.count(200) == len(well.asked)
            assert statuses.count(502) == len(broken.asked) > 0


@pytest.mark.long
async def test_who_is_not_ready_is_not_asked_unless_nobody_is(short_folder: Path) -> None:
    first, second = StandInApi(ready=False), StandInApi()
    async with first.running(), second.running():
        upstreams = [f"127.0.0.1:{one.port}" for one in (first, second)]
        async with gateway_to(short_folder, *upstreams) as place, client_of(place) as client:
            # A server counts as up until its checks failed twice.
            await until(lambda: first.checks >= 3)
            first.asked.clear()
            assert [await status_of(client) for _ in range(10)] == [200] * 10
            assert (len(first.asked), len(second.asked)) == (0, 10)
            second.ready = False
            before = second.checks
            await until(lambda: second.checks >= before + 3)
            assert [await status_of(client) for _ in range(10)] == [200] * 10
            assert len(first.asked) > 0, "both are asked, for what they have to say"


class NameServer(asyncio.DatagramProtocol):
    """Knows one name."""

    def __init__(self, addresses: list[str]) -> None:
        self.addresses = addresses

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        end = data.index(b"\0", 12) + 5
        is_ipv4 = data[end - 4 : end - 2] == b"\0\1"
        given = self.addresses if is_ipv4 else []
        answers = [b"\xc0\x0c\0\1\0\1\0\0\0\1\0\4" + socket.inet_aton(one) for one in given]
        head = data[:2] + struct.pack("!HHHHH", 0x8180, 1, len(answers), 0, 0)
        self.transport.sendto(head + data[12:end] + b"".join(answers), addr)


@pytest.mark.long
async def test_a_name_with_the_addresses_of_all(short_folder: Path) -> None:
    port, at = free_port(), free_port()
    first, second = StandInApi(port, "127.0.0.2"), StandInApi(port, "127.0.0.3")
    loop = asyncio.get_running_loop()
    transport, names = await loop.create_datagram_endpoint(
        lambda: NameServer([first.host]), local_addr=("127.0.0.1", at)
    )
    how = {"nameserver": f"127.0.0.1:{at}"}
    try:
        async with (
            first.running(),
            second.running(),
            gateway_to(short_folder, f"api.moorage.example:{port}", **how) as place,
            client_of(place) as client,
        ):
            await until(lambda: first.checks > 0)
            assert await status_of(client) == 200
            names.addresses = [first.host, second.host]
            await until(lambda: second.checks > 0)
            async with asyncio.timeout(WAIT_S):
                while not second.asked:
                    assert await status_of(client) == 200
            names.addresses = [second.host]
            async with asyncio.timeout(WAIT_S):
                quiet = 0
                while quiet < 20:
                    before = len(first.asked)
                    assert await status_of(client) == 200
                    quiet = quiet + 1 if len(first.asked) == before else 0
                    await asyncio.sleep(0.05)
    finally:
        transport.close()


@pytest.mark.parametrize("address", ["*:80", "api", "api:0", "a b:80", "api:80 backup", "api:80\nserver x"])
def test_no_other_address_gets_into_the_configuration(tmp_path: Path, address: str) -> None:
    with pytest.raises(ValueError, match="address"):
        GatewayConfig(
            "127.0.0.1:1",
            tmp_path,
            tmp_path / "stats",
            management_listen="127.0.0.1:2",
            api_socket=tmp_path / "api",
            api_upstreams=(address,),
        )


@dataclass
class Installation:
    settings: Settings
    folder: Path

    async def start_api(self, number: int, port: int) -> asyncio.subprocess.Process:
        """A process with a data folder of its own, as on a host of its own; the keys are the same."""
        settings = self.settings
        assert settings.database_dsn is not None
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "moorage.entrypoints.moor", "serve", "--role", "api"),
            env={
                **os.environ,
                "MOORAGE_HOME": str(self.folder / f"api{number}"),
                "MOORAGE_DATABASE_DSN": settings.database_dsn.get_secret_value(),
                "MOORAGE_KEYS": "mounted",
                "MOORAGE_SECRET_KEYS_PATH": str(settings.key_file),
                "MOORAGE_API_ROLE_LISTEN": f"127.0.0.1:{port}",
                "MOORAGE_API_ROLE_GATEWAYS": '["127.0.0.0/8"]',
                "MOORAGE_LOG_LEVEL": "error",
            },
        )


@pytest.fixture(name="installation")
async def installation_fixture(database_dsn: str, short_folder: Path) -> Installation:
    secret, operator = make_keys(short_folder / "keys")
    settings = Settings(
        home=short_folder,
        database_dsn=SecretStr(database_dsn),
        keys="mounted",
        secret_keys_path=secret,
        operator_key_path=operator,
    )
    await bootstrap_installation(settings, lambda _: None, wait_s=5, dump_first=False, accept=False)
    return Installation(settings, short_folder)


@pytest.mark.long
async def test_one_of_two_apis_is_killed_under_load(installation: Installation, short_folder: Path) -> None:
    ports = [free_port(), free_port()]
    apis = [await installation.start_api(number, port) for number, port in enumerate(ports)]
    headers = {"Authorization": f"Bearer {operator_key_of(installation.settings)}"}
    statuses: list[int | str] = []
    stopping = asyncio.Event()

    async def load(client: aiohttp.ClientSession) -> None:
        while not stopping.is_set():
            try:
                async with client.get("/api/v1/me", headers=headers) as response:
                    await response.json()
                    statuses.append(response.status)
            except (aiohttp.ClientError, ValueError) as exc:
                statuses.append(repr(exc))

    async def more(count: int) -> None:
        goal = len(statuses) + count
        await until(lambda: len(statuses) >= goal)

    try:
        await asyncio.gather(*(_ready(port) for port in ports))
        upstreams = [f"127.0.0.1:{port}" for port in ports]
        async with gateway_to(short_folder, *upstreams) as place, client_of(place) as client:
            loads = [asyncio.create_task(load(client)) for _ in range(8)]
            await more(200)
            for number in (0, 1):
                apis[number].kill()
                await apis[number].wait()
                await more(200)
                apis[number] = await installation.start_api(number, ports[number])
                await _ready(ports[number])
                await more(100)
            stopping.set()
            await asyncio.gather(*loads)
    finally:
        for api in apis:
            if api.returncode is None:
                api.terminate()
        await asyncio.wait_for(asyncio.gather(*(api.wait() for api in apis)), 30)
    failed = [one for one in statuses if one != 200]
    print(f"{len(statuses)} GETs while each of two APIs was killed once: {len(failed)} failed")
    assert failed == []


async def _ready(port: int) -> None:
    async with asyncio.timeout(WAIT_S), aiohttp.ClientSession() as client:
        while True:
            with contextlib.suppress(aiohttp.ClientError):
                async with client.get(f"http://127.0.0.1:{port}/readyz") as response:
                    if response.status == 200:
                        return
            await asyncio.sleep(0.05)
