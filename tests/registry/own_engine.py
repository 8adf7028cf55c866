"""A Docker engine inside `in_own_network`: all that it connects to and all that it looks up is seen."""

import asyncio
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

from moorage.engines.docker.connection import answers
from moorage.engines.docker.daemon import CONCURRENT_DOWNLOADS

_START_DEADLINE_S = 60.0
_DNS_PORT = 53


@asynccontextmanager
async def own_engine(authority_pem: bytes) -> AsyncIterator[str]:
    """It trusts `authority_pem`, so that a hostile registry is as good a registry to it as any."""
    # pytest's own temporary folders are too deep for a unix socket.
    home = Path(tempfile.mkdtemp(prefix="moor-", dir="/tmp"))
    host = f"unix://{home}/docker.sock"
    daemon = _start(home, host, authority_pem)
    try:
        async with asyncio.timeout(_START_DEADLINE_S):
            while not await answers(host):
                assert daemon.poll() is None, (home / "log").read_text()[-2000:]
                await asyncio.sleep(0.05)
        yield host
    finally:
        daemon.terminate()
        await asyncio.to_thread(daemon.wait, 60)
        shutil.rmtree(home)


def _start(home: Path, host: str, authority_pem: bytes) -> subprocess.Popen[bytes]:
    (home / "authority.pem").write_bytes(authority_pem)
    folders = ("--data-root", f"{home}/data", "--exec-root", f"{home}/exec", "--pidfile", f"{home}/pid")
    downloads = ("--max-concurrent-downloads", str(CONCURRENT_DOWNLOADS))
    with open(home / "log", "wb") as log:
        return subprocess.Popen(
            ["dockerd", "--host", host, *folders, "--bridge", "none", "--iptables=false", *downloads],
            stdout=log,
            stderr=log,
            env=os.environ | {"SSL_CERT_FILE": f"{home}/authority.pem"},
        )


def _name_servers() -> list[str]:
    found = re.findall(r"^nameserver\s+([0-9.]+)\s*$", Path("/etc/resolv.conf").read_text(), re.MULTILINE)
    return found or ["127.0.0.1"]  # where Go's resolver asks if none is named


class NameServer(asyncio.DatagramProtocol):
    """At the address where this machine's programs ask; answers each name with the next of its addresses."""

    def __init__(self, names: dict[str, list[str]]) -> None:
        self.names = names
        self.asked: list[str] = []

    @asynccontextmanager
    async def running(self) -> AsyncIterator["NameServer"]:
        transports = []
        for server in _name_servers():
            endpoint = await asyncio.get_running_loop().create_datagram_endpoint(
                lambda: self, local_addr=(server, _DNS_PORT)
            )
            transports.append(endpoint[0])
        try:
            yield self
        finally:
            for transport in transports:
                transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, client: tuple[str, int]) -> None:
        labels, position = [], 12
        while data[position]:
            labels.append(data[position + 1 : position + 1 + data[position]].decode())
            position += 1 + data[position]
        name, question = ".".join(labels), data[12 : position + 5]
        asks_for_ipv4 = question[-4:-2] == b"\x00\x01"
        addresses = self.names.get(name, [])
        if asks_for_ipv4:
            self.asked.append(name)
        records = b""
        if asks_for_ipv4 and addresses:
            address = addresses.pop(0) if len(addresses) > 1 else addresses[0]
            records = b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x00\x00\x04" + bytes(
                int(part) for part in address.split(".")
            )
        flags = b"\x81\x80" if addresses else b"\x81\x83"
        counts = b"\x00\x01" + (b"\x00\x01" if records else b"\x00\x00") + b"\x00\x00\x00\x00"
        self._transport.sendto(data[:2] + flags + counts + question + records, client)
