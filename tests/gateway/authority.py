"""A real authority that speaks ACME (Pebble), and the server of names that it asks."""

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from moorage.gateway.acme.certificate import first_certificate
from moorage.kit.clock import system_clock
from tests.packages import install
from tests.ports import free_port

_ANSWERS_WITHIN_S = 30.0


@dataclass(frozen=True)
class Authority:
    directory: str
    root: Path
    """Of its own address."""
    management: str
    names: str
    """Where the server of names is told what to say."""

    async def lead_to(self, address: str) -> None:
        """All names, from now on."""
        async with aiohttp.ClientSession() as http:
            body = json.dumps({"ip": address})
            async with http.post(f"{self.names}/set-default-ipv4", data=body) as answer:
                answer.raise_for_status()

    async def roots(self) -> str:
        """Of what it certifies."""
        async with (
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as http,
            http.get(f"{self.management}/roots/0") as answer,
        ):
            answer.raise_for_status()
            return await answer.text()


@asynccontextmanager
async def running_authority(folder: Path, asks_port: int, **environment: str) -> AsyncIterator[Authority]:
    """`asks_port`: in place of 80. It refuses one in twenty nonces, as Pebble does by itself, and clients must bear."""
    listen, management, names, dns = (free_port() for _ in range(4))
    pem = first_certificate(["localhost"], system_clock.now())
    certificate = folder / "authority.pem"
    certificate.write_text(pem)
    config = folder / "pebble.json"
    config.write_text(
        json.dumps(
            {
                "pebble": {
                    "listenAddress": f"127.0.0.1:{listen}",
                    "managementListenAddress": f"127.0.0.1:{management}",
                    "certificate": str(certificate),
                    "privateKey": str(certificate),
                    "httpPort": asks_port,
                    "tlsPort": free_port(),
                }
            }
        )
    )
    authority = Authority(
        f"https://localhost:{listen}/dir",
        certificate,
        f"https://localhost:{management}",
        f"http://127.0.0.1:{names}",
    )
    with ExitStack() as stack:
        off = ("-http01", "", "-https01", "", "-tlsalpn01", "")
        for command in (
            [
                _program("pebble-challtestsrv"),
                *("-dns01", f"127.0.0.1:{dns}", "-management", f"127.0.0.1:{names}"),
                *("-defaultIPv4", "127.0.0.1", "-defaultIPv6", "", *off),
            ],
            [_program("pebble"), "-config", str(config), "-dnsserver", f"127.0.0.1:{dns}"],
        ):
            process = stack.enter_context(_running(command, folder, environment))
            for port in (listen, management) if command[0].endswith("pebble") else (names,):
                await _until_it_listens(process, port)
        yield authority


@contextmanager
def _running(
    command: list[str], folder: Path, environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    with open(folder / f"{Path(command[0]).name}.log", "w") as log:
        whole = {**os.environ, "PEBBLE_VA_NOSLEEP": "1", **environment}
        process = subprocess.Popen(command, stdout=log, stderr=log, env=whole)
        try:
            yield process
        finally:
            process.kill()
            process.wait()


async def _until_it_listens(process: "subprocess.Popen[bytes]", port: int) -> None:
    async with asyncio.timeout(_ANSWERS_WITHIN_S):
        while True:
            assert process.poll() is None, f"{process.args} has ended; its log says why"
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                return


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        install("pebble")
        found = shutil.which(name)
    if found is None:
        pytest.skip("no pebble here, and only root on Debian or Ubuntu can install it")
    return found
