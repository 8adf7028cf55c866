"""Where a request came from: HAProxy on the socket is believed, at the port only gateways that are named."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from moorage.entrypoints.api_role import _local_socket, _tcp_socket
from moorage.entrypoints.forwarded import Forwarded
from moorage.kit.errors import SettingsError, SetupError
from moorage.kit.settings import load_settings
from tests.ports import free_port

FORGED = {"X-Forwarded-For": "192.0.2.7", "X-Forwarded-Proto": "https"}


async def _tell(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] != "http":
        return
    client = scope["client"][0] if scope["client"] else ""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": f"{client} {scope['scheme']}".encode()})


@contextlib.asynccontextmanager
async def served(path: Path, port: int, *gateways: str) -> AsyncIterator[None]:
    config = uvicorn.Config(
        Forwarded(_tell, gateways), log_config=None, proxy_headers=False, lifespan="off", ws="none"
    )
    server = uvicorn.Server(config)
    server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign,assignment]
    with _local_socket(path) as local, _tcp_socket(f"127.0.0.1:{port}") as tcp:
        serving = asyncio.create_task(server.serve(sockets=[local, tcp]))
        async with asyncio.timeout(20):
            while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
                await asyncio.sleep(0.01)
        yield
        server.should_exit = True
        await serving


@pytest.mark.parametrize(
    ("gateways", "at_the_port"),
    [((), "127.0.0.1 http"), (("10.0.0.0/8",), "127.0.0.1 http"), (("127.0.0.0/8",), "192.0.2.7 https")],
)
async def test_who_is_believed(short_folder: Path, gateways: tuple[str, ...], at_the_port: str) -> None:
    path, port = short_folder / "run/api.sock", free_port()
    async with served(path, port, *gateways):
        transport = httpx.AsyncHTTPTransport(uds=str(path))
        async with httpx.AsyncClient(transport=transport) as client:
            assert (await client.get("http://api/", headers=FORGED)).text == "192.0.2.7 https"
        async with httpx.AsyncClient(trust_env=False) as client:
            answer = await client.get(f"http://127.0.0.1:{port}/", headers=FORGED)
            assert answer.text == at_the_port


def test_what_cannot_be_listened_on_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(SetupError, match=f"Cannot listen on {address}: Address already in use"):
            _tcp_socket(address)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("api_role_listen", "8000", "must be host:port"),
        ("api_upstreams", ("api",), "must be host:port"),
        ("api_role_gateways", ("gateways",), "must be addresses or networks"),
    ],
)
def test_wrong_settings_are_said(name: str, value: object, says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        load_settings(**{name: value})
