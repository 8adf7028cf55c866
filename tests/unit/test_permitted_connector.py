"""A request of a former leader reaches no engine, of whatever kind."""

import asyncio
from pathlib import Path

import aiohttp
import pytest

from moorage.engines.docker import connection as docker
from moorage.engines.kubernetes import connection as kubernetes
from moorage.engines.remote import connection as remote
from moorage.kit.errors import LeaseLostError
from moorage.kit.permission import permitted_by


def lost() -> None:
    raise LeaseLostError("we lead no longer")


@pytest.mark.parametrize("kind", ["docker", "kubernetes", "remote"])
async def test_nothing_is_written_without_permission(kind: str, short_folder: Path) -> None:
    heard = bytearray()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while part := await reader.read(1000):
            heard.extend(part)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    path = str(short_folder / "engine.sock")
    if kind == "docker":
        server = await asyncio.start_unix_server(listen, path)
        connector: aiohttp.BaseConnector = docker._Connector(path=path)
        url = "http://engine/"
    else:
        server = await asyncio.start_server(listen, "127.0.0.1", 0)
        connector = kubernetes._Connector() if kind == "kubernetes" else remote._Connector()
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    async with server, aiohttp.ClientSession(connector=connector) as session:
        with permitted_by(lost), pytest.raises(LeaseLostError):
            await session.get(url)
        assert heard == b""
        async with session.get(url) as answer:
            assert answer.status == 200
        assert heard.startswith(b"GET / HTTP/1.1")
