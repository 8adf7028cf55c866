"""What a pass writes about replicas that are missing, and about those that came back."""

from collections.abc import Collection, Sequence
from datetime import timedelta

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.containers.models import ReplicaRow
from moorage.containers.reconciler import doubt_repository
from moorage.containers.reconciler.funding import Funding
from moorage.containers.reconciler.loading_repository import Loaded
from moorage.containers.states import SERVING
from moorage.kit.settings import Settings
from moorage.ledger import hours_repository
from moorage.ledger.rules import renewal_lead


async def record_presence(
    session: AsyncSession, loaded: Loaded, *, missing: Collection[str], there: Collection[str]
) -> list[ReplicaRow]:
    """No hour is renewed for what is missing. Those that came back."""
    newly_missing = [row for row in loaded.replicas if row.id in missing and row.missing_since is None]
    back = [row for row in loaded.replicas if row.missing_since is not None and row.id in there]
    if newly_missing:
        await doubt_repository.mark_missing(session, [row.id for row in newly_missing])
    if back:
        await doubt_repository.mark_back(session, [row.id for row in back])
    return back


async def pay_for_returned(
    session: AsyncSession, loaded: Loaded, funding: Funding, settings: Settings, back: Sequence[ReplicaRow]
) -> None:
    """What comes back after its hour has ended needs one at once; where that cannot be paid it drains, like any other."""
    slots = sorted({row.slot for row in back if row.state in SERVING})
    paid = await funding.admit(session, loaded, slots)
    if paid:
        hour = timedelta(seconds=settings.billing_hour_s)
        lead = renewal_lead(settings.billing_hour_s, settings.drain_timeout_s)
        await hours_repository.capture(session, loaded.container.id, paid, hour, lead)
    unpaid = [row.id for row in back if row.slot in slots and row.slot not in paid]
    if unpaid:
        await doubt_repository.mark_unfunded(session, unpaid)
