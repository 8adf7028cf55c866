"""A real HTTP server on a loopback port for an application, while a test runs."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import uvicorn

from tests.ports import free_port


@asynccontextmanager
async def serving(app: Any, port: int | None = None) -> AsyncIterator[str]:
    port = port if port is not None else free_port()
    server = uvicorn.Server(
        uvicorn.Config(app, host="127.0.0.1", port=port, log_level="warning", lifespan="off")
    )
    server.install_signal_handlers = lambda: None  # type: ignore[method-assign]
    task = asyncio.create_task(server.serve())
    url = f"http://127.0.0.1:{port}"
    async with httpx.AsyncClient(trust_env=False, verify=False) as client, asyncio.timeout(20):
        while True:
            try:
                await client.get(url)
                break
            except httpx.TransportError:
                await asyncio.sleep(0.02)
    try:
        yield url
    finally:
        server.should_exit = True
        await task
