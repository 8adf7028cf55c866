"""The role `controller`, wired."""

import asyncio
import os
import socket

from moorage.autoscaling.reconciler import Autoscaler
from moorage.billing.alerts.reconciler import AlertsReconciler
from moorage.billing.auto_top_ups.reconciler import AutoTopUpsReconciler
from moorage.billing.cards.reconciler import CardPaymentsReconciler
from moorage.billing.invoices.issuer import DocumentIssuer
from moorage.billing.ledger_check import LedgerCheck
from moorage.billing.renewals.reconciler import RenewalsReconciler
from moorage.containers.channels import CONTAINERS
from moorage.containers.doctor.reconciler import Doctor
from moorage.containers.reconciler.reconciler import ContainersReconciler
from moorage.engines.docker.engine import DockerEngine
from moorage.entrypoints.housekeeping import Housekeeping
from moorage.kit.clock import system_clock
from moorage.kit.crypto import load_or_create_keyring
from moorage.kit.database import Database, Listener
from moorage.kit.errors import SettingsError
from moorage.kit.installation import ensure_installation_id
from moorage.kit.postgres import database_dsn
from moorage.kit.settings import Settings
from moorage.notifications.delivery import MailDelivery
from moorage.reconcile.driver import Driver
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
    engine = DockerEngine(
        settings.docker_host, installation_id, system_clock, runtime=settings.container_runtime
    )
    await engine.check_runtime()
    keyring = load_or_create_keyring(settings.key_file)
    containers = ContainersReconciler(database, engine, keyring, settings, system_clock)
    renewals = RenewalsReconciler(database, keyring, settings, system_clock)
    top_ups = AutoTopUpsReconciler(database, keyring, settings, system_clock)
    card_payments = CardPaymentsReconciler(database, keyring, settings)
    logs = LogCollector(database, engine, keyring, settings, system_clock)
    holder = f"{socket.gethostname()}:{os.getpid()}"
    drivers = [
        Driver(reconciler, database, listener, holder, system_clock)
        for reconciler in (
            containers,
            logs,
            renewals,
            AlertsReconciler(database, keyring, settings, system_clock),
            top_ups,
            card_payments,
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
        await top_ups.close()
        await card_payments.close()
        await engine.close()
        await database.close()
