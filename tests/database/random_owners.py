"""Machines that have owners, and containers on them that are updated, tried as canaries, put to sleep, broken and scaled as a seed says;
and what each hour of theirs has to earn.

Whoever serves in a slot while an hour of its type is bought for it is paid for that time, once. The oracle knows rows of hours and
of what gateways hold, and the time that passes; it knows nothing of spans and moves. What passes while something is done is real
time, which it does not see: hours may earn so much more, and no less.
"""

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from machines_support import change
from random_fleet import BrokenError, RandomFleet
from reconciler_support import KEYRING, SETTINGS
from sqlalchemy import text
from test_reconciler_drafts import draft

from moorage.billing.earnings.reconciler import EarningsReconciler
from moorage.containers import service
from moorage.containers.canaries.service import abort_canary, promote_canary
from moorage.containers.drafts.service import apply_draft
from moorage.containers.sleep.service import fall_asleep, wake
from moorage.containers.states import Strategy
from moorage.engines.base import LOCAL_ENGINE
from moorage.kit.clock import system_clock
from moorage.kit.errors import MoorageError
from moorage.ledger.check_repository import find_differences
from moorage.reconcile.lease import LeaseKeeper

IDLE_S = 60
ANOTHER_TYPE = (
    "INSERT INTO instance_types (name, position, gpu_count, vcpu_millis, memory_bytes, disk_bytes, price_per_hour_microusd, "
    "infrastructure) SELECT 'cpu-nano-b', 98, 0, vcpu_millis, memory_bytes, disk_bytes, 7000, infrastructure "
    "FROM instance_types WHERE name = 'cpu-nano'"
)
_AGEING_TOO = {
    "hours": ("begins_at", "paused_at"),
    "hour_moves": ("moved_at",),
    "served_spans": ("began_at", "ended_at"),
    "container_sleeps": ("asleep_at", "woken_at", "served_at", "paid_until"),
    "containers": ("asleep_since", "woken_at"),
}
_EARNING = """
SELECT h.id, greatest(extract(epoch FROM h.begins_at - now()), 0)::float, extract(epoch FROM h.expires_at - now())::float
FROM hours h WHERE h.state = 'paid' AND h.expires_at > now() AND h.paused_at IS NULL AND EXISTS (
    SELECT FROM replicas r JOIN replica_routes o ON o.replica_id = r.id JOIN machines m ON m.id = r.engine
    WHERE r.container_id = h.container_id AND r.slot = h.slot AND r.instance_type = h.instance_type
        AND NOT o.draining AND o.failure IS NULL
)
"""
"""Hours in whose slots an owned machine serves: from when on, and until when."""
_SLACK_S = 2.0


