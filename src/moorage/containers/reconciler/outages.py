"""Time that nobody pays for: a slot whose GPU broke has the rest of its hour when it serves again."""

from datetime import timedelta

from sqlalchemy.ext.asyncio import AsyncSession

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
    slot_of = {row.id: row.slot for row in loaded.replicas}
    states = {row.id: ReplicaState(row.state) for row in loaded.replicas}
    states |= {str(move.replica_id): move.to for move in plan.transitions}
    serving = {slot_of[one] for one, state in states.items() if state in SERVING and one in slot_of}
    broke = {
        slot_of[move.replica_id]
        for move in plan.transitions
        if move.verdict is not None and move.verdict.reason in OURS
    }
    back = {
        slot_of[move.replica_id]
        for move in plan.transitions
        if move.to is ReplicaState.READY and move.replica_id not in funded.kept_back
    }
    if broke - serving:
        await pause_hours(session, loaded.container.id, sorted(broke - serving))
    if back:
        lead: timedelta = renewal_lead(settings.billing_hour_s, settings.drain_timeout_s)
        await resume_hours(session, loaded.container.id, sorted(back), lead)
