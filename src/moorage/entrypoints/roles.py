"""The three roles: `api`, `controller`, `gateway`. Each is one process and may run in several copies."""

import asyncio
import importlib
import signal
from collections.abc import Awaitable, Coroutine

import structlog
import uvloop

from moorage.kit.clock import system_clock
from moorage.kit.collecting import Collecting
from moorage.kit.errors import SettingsError
from moorage.kit.postgres import database_dsn
from moorage.kit.settings import Settings
from moorage.kit.stalls.report import watch_loop
from moorage.kit.tracing import tracing

log = structlog.get_logger()

ROLES = ("api", "controller", "gateway")


def serve(settings: Settings, role: str) -> None:
    """Run one role until SIGTERM or SIGINT."""
    if role not in ROLES:
        raise SettingsError(f"There is no role {role!r}. The roles are {', '.join(ROLES)}.")
    # Imported here, because with all three loaded each would take twice as long to start.
    module = importlib.import_module(f"moorage.entrypoints.{role}_role")
    # A foreign key's other table must be known, whoever's it is.
    importlib.import_module("moorage.entrypoints.tables")
    Collecting().begin()
    with tracing(settings.otlp_endpoint, f"moorage-{role}"):
        uvloop.run(_until_stopped(_watched(settings, role, module.serve(settings))))


async def _watched(settings: Settings, role: str, work: Coroutine[None, None, None]) -> None:
    """With a watchdog over its loop."""
    watch = asyncio.create_task(watch_loop(role, database_dsn(settings), system_clock))
    try:
        await work
    finally:
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)


async def _until_stopped(work: Awaitable[None]) -> None:
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    for stop_signal in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(stop_signal, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        log.info("role_stopped")
