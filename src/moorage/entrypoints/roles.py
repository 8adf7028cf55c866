"""The three roles, wired: `api`, `controller`, `gateway`. Each is one process and may run in several copies."""

import asyncio
import gc
import os
import signal
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import urlsplit

import structlog
import uvicorn
import uvloop

from moorage.autoscaling.reconciler import Autoscaler
from moorage.billing.alerts.reconciler import AlertsReconciler
from moorage.billing.auto_top_ups.reconciler import AutoTopUpsReconciler
from moorage.billing.invoices.issuer import DocumentIssuer
from moorage.billing.ledger_check import LedgerCheck
from moorage.billing.renewals.reconciler import RenewalsReconciler
from moorage.containers.channels import CONTAINERS
from moorage.containers.doctor.reconciler import Doctor
from moorage.containers.reconciler.reconciler import ContainersReconciler
from moorage.engines.docker.engine import DockerEngine
from moorage.entrypoints.api import create_app
from moorage.entrypoints.housekeeping import Housekeeping
from moorage.gateway.agent import GatewayAgent, stable_gateway_id
from moorage.gateway.config import GatewayConfig
from moorage.gateway.dataplane import DataPlane
from moorage.gateway.request_reader import RequestReader
from moorage.gateway.samples import SampleReporter
from moorage.kit.clock import system_clock
from moorage.kit.crypto import load_or_create_keyring
from moorage.kit.database import Database, Listener
from moorage.kit.errors import SettingsError
from moorage.kit.home import SERVICE_USER, give_to_service_user, service_user
from moorage.kit.installation import ensure_installation_id
from moorage.kit.postgres import database_dsn
from moorage.kit.settings import Settings
from moorage.kit.tracing import tracing
from moorage.notifications.delivery import MailDelivery
from moorage.reconcile.driver import Driver
from moorage.telemetry.capsules.writer import CapsuleWriter
from moorage.telemetry.logs.collector import LogCollector
from moorage.telemetry.metrics.keeper import MetricsKeeper
from moorage.webhooks.delivery import WebhookDelivery

log = structlog.get_logger()


def serve(settings: Settings, role: str) -> None:
    """Run one role until SIGTERM or SIGINT."""
    roles: dict[str, Callable[[Settings], Awaitable[None]]] = {
        "api": serve_api,
        "controller": serve_controller,
        "gateway": serve_gateway,
    }
    if role not in roles:
        raise SettingsError(f"There is no role {role!r}. The roles are {', '.join(roles)}.")
    # What the imports made stays for good: a collection that looks through all of it holds up everything else.
    gc.freeze()
    with tracing(settings.otlp_endpoint, f"moorage-{role}"):
        uvloop.run(_until_stopped(roles[role](settings)))


async def serve_api(settings: Settings) -> None:
    """On a Unix socket behind HAProxy, which holds the public address also while this process restarts."""
    dsn = database_dsn(settings)
    app = create_app(
        settings,
        Database(dsn, pool_size=settings.database_pool_size),
        load_or_create_keyring(settings.key_file),
    )
    path = api_socket_path(settings)
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(path))
        # HAProxy's unprivileged workers connect to it, and nobody else.
        path.chmod(0o600)
        give_to_service_user(path)
        listening.listen(1024)
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=5,
            proxy_headers=True,
            forwarded_allow_ips="*",
        )
        await uvicorn.Server(config).serve(sockets=[listening])


async def serve_controller(settings: Settings) -> None:
    dsn = database_dsn(settings)
    database = Database(dsn, pool_size=settings.database_pool_size)
    listener = Listener(dsn)
    async with database.transaction() as session:
        installation_id = await ensure_installation_id(session)
    if settings.docker_host is None:
        raise SettingsError(
            "The controller needs MOORAGE_DOCKER_HOST; `moor up` finds or starts an engine by itself."
        )
    engine = DockerEngine(
        settings.docker_host, installation_id, system_clock, runtime=settings.container_runtime
    )
    await engine.check_runtime()
    keyring = load_or_create_keyring(settings.key_file)
    containers = ContainersReconciler(database, engine, keyring, settings, system_clock)
    renewals = RenewalsReconciler(database, keyring, settings, system_clock)
    logs = LogCollector(database, engine, keyring, settings, system_clock)
    holder = f"{socket.gethostname()}:{os.getpid()}"
    drivers = [
        Driver(reconciler, database, listener, holder, system_clock)
        for reconciler in (
            containers,
            logs,
            renewals,
            AlertsReconciler(database, keyring, settings, system_clock),
            AutoTopUpsReconciler(database, keyring, settings, system_clock),
            LedgerCheck(database, system_clock),
            DocumentIssuer(database, settings, system_clock),
            MailDelivery(database, keyring, settings, system_clock),
            WebhookDelivery(database, keyring, settings, system_clock),
            MetricsKeeper(database, engine, system_clock),
            Doctor(database, engine, settings),
            CapsuleWriter(database, system_clock),
            Autoscaler(database, system_clock),
            Housekeeping(database, settings, system_clock),
        )
    ]
    containers.ask = drivers[0].ask
    listener.hear(CONTAINERS, drivers[0].ask)
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(listener.run())
            for driver in drivers:
                group.create_task(driver.run())
    finally:
        await containers.close()
        await engine.close()
        await database.close()


async def serve_gateway(settings: Settings) -> None:
    dsn = database_dsn(settings)
    database = Database(dsn, pool_size=2)
    listener = Listener(dsn)
    dataplane = create_dataplane(settings)
    gateway_id = stable_gateway_id(settings.home)
    agent = GatewayAgent(gateway_id, database, listener, dataplane, system_clock)
    samples = SampleReporter(gateway_id, database, dataplane, system_clock)
    requests = RequestReader(
        gateway_id,
        database,
        request_log_path(settings),
        system_clock,
        settings.request_records_per_s,
        service_user(),
    )
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(listener.run())
            group.create_task(requests.run())
            group.create_task(samples.run())
            group.create_task(agent.run())
    finally:
        await database.close()


def create_dataplane(settings: Settings) -> DataPlane:
    config = GatewayConfig(
        endpoint_listen=settings.gateway_listen,
        state_dir=settings.home / "gateway/current",
        stats_socket=settings.run_dir / "haproxy.sock",
        management_listen=settings.api_listen,
        api_socket=api_socket_path(settings),
        console_origin="{0.scheme}://{0.netloc}".format(urlsplit(settings.api_base_url)),
        apps_domain=settings.apps_domain.partition(":")[0] if settings.apps_domain else None,
        endpoint_certificate=settings.gateway_certificate,
        management_certificate=settings.api_certificate,
        request_log_socket=request_log_path(settings),
        key_requests_per_s=settings.key_requests_per_s,
        organization_requests_per_s=settings.organization_requests_per_s,
        user=service_user(),
        group=SERVICE_USER if service_user() else None,
    )
    return DataPlane(config, settings.home, settings.run_dir, initial_slots=settings.gateway_slots)


def api_socket_path(settings: Settings) -> Path:
    return settings.run_dir / "api.sock"


def request_log_path(settings: Settings) -> Path:
    return settings.run_dir / "requests.sock"


async def _until_stopped(work: Awaitable[None]) -> None:
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    for stop_signal in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(stop_signal, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        log.info("role_stopped")
