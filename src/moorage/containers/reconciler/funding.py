"""What a pass does about money: an hour for every replica that it starts, bought when the replica is ready.

Everything here happens under the container's lock, with hours that were read under it. What the pass saw when it began
only tells whether there is anything to do; renewals and admissions may have moved hours since.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.containers.models import ReplicaRow
from moorage.containers.paying import Wanted, has_to_be_paid
from moorage.containers.reconciler.loading_repository import Loaded
from moorage.containers.start_limit import AllowanceSpent, allowance_spent
from moorage.containers.states import LIVE, SERVING, ReplicaState
from moorage.containers.verdict import Verdict
from moorage.containers.views import NO_CREDIT, OVER_LIMIT, Plan
from moorage.kit.settings import Settings
from moorage.ledger import hours_repository
from moorage.ledger.hours_repository import Buyer, Hours, Taken
from moorage.ledger.rules import Occupied, cover, holds_to_release, renewal_lead, slots_to_buy


@dataclass(frozen=True)
class Funded:
    """What the money allows of a plan."""

    create_slots: tuple[int, ...] = ()
    not_ready: frozenset[str] = frozenset()
    """Replicas that answer, and yet do not become ready: nobody knows whether they are still wanted."""
    unpaid: frozenset[str] = frozenset()
    """Replicas that answer, and whose hour cannot be paid: they go."""

    @property
    def kept_back(self) -> frozenset[str]:
        return self.not_ready | self.unpaid


@dataclass(frozen=True)
class Funding:
    settings: Settings

    def unpayable_slots(self, loaded: Loaded) -> frozenset[int]:
        """Slots that have no hour and that the credit does not stretch to, as far as one can see without a lock."""
        slots = _slots(loaded)
        serving = _serving(loaded, {row.id: ReplicaState(row.state) for row in loaded.replicas})
        occupied = Occupied(_busy(loaded), serving)
        bare = cover(slots, occupied, loaded.hours, loaded.instance_type.name, loaded.now).hold
        affordable = loaded.spendable_microusd // loaded.held_price_microusd
        return frozenset(bare[affordable:])

    def unpayable_because(self, loaded: Loaded) -> Verdict:
        return OVER_LIMIT if loaded.spendable_microusd < loaded.available_microusd else NO_CREDIT

    def allowance_spent(self, loaded: Loaded) -> AllowanceSpent | None:
        """Whether nothing may start in the slots that nobody has paid for, and which those are. One whose hour a replica
        from before uses is among them."""
        spent = allowance_spent(
            loaded.unpaid_starts_microusd, self.settings.unpaid_starts_microusd_per_day, loaded.now
        )
        if spent is None:
            return None
        paid = [hour for hour in loaded.hours if not hour.is_held]
        slots = _slots(loaded)
        unpaid = cover(slots, Occupied(_busy(loaded)), paid, loaded.instance_type.name, loaded.now).hold
        used = {row.slot for row in loaded.replicas if row.state in SERVING}
        return replace(spent, slots=frozenset({*unpaid, *used}))

    async def fund(self, session: AsyncSession, loaded: Loaded, plan: Plan, *, as_asked: bool) -> Funded:
        """Buy for what serves, hold for what is to start, and give back what is not wanted any more.

        `as_asked`: the locked row still asks for what this pass was made for. Otherwise nothing starts, becomes ready
        or is given back, and the pass that follows at once decides.
        """
        states = _states_after(loaded.replicas, plan)
        ready = [row for row in loaded.replicas if _becomes_ready(row, states)]
        if not as_asked and not plan.gone:
            return Funded(not_ready=frozenset(row.id for row in ready))
        serving = _serving(loaded, states)
        if not (ready or plan.create_slots or self._may_have_to_move(loaded, plan, serving)):
            return Funded()
        found = await hours_repository.read_hours(session, loaded.container.id)
        found = await self._release(session, loaded, plan, found, keep=serving)
        ready_slots = {row.slot for row in ready}
        bare = slots_to_buy(serving, ready_slots, found.hours, loaded.instance_type.name, found.now)
        slots = list(dict.fromkeys([*bare, *plan.create_slots]))
        occupied = Occupied(_busy(loaded), serving - frozenset(bare))
        funded = await hours_repository.cover_slots(session, _buyer(loaded), slots, occupied, found)
        # In their slots, too: what serves beside them of another type has hours of its own.
        of_type = [
            row for row in loaded.replicas if has_to_be_paid(row, loaded.instance_type.name, states[row.id])
        ]
        await self._capture(session, loaded, [slot for slot in bare if slot in funded], of_type)
        unpaid_slots = set(bare) - set(funded)
        return Funded(
            create_slots=tuple(slot for slot in plan.create_slots if slot in funded),
            unpaid=frozenset(row.id for row in of_type if row.slot in unpaid_slots),
        )

    def _may_have_to_move(self, loaded: Loaded, plan: Plan, serving: frozenset[int]) -> bool:
        """Whether, by what the pass saw when it began, an hour is to be bought or given back."""
        name = loaded.instance_type.name
        return bool(
            plan.gone
            or slots_to_buy(serving, (), loaded.hours, name, loaded.now)
            or holds_to_release(loaded.hours, {*plan.hold_slots, *serving}, name)
        )

    async def _release(
        self, session: AsyncSession, loaded: Loaded, plan: Plan, found: Hours, *, keep: frozenset[int]
    ) -> Hours:
        """The hours that are left when what nobody waits for has been given back. What was held for a slot that
        serves after all is kept, to be bought."""
        released = holds_to_release(found.hours, {*plan.hold_slots, *keep}, loaded.instance_type.name)
        if released:
            await hours_repository.release(session, released)
        return Hours(tuple(hour for hour in found.hours if hour.id not in released), found.now)

    async def _capture(
        self, session: AsyncSession, loaded: Loaded, slots: Sequence[int], serving: Sequence[ReplicaRow]
    ) -> None:
        """At the price of what each took; what was held beyond that comes back, also where it may take nothing else any more."""
        if slots:
            hour = timedelta(seconds=self.settings.billing_hour_s)
            lead = renewal_lead(self.settings.billing_hour_s, self.settings.drain_timeout_s)
            prices = {
                row.slot: Taken(row.sibling_type, loaded.type_of(row).price_per_hour_microusd)
                for row in sorted(serving, key=lambda row: row.created_at)
            }
            await hours_repository.capture(session, loaded.container.id, slots, hour, lead, prices)


def _states_after(rows: Sequence[ReplicaRow], plan: Plan) -> dict[str, ReplicaState]:
    """What each replica is when the plan has been applied; of two moves the later one counts."""
    states = {row.id: ReplicaState(row.state) for row in rows}
    return states | {str(move.replica_id): move.to for move in plan.transitions}


def _becomes_ready(row: ReplicaRow, states: Mapping[str, ReplicaState]) -> bool:
    return states[row.id] is ReplicaState.READY and row.state != ReplicaState.READY


def _serving(loaded: Loaded, states: Mapping[str, ReplicaState]) -> frozenset[int]:
    """The slots that have to be paid: wanted, and something is ready in them."""
    of_canary = loaded.canary.desired_replicas if loaded.canary is not None else 0
    replicas = 0 if loaded.asleep else loaded.serving.desired_replicas
    wanted = Wanted(loaded.desired_state, replicas, of_canary)
    return frozenset(
        row.slot
        for row in loaded.replicas
        if wanted.includes(row.slot) and has_to_be_paid(row, loaded.instance_type.name, states[row.id])
    )


def _slots(loaded: Loaded) -> range:
    return range(loaded.first_slot, loaded.first_slot + loaded.container.desired_replicas)


def _busy(loaded: Loaded) -> frozenset[int]:
    return frozenset(row.slot for row in loaded.replicas if row.state in LIVE)


def _buyer(loaded: Loaded) -> Buyer:
    row = loaded.container
    price_microusd = loaded.held_price_microusd
    return Buyer(loaded.organization_id, row.project_id, row.id, row.instance_type, price_microusd)
