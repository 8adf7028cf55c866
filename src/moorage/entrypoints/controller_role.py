"""The role `controller`, wired."""

import os
import socket

from moorage.billing.cards.provider import card_provider
from moorage.containers.channels import CONTAINERS
from moorage.containers.reconciler.reconciler import ContainersReconciler
from moorage.entrypoints.engine import docker_engine
from moorage.entrypoints.reconcilers import Parts, make_reconcilers
from moorage.entrypoints.schema_repository import require_expected_schema
from moorage.kit.clock import system_clock
from moorage.kit.crypto import load_or_create_keyring
from moorage.kit.database import Database, Listener
from moorage.kit.errors import SettingsError
from moorage.kit.installation import ensure_installation_id
from moorage.kit.lasting import run_for_good
from moorage.kit.postgres import database_dsn
from moorage.kit.settings import Settings
from moorage.outbound.pulls.proxy import PullProxy
from moorage.reconcile.driver import Driver


async def serve(settings: Settings) -> None:
    dsn = database_dsn(settings)
    database = Database(dsn, pool_size=settings.database_pool_size)
    listener = Listener(dsn)
    async with database.transaction() as session:
        await require_expected_schema(session)
        installation_id = await ensure_installation_id(session)
    if settings.docker_host is None:
        raise SettingsError(
            "The controller needs MOORAGE_DOCKER_HOST; `moor up` finds or starts an engine by itself."
        )
    pulls = PullProxy(
        system_clock,
        allowed_registries=settings.allowed_registries,
        max_image_bytes=settings.max_image_bytes,
        pulls_per_organization=settings.pulls_per_organization,
    )
    engine = docker_engine(settings, settings.docker_host, installation_id, pulls)
    await engine.check_runtime()
    keyring = load_or_create_keyring(settings.key_file)
    holder = f"{socket.gethostname()}:{os.getpid()}"
    cards = card_provider(settings)
    reconcilers = make_reconcilers(Parts(database, engine, keyring, cards, settings, system_clock))
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
            # Should one of them end after all, so does the process: it is started again, and everything with it.
            await run_for_good(
                {"listener": listener.run(), **{name: driver.run() for name, driver in drivers.items()}}
            )
    finally:
        await containers.close()
        if cards is not None:
            await cards.close()
        await engine.close()
        await database.close()
