"""The role `gateway`, wired."""

import asyncio
import resource
from functools import partial
from urllib.parse import urlsplit

import structlog

from moorage.entrypoints.copies_repository import has_reported
from moorage.entrypoints.schema_repository import tell_of_other_schema
from moorage.entrypoints.sockets import (
    api_socket_path,
    holder_path,
    in_step_path,
    released_path,
    request_log_path,
)
from moorage.gateway.acme.account import load_or_create_account_key, thumbprint
from moorage.gateway.acme.keeper import CertificateKeeper, begin_with_some_certificate
from moorage.gateway.agent import GatewayAgent, stable_gateway_id
from moorage.gateway.config import AcmeAnswers, GatewayConfig
from moorage.gateway.connection_shares import DESCRIPTORS_MAX, share_connections
from moorage.gateway.dataplane import Applied, DataPlane
from moorage.gateway.holding.holder import Holder
from moorage.gateway.holding.limits import HoldLimits
from moorage.gateway.holding.records import HeldRecords
from moorage.gateway.holding.waking import Waker
from moorage.gateway.limit_shares import LimitShares
from moorage.gateway.request_reader import RequestReader
from moorage.gateway.samples import SampleReporter
from moorage.gateway.table import GatewayTable
from moorage.gateway.version_figures import VersionFigures
from moorage.kit.clock import system_clock
from moorage.kit.database import Database, Listener
from moorage.kit.home import SERVICE_USER, service_user
from moorage.kit.ids import GatewayId
from moorage.kit.lasting import look_for_good, run_for_good
from moorage.kit.log_files import keep_log_files
from moorage.kit.postgres import database_dsn
from moorage.kit.settings import Settings
from moorage.machines.hub import TunnelHub

log = structlog.get_logger()

_SCHEMA_EVERY_S = 60.0
_IN_STEP_EVERY_S = 0.5


async def serve(settings: Settings) -> None:
    dsn = database_dsn(settings)
    database = Database(dsn, pool_size=2)
    listener = Listener(dsn)
    if settings.certified_names:
        begin_with_some_certificate(settings, system_clock.now())
    dataplane = create_dataplane(settings)
    gateway_id = stable_gateway_id(settings.home)
    holder = create_holder(settings, gateway_id, database)
    shares = LimitShares(gateway_id, database, listener, dataplane, system_clock)

    def applied(table: GatewayTable, what: Applied) -> None:
        holder.applied(table, what)
        shares.applied(table, what)

    agent = GatewayAgent(gateway_id, database, listener, dataplane, system_clock, applied, shares.join)
    samples = SampleReporter(gateway_id, database, dataplane, system_clock)
    figures = VersionFigures(gateway_id, database, dataplane, system_clock)
    requests = RequestReader(
        gateway_id,
        database,
        request_log_path(settings),
        system_clock,
        settings.request_records_per_s,
        service_user(),
        also=figures.note,
    )
    hub = TunnelHub(gateway_id, database, listener, settings, system_clock)
    certified = (
        {"certificate": CertificateKeeper(settings, system_clock).run()} if settings.certified_names else {}
    )
    try:
        await hub.close_other_ways()
        await run_for_good(
            {
                **certified,
                "listener": listener.run(),
                "tunnel": hub.run(),
                "requests": requests.run(),
                "holder": holder.run(),
                "samples": samples.run(),
                "version figures": figures.run(),
                "agent": agent.run(),
                "limit shares": shares.run(),
                "schema": look_for_good(
                    "schema", partial(tell_of_other_schema, database), _SCHEMA_EVERY_S, asyncio.Event()
                ),
                "in step": _tell_when_in_step(settings, database, gateway_id),
                # Those of `moor up` too, where there is one; without it HAProxy's would have no end.
                "log files": keep_log_files(settings.log_dir, settings.log_file_bytes, system_clock),
            }
        )
    finally:
        await database.close()


async def _tell_when_in_step(settings: Settings, database: Database, gateway_id: GatewayId) -> None:
    """Once HAProxy serves what the rows say, it is worth being asked, and stays so without us."""
    marker = in_step_path(settings)
    while not await asyncio.to_thread(marker.exists):
        try:
            async with database.reading() as session:
                if await has_reported(session, gateway_id):
                    await asyncio.to_thread(marker.touch)
        except Exception as exc:  # noqa: BLE001 - the database may be away; it is asked again
            log.warning("not_in_step_yet", error=repr(exc))
        await system_clock.sleep(_IN_STEP_EVERY_S)
    await asyncio.Event().wait()


def _acme(settings: Settings) -> AcmeAnswers | None:
    if not settings.certified_names:
        return None
    key = load_or_create_account_key(settings.acme_dir)
    origins = {}
    for url in (settings.gateway_base_url, settings.api_base_url):
        parts = urlsplit(url)
        if parts.scheme == "https":
            name = str(parts.hostname)
            origins[f"[{name}]" if ":" in name else name] = f"https://{parts.netloc}"
    return AcmeAnswers(settings.acme_listen, thumbprint(key), tuple(origins.items()))


def create_holder(settings: Settings, gateway_id: GatewayId, database: Database) -> Holder:
    limits = HoldLimits(
        per_container=settings.hold_requests_per_container,
        at_once=settings.hold_requests,
        bytes_at_once=settings.hold_bytes,
        timeout_s=settings.hold_timeout_s,
    )
    return Holder(
        holder_path(settings),
        released_path(settings),
        Waker(database, settings, system_clock),
        HeldRecords(gateway_id, database, system_clock),
        limits,
        system_clock,
        service_user(),
    )


def create_dataplane(settings: Settings) -> DataPlane:
    _, descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)
    shares = share_connections(
        DESCRIPTORS_MAX if descriptors == resource.RLIM_INFINITY else descriptors, settings.api_connections
    )
    config = GatewayConfig(
        endpoint_listen=settings.gateway_listen,
        state_dir=settings.home / "gateway/current",
        stats_socket=settings.run_dir / "haproxy.sock",
        management_listen=settings.api_listen,
        api_socket=api_socket_path(settings),
        api_upstreams=settings.api_upstreams,
        nameserver=settings.gateway_nameserver,
        console_origin="{0.scheme}://{0.netloc}".format(urlsplit(settings.api_base_url)),
        apps_domain=settings.apps_domain.partition(":")[0] if settings.apps_domain else None,
        endpoint_certificate=settings.served_gateway_certificate,
        management_certificate=settings.served_api_certificate,
        acme=_acme(settings),
        request_log_socket=request_log_path(settings),
        holder_socket=holder_path(settings),
        released_socket=released_path(settings),
        hold_timeout_s=settings.hold_timeout_s,
        key_requests_per_s=settings.key_requests_per_s,
        organization_requests_per_s=settings.organization_requests_per_s,
        endpoint_connections=shares.endpoints,
        management_connections=shares.management,
        endpoint_connections_per_source=settings.gateway_connections_per_source or None,
        management_connections_per_source=settings.api_connections_per_source or None,
        management_requests_per_s_per_source=(
            settings.api_requests_per_s_per_source if settings.limit_by_source else None
        ),
        management_requests_at_once_per_source=(
            settings.api_requests_at_once_per_source if settings.limit_by_source else None
        ),
        user=service_user(),
        group=SERVICE_USER if service_user() else None,
    )
    return DataPlane(config, settings.home, settings.run_dir, initial_slots=settings.gateway_slots)