@dataclass
class RandomOwners(RandomFleet):
    expected_s: Counter[str] = field(init=False, default_factory=Counter)
    """By hour."""
    began_s: float = field(init=False, default_factory=time.monotonic)
    nobody_looks: bool = field(init=False, default=False)
    """The gateway reports nothing."""

    async def begins(self) -> None:
        """Each machine but Moorage's own has an owner, and what is spent was paid."""
        await super().begins()
        await change(self.world, ANOTHER_TYPE)
        await change(self.world, "UPDATE credit_lots SET source = 'transfer'")
        await self._create()
        await self._create()
        for name in self.engines.by_name().keys() - {LOCAL_ENGINE}:
            await change(self.world, f"INSERT INTO organizations (id, name) VALUES ('org_{name}', 'Owner')")
            await change(
                self.world,
                "INSERT INTO machines (id, infrastructure, state, created_by, owner_organization_id) "
                f"VALUES ('{name}', 'community', 'joining', 'usr', 'org_{name}')",
            )

    async def happen(self) -> None:
        happenings: Sequence[Callable[[], Awaitable[None]]] = (
            *(self.customer, self.customer, self.scale, self.scale, self.scale, self.crash, self.crash),
            *(self.update, self.update, self.decide, self.decide, self.sleep_or_wake),
            *(self.break_a_gpu, self.break_a_gpu, self.mend_gpus),
            *(self.cut_off, self.lose_power, self.come_back, self.come_back, self.darken),
            *(self.drain_or_open, self.lead_anew, self.time_passes, self.time_passes, self.time_passes),
        )
        await self.chance.choice(happenings)()

    async def _create(self) -> None:
        await super()._create()
        if self.chance.random() < 0.5:
            await change(
                self.world,
                f"UPDATE containers SET settings = settings || '{{\"sleep_after_s\": {IDLE_S}}}' "
                f"WHERE id = '{self.containers[-1]}'",
            )

    async def scale(self) -> None:
        if self.containers:
            await self._scale(self.chance.choice(self.containers))

    async def crash(self) -> None:
        running = [(machine, spec) for machine in self.machines.values() for spec in machine.running()]
        if running:
            machine, spec = self.chance.choice(running)
            machine.end(spec.replica_id)
            self._tell(f"{spec.replica_id} of {spec.container_id} crashes")

    async def update(self) -> None:
        if not self.containers:
            return
        container_id = self.chance.choice(self.containers)
        strategy = self.chance.choice([Strategy.ROLLING, Strategy.CANARY, Strategy.REPLACE])
        more: dict[str, object] = {}
        on_gpus = (await self.world.container(container_id)).instance_type == "gpu-nano"
        if strategy is not Strategy.CANARY and not on_gpus and self.chance.random() < 0.4:
            instance_type = self.chance.choice(["cpu-nano", "cpu-nano-b"])
            least = self.chance.randint(1, 2)
            more = {
                "mode": "autoscaling",
                "instance_type": instance_type,
                "min_replicas": least,
                "max_replicas": 3,
            }
        share = self.chance.choice([10, 50]) if strategy is Strategy.CANARY else None
        apply = partial(apply_draft, keyring=KEYRING, settings=SETTINGS, strategy=strategy, share=share)
        try:
            word = {"WORD": str(self.chance.random())}
            await draft(self.world, container_id, env=word, **({"resources": more} if more else {}))
            await self.world.ask(apply, container_id)
        except MoorageError:
            return  # it may not be asked for in this state
        self._tell(f"{container_id}: {strategy} {more.get('instance_type', '')}")

    async def decide(self) -> None:
        """About a canary, if there is one."""
        if self.containers:
            container_id = self.chance.choice(self.containers)
            await self._ask(self.chance.choice([promote_canary, promote_canary, abort_canary]), container_id)

    async def sleep_or_wake(self) -> None:
        if not self.containers:
            return
        container_id = self.chance.choice(self.containers)
        async with self.world.database.transaction() as session:
            if await fall_asleep(session, container_id, IDLE_S):
                self._tell(f"{container_id} falls asleep")
                return
        await self._wake(container_id)

    async def _wake(self, container_id: str) -> None:
        how = {"by_request": True, "settings": SETTINGS, "clock": system_clock}
        try:
            async with self.world.database.transaction() as session:
                await wake(session, container_id, "key_test", **how)
        except MoorageError:
            return  # it is stopped

    async def break_a_gpu(self) -> None:
        with_gpus = [row for row in await self._rows("routed") if row.gpu_device_ids]
        if with_gpus:
            row = self.chance.choice(with_gpus)
            self.machines[row.engine].gpu_problems[row.gpu_device_ids[0]] = "it has fallen off the bus"
            self._tell(f"the GPU of {row.id} breaks")

    async def mend_gpus(self) -> None:
        for machine in self.machines.values():
            machine.gpu_problems.clear()

    async def time_passes(self) -> None:
        """Some, until an hour has to be renewed; sometimes nobody hears from the gateway meanwhile."""
        await self._settle()
        left = "SELECT extract(epoch FROM min(due_at) - now())::float FROM hours WHERE due_at > now() AND paused_at IS NULL"
        async with self.world.database.reading() as session:
            left_s = (await session.execute(text(left))).scalar_one()
        passes_s = self.chance.choice([60.0, 600.0, 1500.0])
        passes_s = min(passes_s, left_s + 0.1) if left_s is not None else passes_s
        self.nobody_looks = passes_s > IDLE_S and self.chance.random() < 0.15
        self._tell(f"{passes_s:.0f} s pass{', and the gateway is away' if self.nobody_looks else ''}")
        await self.seconds_pass(passes_s)
        self.nobody_looks = False
        await self.renew()
        await self.world.gateway_step()

    async def _settle(self) -> None:
        """What was just asked for is done, as far as one sees."""
        await self.work()
        await self.see_as_gateways_do()
        await self.world.gateway_step()

    async def seconds_pass(self, seconds: float) -> None:
        if not self.nobody_looks:
            async with self.world.database.reading() as session:
                for hour_id, begins_s, ends_s in await session.execute(text(_EARNING)):
                    self.expected_s[hour_id] += max(min(ends_s, seconds) - begins_s, 0.0)
        await super().seconds_pass(seconds)
        for table, columns in _AGEING_TOO.items():
            older = ", ".join(f"{column} = {column} - interval '{seconds} s'" for column in columns)
            await change(self.world, f"UPDATE {table} SET {older}")
        if self.nobody_looks:
            await change(self.world, f"UPDATE gateways SET seen_at = seen_at - interval '{seconds} s'")

    async def ends(self) -> None:
        for machine in self.machines.values():
            machine.come_back()
        self.dark.clear()
        await self.mend_gpus()
        for container_id in self.containers:
            await self._ask(abort_canary, container_id)
            await self._wake(container_id)
        # Longer than a version has to prove itself, and never so long that nobody looked meanwhile.
        for _ in range(16):
            await self.work()
            await self.seconds_pass(14)
            await self.renew()
        for container_id in self.containers:
            await self._ask(service.start_container, container_id)
        await self.heals()
        await self.owners_have_their_part()

    async def owners_have_their_part(self) -> None:
        """All that was bought is over, and settled."""
        real_s = time.monotonic() - self.began_s
        await change(self.world, "UPDATE served_spans SET ended_at = now() WHERE ended_at IS NULL")
        await change(self.world, "UPDATE hours SET due_at = NULL WHERE state = 'paid'")
        for table, columns in (*_AGEING_TOO.items(), ("hours", ("expires_at",))):
            older = ", ".join(f"{column} = {column} - interval '3 hours'" for column in columns)
            await change(self.world, f"UPDATE {table} SET {older}")
        lease = await LeaseKeeper(self.world.database, "earnings", "test", system_clock).acquire()
        assert lease is not None
        earnings = EarningsReconciler(self.world.database, SETTINGS, system_clock)
        while keys := (await earnings.due(50)).keys:
            for key in keys:
                await earnings.reconcile(key, lease)
        async with self.world.database.reading() as session:
            served = text("SELECT hour_id, sum(served_us)::float / 1000000 FROM earnings GROUP BY hour_id")
            found = {str(hour_id): float(served_s) for hour_id, served_s in await session.execute(served)}
            differences = await find_differences(session)
        more_s = {
            one: found.get(one, 0.0) - self.expected_s[one] for one in found.keys() | self.expected_s.keys()
        }
        wrong = {one: much for one, much in more_s.items() if not -_SLACK_S <= much <= real_s + _SLACK_S}
        if wrong or differences:
            raise BrokenError(
                f"in {real_s:.0f} s hours earned so many seconds too many: {wrong}; {differences}"
            )
        assert found, "a story in which nobody earns anything shows nothing"

    async def _ask(self, wish: Callable[..., Awaitable[object]], container_id: str) -> None:
        try:
            await self.world.ask(wish, container_id)  # type: ignore[arg-type]
        except MoorageError:
            return  # it may not be asked for in this state
        self._tell(f"{container_id}: {wish.__name__}")
