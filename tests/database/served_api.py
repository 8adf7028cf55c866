"""The application on a loop and in a thread of its own, as in production, with the watchdog over it."""

import asyncio
import gc
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import uvicorn
import uvloop
from api_support import KEYRING

from moorage.entrypoints.api import create_app
from moorage.kit.collecting import Collecting
from moorage.kit.database import Database
from moorage.kit.settings import Settings
from moorage.kit.stalls.watchdog import Stalls, StallWatchdog
from tests.ports import free_port


@dataclass
class ServedApi:
    url: str
    loop: asyncio.AbstractEventLoop
    watchdog: StallWatchdog

    async def stalls(self) -> Stalls:
        """Since they were asked for last."""
        await asyncio.sleep(0.06)  # the watchdog's next word may be about the last request

        async def taken() -> Stalls:
            return self.watchdog.take()

        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(taken(), self.loop))


@asynccontextmanager
async def served_api(settings: Settings, dsn: str) -> AsyncIterator[ServedApi]:
    port, made = free_port(), asyncio.get_running_loop().create_future()
    here = asyncio.get_running_loop()

    async def serve() -> None:
        database = Database(dsn, pool_size=10)
        config = uvicorn.Config(
            create_app(settings, database, KEYRING), host="127.0.0.1", port=port, log_level="warning"
        )
        server = uvicorn.Server(config)
        server.install_signal_handlers = lambda: None  # type: ignore[method-assign]
        watchdog = StallWatchdog()
        with watchdog.watching():
            serving = asyncio.ensure_future(server.serve())
            while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
                await asyncio.sleep(0.02)
            served = ServedApi(f"http://127.0.0.1:{port}", asyncio.get_running_loop(), watchdog)
            here.call_soon_threadsafe(made.set_result, (served, server))
            await serving

    thread = threading.Thread(target=lambda: uvloop.run(serve()))
    thread.start()
    async with asyncio.timeout(30):
        served, server = await made
    collecting = Collecting()  # As every role does; this process holds far more than a role.
    collecting.begin()
    try:
        yield served
    finally:
        collecting.end()
        gc.unfreeze()
        server.should_exit = True
        await asyncio.to_thread(thread.join, 30)
