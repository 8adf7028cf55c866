"""The role `controller`, wired."""

import os
import socket

from moorage.autoscaling.reconciler import Autoscaler
from moorage.billing.alerts.reconciler import AlertsReconciler
from moorage.billing.auto_top_ups.reconciler import AutoTopUpsReconciler
from moorage.billing.cards.provider import CardProvider, card_provider
from moorage.billing.cards.reconciler import CardPaymentsReconciler
from moorage.billing.invoices.issuer import DocumentIssuer
from moorage.billing.ledger_check import LedgerCheck
from moorage.billing.renewals.reconciler import RenewalsReconciler
from moorage.containers.channels import CONTAINERS
from moorage.containers.doctor.reconciler import Doctor
from moorage.containers.reconciler.reconciler import ContainersReconciler
from moorage.engines.base import Engine
from moorage.entrypoints.engine import docker_engine
from moorage.entrypoints.housekeeping import Housekeeping
from moorage.kit.clock import Clock, system_clock
from moorage.kit.crypto import Keyring, load_or_create_keyring
from moorage.kit.database import Database, Listener
from moorage.kit.errors import SettingsError
from moorage.kit.installation import ensure_installation_id
from moorage.kit.lasting import run_for_good
from moorage.kit.postgres import database_dsn
from moorage.kit.settings import Settings
from moorage.notifications.delivery import MailDelivery
from moorage.outbound.pulls.proxy import PullProxy
from moorage.reconcile.driver import Driver, Reconciler
from moorage.telemetry.capsules.writer import CapsuleWriter
from moorage.telemetry.logs.collector import LogCollector
from moorage.telemetry.metrics.keeper import MetricsKeeper
from moorage.webhooks.delivery import WebhookDelivery


async def serve(settings: Settings) -> None:
    dsn = database_dsn(settings)
    database = Database(dsn, pool_size=settings.database_pool_size)
    listener = Listener(dsn)
    async with database.transaction() as session:
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
    containers = ContainersReconciler(database, engine, keyring, settings, system_clock)
    holder = f"{socket.gethostname()}:{os.getpid()}"
    cards = card_provider(settings)
    others = other_reconcilers(database, engine, keyring, cards, settings, system_clock)
    drivers = [
        Driver(reconciler, database, listener, holder, system_clock) for reconciler in (containers, *others)
    ]
    containers.ask = drivers[0].ask
    listener.hear(CONTAINERS, drivers[0].ask)
    try:
        async with pulls:
            # Should one of them end after all, so does the process: it is started again, and everything with it.
            await run_for_good(
                {"listener": listener.run(), **{driver.reconciler.name: driver.run() for driver in drivers}}
            )
    finally:
        await containers.close()
        if cards is not None:
            await cards.close()
        await engine.close()
        await database.close()


def other_reconcilers(
    database: Database,
    engine: Engine,
    keyring: Keyring,
    cards: CardProvider | None,
    settings: Settings,
    clock: Clock,
) -> tuple[Reconciler, ...]:
    return (
        LogCollector(database, engine, keyring, settings, clock),
        RenewalsReconciler(database, keyring, settings, clock),
        AlertsReconciler(database, keyring, settings, clock),
        AutoTopUpsReconciler(database, keyring, cards, settings, clock),
        CardPaymentsReconciler(database, keyring, cards, settings, clock),
        LedgerCheck(database, clock),
        DocumentIssuer(database, settings, clock),
        MailDelivery(database, keyring, settings, clock),
        WebhookDelivery(database, keyring, settings, clock),
        MetricsKeeper(database, engine, clock),
        Doctor(database, engine, settings),
        CapsuleWriter(database, clock),
        Autoscaler(database, clock),
        Housekeeping(database, settings, clock),
    )
