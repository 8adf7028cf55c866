"""The role `controller`, wired."""

import os
import socket
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

from moorage.billing.cards.provider import card_provider
from moorage.containers.channels import CONTAINERS
from moorage.containers.door_authorities import DoorAuthorities
from moorage.containers.reconciler.reconciler import ContainersReconciler
from moorage.engines.engines import Engines
from moorage.engines.kubernetes.account import IN_CLUSTER, account_from
from moorage.engines.kubernetes.connection import ApiServer
from moorage.entrypoints.engine import engines_from
from moorage.entrypoints.fleet import Fleet
from moorage.entrypoints.gateway_pods import GatewayPods
from moorage.entrypoints.pull_relay import PullRelay, holder_name
from moorage.entrypoints.reconcilers import Parts, make_reconcilers
from moorage.entrypoints.role_health import ControllerReadiness, answer_health
from moorage.entrypoints.schema_repository import wait_for_schema
from moorage.kit.clock import system_clock
from moorage.kit.database import Database, Listener
from moorage.kit.installation import ensure_installation_id
from moorage.kit.keys import keep_same_keys, keyring_of
from moorage.kit.lasting import run_for_good
from moorage.kit.postgres import database_dsn
from moorage.kit.settings import Settings
from moorage.machines.door import Door
from moorage.outbound.pulls.proxy import PullProxy
from moorage.reconcile.driver import Driver
from moorage.tunnel.dead_ends import ensure_dead_ends


async def serve(settings: Settings) -> None:
    dsn = database_dsn(settings)
    database = Database(dsn, pool_size=settings.database_pool_size)
    listener = Listener(dsn)
    keyring = keyring_of(settings)
    await wait_for_schema(database, settings.database_wait_s)
    async with database.transaction() as session:
        installation_id = await ensure_installation_id(session, settings.installation_id)
        await keep_same_keys(session, keyring)
    pulls = PullProxy(
        system_clock,
        allowed_registries=settings.allowed_registries,
        max_image_bytes=settings.max_image_bytes,
        pulls_per_organization=settings.pulls_per_organization,
    )
    doors = DoorAuthorities(database, keyring, installation_id, system_clock)
    if settings.kubernetes_door_image is not None:
        await doors.ensure()
    engines = await engines_from(settings, installation_id, pulls, doors)
    close_other_ways = partial(ensure_dead_ends, (settings.tunnel_network,))
    fleet = Fleet(database, listener, engines, keyring, settings, pulls, system_clock, close_other_ways)
    holder = holder_name(f"{socket.gethostname()}:{os.getpid()}", settings.kubernetes_pull_peer)
    cards = card_provider(settings)
    reconcilers = make_reconcilers(Parts(database, engines, keyring, cards, settings, system_clock))
    drivers = {
        name: Driver(reconciler, database, listener, holder, system_clock)
        for name, reconciler in reconcilers.items()
    }
    containers = reconcilers["containers"]
    assert isinstance(containers, ContainersReconciler), "the list says so"
    containers.ask = drivers["containers"].ask
    listener.hear(CONTAINERS, containers.ask)
    try:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(pulls)
            more = await _for_a_cluster(stack, settings, database, pulls, engines)
            # Before anybody looks for the engine of a replica there.
            await fleet.look()
            # Should one of them end after all, so does the process: it is started again, and everything with it.
            await run_for_good(
                {
                    "listener": listener.run(),
                    "fleet": fleet.run(),
                    "door": Door(database, pulls).run(),
                    "health": answer_health(
                        settings.health_listen, ControllerReadiness(database, keyring, engines).ready
                    ),
                    **more,
                    **{name: driver.run() for name, driver in drivers.items()},
                }
            )
    finally:
        await containers.close()
        if cards is not None:
            await cards.close()
        await engines.close()
        await database.close()


async def _for_a_cluster(
    stack: AsyncExitStack, settings: Settings, database: Database, pulls: PullProxy, engines: Engines
) -> dict[str, Coroutine[Any, Any, object]]:
    """What a cluster needs besides its engine, to be run for good."""
    if settings.kubernetes is None:
        return {}
    more: dict[str, Coroutine[Any, Any, object]] = {}
    if settings.kubernetes_pull_listen is not None:
        host, port = _address(settings.kubernetes_pull_listen)
        if settings.kubernetes_pull_peer is None:
            await pulls.open_door(host, port)
        else:
            own_host, own_port = _address(settings.kubernetes_pull_peer)
            await pulls.open_door(own_host, own_port)
            relay = await stack.enter_async_context(PullRelay(database, host, port))
            more["pull relay"] = relay.follow_leader()
    if settings.kubernetes == IN_CLUSTER and settings.kubernetes_account is not None:
        namespace = settings.kubernetes_account.partition("/")[0]
        api = ApiServer(account_from(settings.kubernetes), system_clock)
        stack.push_async_callback(api.close)
        more["gateway pods"] = GatewayPods(database, api, namespace).run()
    return more


def _address(listen: str) -> tuple[str, int]:
    host, _, port = listen.rpartition(":")
    return host.strip("[]"), int(port)
