"""What a pass does about money: an hour for every replica that it starts, bought when the replica is ready.

A pass is the only one that gives back its container's holds, but for those of another instance type, which an
admission replaces. What it read about hours when it began can therefore be counted on: a hold of the container's
type that was there still is, and only more may have come.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.containers.reconciler.loading_repository import Loaded
from moorage.containers.states import LIVE, ReplicaState
from moorage.containers.verdict import Verdict
from moorage.containers.views import NO_CREDIT, OVER_LIMIT, Plan
from moorage.kit.settings import Settings
from moorage.ledger import hours_repository
from moorage.ledger.hours_repository import Buyer
from moorage.ledger.rules import cover, holds_to_release, renewal_lead


@dataclass(frozen=True)
class Funding:
    settings: Settings

    def unpayable_slots(self, loaded: Loaded) -> frozenset[int]:
        """Slots that have no hour and that the credit does not stretch to, as far as one can see without a lock."""
        slots = range(loaded.container.desired_replicas)
        bare = cover(slots, _busy_slots(loaded), loaded.hours, loaded.instance_type.name, loaded.now).hold
        affordable = loaded.spendable_microusd // loaded.instance_type.price_per_hour_microusd
        return frozenset(bare[affordable:])

    def unpayable_because(self, loaded: Loaded) -> Verdict:
        return OVER_LIMIT if loaded.spendable_microusd < loaded.available_microusd else NO_CREDIT

    async def admit(self, session: AsyncSession, loaded: Loaded, slots: Sequence[int]) -> list[int]:
        """Those of the slots that a replica may be started in."""
        return await hours_repository.cover_slots(
            session, _buyer(loaded), slots, _busy_slots(loaded), loaded.hours, loaded.now
        )

    async def settle(self, session: AsyncSession, loaded: Loaded, plan: Plan, *, unchanged: bool) -> None:
        """Buy for what became ready, and give back what is not wanted any more.

        `unchanged`: nobody asked for anything since this pass began. Otherwise a new deployment may count on the
        holds that the old one left, and the pass that follows at once decides about them.
        """
        ready = {move.replica_id for move in plan.transitions if move.to is ReplicaState.READY}
        ready_slots = {row.slot for row in loaded.replicas if row.id in ready}
        captured = sorted(ready_slots & {hour.slot for hour in loaded.hours if hour.is_held})
        if captured:
            hour = timedelta(seconds=self.settings.billing_hour_s)
            lead = renewal_lead(self.settings.billing_hour_s, self.settings.drain_timeout_s)
            await hours_repository.capture(session, loaded.container.id, captured, hour, lead)
        wanted = {*plan.hold_slots, *captured}
        released = holds_to_release(loaded.hours, wanted, loaded.instance_type.name)
        if released and unchanged:
            await hours_repository.release(session, released)


def _buyer(loaded: Loaded) -> Buyer:
    row = loaded.container
    price_microusd = loaded.instance_type.price_per_hour_microusd
    return Buyer(loaded.organization_id, row.project_id, row.id, row.instance_type, price_microusd)


def _busy_slots(loaded: Loaded) -> list[int]:
    return [row.slot for row in loaded.replicas if row.state in LIVE]
