"""Time that nobody pays for: a slot whose GPU broke has the rest of its hour when it serves again."""

from collections.abc import Collection

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.containers.paying import has_to_be_paid
from moorage.containers.reconciler.funding import Funded
from moorage.containers.reconciler.loading_repository import Loaded
from moorage.containers.states import SERVING, Reason, ReplicaState
from moorage.containers.views import Plan
from moorage.kit.settings import Settings
from moorage.ledger.pauses_repository import pause_hours, resume_hours
from moorage.ledger.rules import renewal_lead

OURS = (Reason.GPU_LOST,)
"""Ends that are the machine's fault, and during which the container had no other machine to be on."""


async def record_outages(
    session: AsyncSession, loaded: Loaded, plan: Plan, funded: Funded, settings: Settings
) -> None:
    states = {row.id: ReplicaState(row.state) for row in loaded.replicas}
    states |= {str(move.replica_id): move.to for move in plan.transitions}
    serving = {(row.instance_type, row.slot) for row in loaded.replicas if states[row.id] in SERVING}
    lost = {
        move.replica_id
        for move in plan.transitions
        if move.verdict is not None and move.verdict.reason in OURS
    }
    broke = {(row.instance_type, row.slot) for row in loaded.replicas if row.id in lost}
    for instance_type, slots in _by_type(broke - serving):
        await pause_hours(session, loaded.container.id, instance_type, slots)
    if not any(hour.is_paused for hour in loaded.hours):
        return
    # Also where nothing becomes ready in this pass: what is left of another slot's hour may have gone to one that serves.
    back = {
        (row.instance_type, row.slot)
        for row in loaded.replicas
        if row.id not in funded.kept_back and has_to_be_paid(row, row.instance_type, states[row.id])
    }
    lead = renewal_lead(settings.billing_hour_s, settings.drain_timeout_s)
    for instance_type, slots in _by_type(back):
        await resume_hours(session, loaded.container.id, instance_type, slots, lead)


def _by_type(places: Collection[tuple[str, int]]) -> list[tuple[str, list[int]]]:
    """Slots by instance type: while an edit is deployed, replicas of two serve, each with hours of its own."""
    types = sorted({instance_type for instance_type, _ in places})
    return [(one, sorted(slot for instance_type, slot in places if instance_type == one)) for one in types]
