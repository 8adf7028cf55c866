"""The role `gateway`, wired."""

import asyncio
import resource
from functools import partial
from urllib.parse import urlsplit

from moorage.entrypoints.schema_repository import tell_of_other_schema
from moorage.entrypoints.sockets import api_socket_path, request_log_path
from moorage.gateway.agent import GatewayAgent, stable_gateway_id
from moorage.gateway.config import GatewayConfig
from moorage.gateway.connection_shares import DESCRIPTORS_MAX, share_connections
from moorage.gateway.dataplane import DataPlane
from moorage.gateway.request_reader import RequestReader
from moorage.gateway.samples import SampleReporter
from moorage.kit.clock import system_clock
from moorage.kit.database import Database, Listener
from moorage.kit.home import SERVICE_USER, service_user
from moorage.kit.lasting import look_for_good, run_for_good
from moorage.kit.log_files import keep_log_files
from moorage.kit.postgres import database_dsn
from moorage.kit.settings import Settings
from moorage.machines.hub import TunnelHub

_SCHEMA_EVERY_S = 60.0


async def serve(settings: Settings) -> None:
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
    hub = TunnelHub(gateway_id, database, listener, settings, system_clock)
    try:
        await hub.close_other_ways()
        await run_for_good(
            {
                "listener": listener.run(),
                "tunnel": hub.run(),
                "requests": requests.run(),
                "samples": samples.run(),
                "agent": agent.run(),
                "schema": look_for_good(
                    "schema", partial(tell_of_other_schema, database), _SCHEMA_EVERY_S, asyncio.Event()
                ),
                # Those of `moor up` too, where there is one; without it HAProxy's would have no end.
                "log files": keep_log_files(settings.log_dir, settings.log_file_bytes, system_clock),
            }
        )
    finally:
        await database.close()


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
        endpoint_certificate=settings.gateway_certificate,
        management_certificate=settings.api_certificate,
        request_log_socket=request_log_path(settings),
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
