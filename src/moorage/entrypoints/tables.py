"""Every table of Moorage, gathered: importing a module of models registers its tables."""

from moorage.autoscaling import models as autoscaling
from moorage.billing.auto_top_ups import models as auto_top_ups
from moorage.billing.cards import models as cards
from moorage.billing.earnings import models as earnings
from moorage.billing.invoices import models as invoices
from moorage.billing.payouts import models as payouts
from moorage.billing.top_ups import models as top_ups
from moorage.catalog import models as catalog
from moorage.containers import models as containers
from moorage.containers.doctor import models as doctor
from moorage.containers.replica_limits import models as replica_limits
from moorage.containers.start_times import models as start_times
from moorage.identity.api_keys import models as api_keys
from moorage.identity.device import models as device
from moorage.identity.providers import models as providers
from moorage.identity.sessions import models as sessions
from moorage.identity.sign_in import models as sign_in
from moorage.identity.users import models as users
from moorage.kit import idempotency, installation
from moorage.kit.database import Base
from moorage.kit.stalls import models as stalls
from moorage.ledger import models as ledger
from moorage.machines import models as machines
from moorage.notifications import models as notifications
from moorage.organizations import models as organizations
from moorage.organizations.audit import models as audit
from moorage.organizations.invitations import models as invitations
from moorage.reconcile import models as reconcile
from moorage.telemetry import models as telemetry
from moorage.webhooks import models as webhooks

metadata = Base.metadata

__all__ = [
    "api_keys",
    "audit",
    "auto_top_ups",
    "autoscaling",
    "cards",
    "catalog",
    "containers",
    "device",
    "doctor",
    "earnings",
    "idempotency",
    "installation",
    "invitations",
    "invoices",
    "ledger",
    "machines",
    "metadata",
    "notifications",
    "organizations",
    "payouts",
    "providers",
    "reconcile",
    "replica_limits",
    "sessions",
    "sign_in",
    "stalls",
    "start_times",
    "telemetry",
    "top_ups",
    "users",
    "webhooks",
]
