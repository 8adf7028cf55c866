"""The one list of reconcilers: the controller runs them, and health misses the one that does not.

By name, because whoever only asks which there are (the API) must not load their code: it would take twice as long to start.
"""

from dataclasses import dataclass, fields
from importlib import import_module
from typing import Any

from moorage.billing.cards.provider import CardProvider
from moorage.engines.engines import Engines
from moorage.kit.clock import Clock
from moorage.kit.crypto import Keyring
from moorage.kit.database import Database
from moorage.kit.settings import Settings
from moorage.reconcile.driver import Reconciler

RECONCILERS = {
    "alerts": "moorage.billing.alerts.reconciler:AlertsReconciler",
    "autoscaling": "moorage.autoscaling.reconciler:Autoscaler",
    "capsules": "moorage.telemetry.capsules.writer:CapsuleWriter",
    "card-payments": "moorage.billing.cards.reconciler:CardPaymentsReconciler",
    "containers": "moorage.containers.reconciler.reconciler:ContainersReconciler",
    "doctor": "moorage.containers.doctor.reconciler:Doctor",
    "documents": "moorage.billing.invoices.issuer:DocumentIssuer",
    "earnings": "moorage.billing.earnings.reconciler:EarningsReconciler",
    "housekeeping": "moorage.entrypoints.housekeeping:Housekeeping",
    "ledger": "moorage.billing.ledger_check:LedgerCheck",
    "logs": "moorage.telemetry.logs.collector:LogCollector",
    "machines": "moorage.machines.reconciler:MachinesReconciler",
    "mail": "moorage.notifications.delivery:MailDelivery",
    "metrics": "moorage.telemetry.metrics.keeper:MetricsKeeper",
    "proofs": "moorage.entrypoints.proving:ProofsReconciler",
    "renewals": "moorage.billing.renewals.reconciler:RenewalsReconciler",
    "sleep": "moorage.autoscaling.sleep.reconciler:SleepReconciler",
    "top-ups": "moorage.billing.auto_top_ups.reconciler:AutoTopUpsReconciler",
    "webhooks": "moorage.webhooks.delivery:WebhookDelivery",
}


@dataclass(frozen=True)
class Parts:
    """What reconcilers are made of. Each takes those that it names as its fields."""

    database: Database
    engines: Engines
    keyring: Keyring
    provider: CardProvider | None
    settings: Settings
    clock: Clock


def make_reconcilers(parts: Parts) -> dict[str, Reconciler]:
    return {name: _make(path, parts) for name, path in RECONCILERS.items()}


def _make(path: str, parts: Parts) -> Reconciler:
    module, _, name = path.partition(":")
    kind: Any = getattr(import_module(module), name)
    named = {one.name for one in fields(kind) if one.init} & {one.name for one in fields(Parts)}
    made: Reconciler = kind(**{name: getattr(parts, name) for name in named})
    return made
