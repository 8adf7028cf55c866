"""`moor-node`: what runs on a machine that joined."""

import asyncio
import hashlib
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

import structlog
import typer
from aiohttp import web

from moorage.engines.docker.connection import UNIX_PREFIX
from moorage.engines.docker.engine import DockerEngine
from moorage.engines.docker.firewall import LocalUse
from moorage.engines.hosts.host import HostReader
from moorage.kit.clock import system_clock
from moorage.kit.errors import MoorageError, SettingsError
from moorage.kit.home import user_ids_of_ours
from moorage.kit.logging import configure_logging
from moorage.machines.on_machine import commands
from moorage.node.relay import LOOPBACK, Relay
from moorage.node.server import NodeServer
from moorage.node.settings import DEFAULT_FILE, NodeSettings, load_node_settings
from moorage.outbound.pulls.proxy import PullProxy

log = structlog.get_logger()
app = typer.Typer(no_args_is_help=True, add_completion=False)
commands.register(app)

_SHUTDOWN_S = 5.0
_IP_FREEBIND = 15
"""Linux: an address need not be there to be listened on."""


@app.callback()
def about() -> None:
    """This machine's part of a Moorage installation."""


@app.command()
def serve(
    settings: Annotated[Path, typer.Option(help="The machine's settings file.")] = DEFAULT_FILE,
) -> None:
    """Run the installation's containers on this machine's Docker engine until stopped."""
    loaded = load_node_settings(settings)
    configure_logging(loaded.log_level, as_json=True)
    asyncio.run(_serve_until_told(loaded, settings))


def main() -> None:
    try:
        app()
    except MoorageError as exc:
        print(exc.message, file=sys.stderr)
        sys.exit(1)


def credential_digest(credential: str) -> str:
    """What a machine's settings hold of its credential."""
    return hashlib.sha256(credential.encode()).hexdigest()


@asynccontextmanager
async def serving(settings: NodeSettings, file: Path | None = None) -> AsyncIterator[None]:
    """With the file that the settings are from, what is said there later of the pull proxy holds as well."""
    async with AsyncExitStack() as stack:
        # Docker takes plain HTTP from loopback alone, so Moorage's pull proxy gets a port there. Of its own a machine has one
        # too, which looks at every layer once more and knows no registry but that one.
        relay = await stack.enter_async_context(Relay(partial(_pull_proxy, settings, file)))
        pulls_from = f"{LOOPBACK}:{relay.port}"
        pulls = await stack.enter_async_context(
            PullProxy(
                system_clock,
                allowed_registries=(pulls_from,),
                max_image_bytes=settings.max_image_bytes,
                pulls_per_organization=settings.pulls_per_organization,
            )
        )
        engine = _docker_engine(settings, pulls)
        stack.push_async_callback(engine.close)
        await engine.check_runtime()
        server = NodeServer(engine, settings.credential_sha256, system_clock, pulls_from)
        runner = web.AppRunner(
            server.application(), access_log=None, handler_cancellation=True, shutdown_timeout=_SHUTDOWN_S
        )
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        await web.SockSite(runner, _listening(settings.address, settings.port)).start()
        log.info("node_serves", address=settings.address, port=settings.port)
        yield


def _pull_proxy(begun_with: NodeSettings, file: Path | None) -> tuple[str, int]:
    settings = begun_with
    if file is not None:
        try:
            settings = load_node_settings(file)
        except SettingsError as exc:
            log.warning("settings_not_read", reason=exc.message)
    return settings.pulls_address, settings.pulls_port


def _listening(address: str, port: int) -> socket.socket:
    """On an address of the tunnel, which may open later, or close and open again."""
    listening = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.setsockopt(socket.SOL_IP, _IP_FREEBIND, 1)
    listening.bind((address, port))
    return listening


def _docker_engine(settings: NodeSettings, pulls: PullProxy) -> DockerEngine:
    return DockerEngine(
        settings.docker_host,
        settings.installation_id,
        system_clock,
        runtime=settings.container_runtime,
        local_use=LocalUse(settings.replica_ports, user_ids_of_ours()),
        isolation_required=settings.isolation == "required",
        pulls=pulls,
        host=HostReader(
            wanted=settings.gpu_handover,
            sandbox=None if settings.unsandboxed_gpus else settings.container_runtime,
            is_local=settings.docker_host.startswith(UNIX_PREFIX),
        ),
        published_on=settings.address,
        unsandboxed_gpus=settings.unsandboxed_gpus,
        mail_closed=settings.lent,
    )


async def _serve_until_told(settings: NodeSettings, file: Path) -> None:
    told = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, told.set)
    async with serving(settings, file):
        await told.wait()
