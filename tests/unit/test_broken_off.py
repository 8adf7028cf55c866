"""An API that is asked to end in the middle of requests."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import uvicorn
from fastapi import FastAPI
from starlette.responses import StreamingResponse

from moorage.entrypoints.api_role import server_of

app = FastAPI()
at_work = asyncio.Semaphore(0)


@app.get("/slow")
@app.post("/slow")
async def slow() -> None:
    at_work.release()
    await asyncio.Event().wait()


@app.get("/stream")
async def stream() -> StreamingResponse:
    async def lines() -> AsyncIterator[bytes]:
        yield b"one\n"
        await asyncio.Event().wait()

    return StreamingResponse(lines())


async def ends_in_the_middle(client: httpx.AsyncClient, server: uvicorn.Server) -> None:
    async with client.stream("GET", "/stream") as answer:
        async for _ in answer.aiter_bytes():
            server.should_exit = True


async def test_whoever_waits_is_told_and_nothing_looks_like_a_fault(
    short_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = server_of(app, grace_s=1)
    address = str(short_folder / "api.sock")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen()
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        transport = httpx.AsyncHTTPTransport(uds=address)
        async with httpx.AsyncClient(transport=transport, base_url="http://api", timeout=20) as client:
            asked = [asyncio.create_task(client.request(method, "/slow")) for method in ("GET", "POST")]
            for _ in asked:
                await at_work.acquire()
            with pytest.raises(httpx.RemoteProtocolError):
                await ends_in_the_middle(client, server)
            await serving
            read, changed = await asyncio.gather(*asked)
    for answer in (read, changed):
        assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
        assert answer.headers["retry-after"]
    assert "Look first" not in read.text
    assert "Look first whether it was carried out" in changed.text
    # It says how many there were, in a line.
    (told,) = (record for record in caplog.records if record.levelno >= logging.ERROR)
    assert "Cancel 3 running" in told.getMessage()
    assert told.exc_info is None
