"""The role `controller`, wired."""

import os
import socket
from functools import partial

from moorage.billing.cards.provider import card_provider
from moorage.containers.channels import CONTAINERS
from moorage.containers.reconciler.reconciler import ContainersReconciler
from moorage.entrypoints.engine import engines_from
from moorage.entrypoints.fleet import Fleet
from moorage.entrypoints.reconcilers import Parts, make_reconcilers
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
        installation_id = await ensure_installation_id(session)
        await keep_same_keys(session, keyring)
    pulls = PullProxy(
        system_clock,
        allowed_registries=settings.allowed_registries,
        max_image_bytes=settings.max_image_bytes,
        pulls_per_organization=settings.pulls_per_organization,
    )
    engines = await engines_from(settings, installation_id, pulls)
    close_other_ways = partial(ensure_dead_ends, (settings.tunnel_network,))
    fleet = Fleet(database, listener, engines, keyring, pulls, system_clock, close_other_ways)
    holder = f"{socket.gethostname()}:{os.getpid()}"
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
        async with pulls:
            if settings.kubernetes is not None and settings.kubernetes_pull_listen is not None:
                host, _, port = settings.kubernetes_pull_listen.rpartition(":")
                await pulls.open_door(host, int(port))
            # Before anybody looks for the engine of a replica there.
            await fleet.look()
            # Should one of them end after all, so does the process: it is started again, and everything with it.
            await run_for_good(
                {
                    "listener": listener.run(),
                    "fleet": fleet.run(),
                    "door": Door(database, pulls).run(),
                    **{name: driver.run() for name, driver in drivers.items()},
                }
            )
    finally:
        await containers.close()
        if cards is not None:
            await cards.close()
        await engines.close()
        await database.close()
