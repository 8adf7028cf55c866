"""Four machines and an operator, a network and customers who do what a seed says; and what must hold whatever they do.

The reconciler, its pulse, sweep and moves are the real ones, on real rows; machines are simulated and are lost, wiped, cut off,
paused, drained and removed, between passes and in the middle of them. Time passes by making all rows older.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

from machines_support import UNREACHABLE, change
from reconciler_support import (
    KEYRING,
    OWN_ADDRESS,
    SETTINGS,
    Doom,
    DoomedDatabase,
    Life,
    Machine,
    WatchedEngine,
    World,
    life,
    new_world,
)
from sqlalchemy import select

from moorage.billing.renewals.reconciler import RenewalsReconciler
from moorage.catalog.repository import Intake, list_nodes, replace_nodes, set_intake
from moorage.containers import service
from moorage.containers.models import ReplicaRow
from moorage.containers.reconciler.doubt_repository import list_doubts
from moorage.engines.base import LOCAL_ENGINE, GpuDevice
from moorage.engines.engines import Engines
from moorage.entrypoints.fleet import let_go_of
from moorage.kit.clock import system_clock
from moorage.kit.database import Database
from moorage.kit.errors import EngineError, MoorageError
from moorage.ledger.check_repository import find_differences, find_slots_paid_wrongly
from moorage.reconcile.lease import Lease, LeaseKeeper

REPLICA_BYTES = 256 * 2**20
PLACES = 5
"""That each machine has."""
MOST_CONTAINERS = 3
MOST_REPLICAS = 3
GPUS = tuple(GpuDevice(f"GPU-{number}", "NVIDIA L4", 24 * 2**30) for number in range(2))
"""That each machine has."""
_GPU_TYPE = (
    "INSERT INTO instance_types (name, position, gpu_model, gpu_count, vcpu_millis, memory_bytes, disk_bytes, "
    "price_per_hour_microusd, infrastructure) SELECT 'gpu-nano', 99, 'NVIDIA L4', 1, vcpu_millis, memory_bytes, disk_bytes, "
    "9000, infrastructure FROM instance_types WHERE name = 'cpu-nano'"
)
_AGEING = {
    "nodes": ("unready_since",),
    "machine_doubts": ("since",),
    "containers": ("unready_since", "watched_since", "next_look_at", "reconcile_at"),
    "replicas": (
        "created_at",
        "started_at",
        "ready_at",
        "routed_at",
        "draining_at",
        "ended_at",
        "moving_since",
        "missing_since",
        "port_idle_since",
    ),
    "replica_routes": ("changed_at", "failing_since"),
    "hours": ("held_at", "bought_at", "expires_at", "due_at"),
}


class BrokenError(AssertionError):
    """Something that must hold does not."""


@dataclass
class RandomFleet:
    world: World
    chance: random.Random
    machines: dict[str, Machine] = field(init=False)
    """By the engine's name; also those that were removed, for as long as they exist."""
    engines: Engines = field(init=False)
    told: list[str] = field(init=False, default_factory=list)
    """What happened, to be read after a failure."""
    dark: set[str] = field(init=False, default_factory=set)
    """Machines, by name, that no gateway reaches."""
    ill: set[str] = field(init=False, default_factory=set)
    """Machines, by name, whose engine starts nothing."""
    containers: list[str] = field(init=False, default_factory=list)
    asked: set[str] = field(init=False, default_factory=set)
    alive: Life = field(init=False)
    doomed: DoomedDatabase = field(init=False)
    renewals_lease: Lease = field(init=False)
    _sudden: tuple[int, Callable[[], Awaitable[None]]] | None = field(init=False, default=None)
    """After so many more calls of engines, this happens."""
    _joined: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.machines, self.engines = {}, Engines({})
        self._add(LOCAL_ENGINE, self.world.machine)
        first, second, *rest = OWN_ADDRESS.split(".")
        for number, away in enumerate((64, 128, -64), start=1):
            self._join(Machine(f"rack-{number}", ".".join([first, str(int(second) + away), *rest])))

    async def begins(self) -> None:
        await change(self.world, _GPU_TYPE)

    async def ends(self) -> None:
        await self.heals()

    def _add(self, name: str, machine: Machine) -> None:
        machine.memory_bytes, machine.gpus = PLACES * REPLICA_BYTES, GPUS
        engine = WatchedEngine(machine)
        engine.before = partial(self._before_a_call, machine)
        self.machines[name] = machine
        self.engines.add(name, engine)

    def _join(self, machine: Machine) -> None:
        self._joined += 1
        self._add(f"mch_{self._joined:020d}", machine)

    async def _before_a_call(self, machine: Machine, call: str) -> None:
        if call == "start" and machine.name in self.ill:
            raise EngineError("no space left on device")
        if self._sudden is None:
            return
        left, happens = self._sudden
        self._sudden = (left - 1, happens) if left else None
        if not left:
            await happens()

    # What time, the network and people do.

    async def happen(self) -> None:
        """One thing at random, now or in the middle of what follows."""
        happenings: Sequence[Callable[[], Awaitable[None]]] = (
            self.cut_off,
            self.cut_off,
            self.darken,
            self.lose_power,
            self.come_back,
            self.come_back,
            self.come_back,
            self.wipe,
            self.fall_ill_or_recover,
            self.drain_or_open,
            self.drain_or_open,
            self.drain_or_open,
            self.remove_or_rejoin,
            self.customer,
            self.customer,
            self.customer,
            self.hours_end,
            self.lead_anew,
        )
        one = self.chance.choice(happenings)
        in_the_middle = (
            self.cut_off,
            self.darken,
            self.lose_power,
            self.come_back,
            self.drain_or_open,
            self.wipe,
        )
        if one in in_the_middle and self.chance.random() < 0.4:
            self._sudden = self.chance.randrange(6), one
        else:
            await one()

    def _somewhere(self) -> tuple[str, Machine]:
        name = self.chance.choice([*self.engines.by_name()])
        return name, self.machines[name]

    def _tell(self, words: str) -> None:
        self.told.append(words)

    async def cut_off(self) -> None:
        """From the controller, and perhaps from the gateways."""
        name, machine = self._somewhere()
        if name == LOCAL_ENGINE:
            return
        machine.cut_off()
        if self.chance.random() < 0.7:
            self.dark.add(machine.name)
        self._tell(f"{machine.name} is cut off{' for all' if machine.name in self.dark else ''}")

    async def darken(self) -> None:
        _, machine = self._somewhere()
        self.dark.add(machine.name)
        self._tell(f"no gateway reaches {machine.name}")

    async def lose_power(self) -> None:
        name, machine = self._somewhere()
        if name == LOCAL_ENGINE:
            return
        for spec in machine.running():
            machine.end(spec.replica_id, 137)
        machine.cut_off()
        self.dark.add(machine.name)
        self._tell(f"{machine.name} has no power")

    async def come_back(self) -> None:
        away = [one for one in self.machines.values() if not one.reachable or one.name in self.dark]
        if away:
            machine = self.chance.choice(away)
            machine.come_back()
            self.dark.discard(machine.name)
            self._tell(f"{machine.name} is back")

    async def wipe(self) -> None:
        _, machine = self._somewhere()
        if self.chance.random() < 0.5:
            machine.wipe()
            self._tell(f"{machine.name} was wiped")

    async def fall_ill_or_recover(self) -> None:
        """Its engine answers and can start nothing."""
        _, machine = self._somewhere()
        self.ill ^= {machine.name}
        self._tell(
            f"{machine.name} {'starts nothing' if machine.name in self.ill else 'starts things again'}"
        )

    async def drain_or_open(self) -> None:
        name, machine = self._somewhere()
        intake = self.chance.choice([Intake.OPEN, Intake.CORDONED, Intake.DRAINING, Intake.DRAINING])
        await self._let(name, machine, intake)

    async def _let(self, name: str, machine: Machine, intake: Intake) -> None:
        async with self.world.database.transaction() as session:
            nodes = {node.engine: node.name for node in await list_nodes(session)}
            if name in nodes:
                await set_intake(session, name, nodes[name], intake)
                self._tell(f"{machine.name} is {intake}")

    async def remove_or_rejoin(self) -> None:
        """As the operator forces it; the machine itself may run on, and may join again as another."""
        gone = [name for name in self.machines if name not in self.engines.by_name()]
        if gone:
            machine = self.machines.pop(gone[0])
            self._join(machine)
            self._tell(f"{machine.name} joins again")
            return
        name, machine = self._somewhere()
        if name != LOCAL_ENGINE and len(self.engines) > 2:
            self.engines.remove(name)
            await let_go_of(self.world.database, name)
            if self.chance.random() < 0.7:
                self.dark.add(machine.name)  # else its tunnel is still open
            self._tell(f"{machine.name} was removed")

    async def customer(self) -> None:
        if len(self.containers) < MOST_CONTAINERS:
            await self._create()
            return
        container_id = self.chance.choice(self.containers)
        if self.chance.random() < 0.3:
            await self._scale(container_id)
            return
        wish = self.chance.choice(
            [
                service.stop_container,
                service.start_container,
                service.restart_container,
                service.delete_container,
            ]
        )
        try:
            await self.world.ask(wish, container_id)
        except MoorageError:
            return  # it may not be asked for in this state
        self._tell(f"{container_id}: {wish.__name__}")
        if wish is service.delete_container:
            self.containers.remove(container_id)

    async def _create(self) -> None:
        replicas = self.chance.randint(1, MOST_REPLICAS)
        container_id = await self.world.create(
            replicas=replicas, max_replicas=MOST_REPLICAS, health_timeout_s=self.chance.choice([10, 60])
        )
        on_gpus = self.chance.random() < 0.4
        if on_gpus:
            its = 'settings || \'{"instance_type": "gpu-nano"}\''
            await change(
                self.world,
                f"UPDATE containers SET instance_type = 'gpu-nano', settings = {its} WHERE id = '{container_id}'",
            )
        self.containers.append(container_id)
        self._tell(f"{container_id} is created with {replicas}{' on GPUs' if on_gpus else ''}")

    async def _scale(self, container_id: str) -> None:
        """As the autoscaler says it."""
        replicas = self.chance.randint(1, MOST_REPLICAS)
        await change(
            self.world,
            f"UPDATE containers SET desired_replicas = {replicas}, changes = changes + 1, reconcile_at = now() "
            f"WHERE id = '{container_id}'",
        )
        self._tell(f"{container_id} is to have {replicas}")

    async def hours_end(self) -> None:
        """Nearly: they are renewed, or not."""
        await change(
            self.world,
            "UPDATE hours SET held_at = held_at - left_s, bought_at = bought_at - left_s, expires_at = expires_at - left_s, "
            "due_at = due_at - left_s FROM (SELECT id AS of, due_at - now() AS left_s FROM hours) l "
            "WHERE l.of = hours.id AND due_at IS NOT NULL",
        )
        await self.renew()
        self._tell("hours end")

    async def renew(self) -> None:
        renewals = RenewalsReconciler(self.world.database, KEYRING, SETTINGS, system_clock)
        for key in (await renewals.due(10)).keys:
            await renewals.reconcile(key, self.renewals_lease)

    async def lead_anew(self) -> None:
        """The controller dies at one of its next steps, and the next one knows nothing but the rows."""
        self.doomed.doom = Doom(at=self.chance.randint(1, 40))

    def died(self) -> None:
        self._tell("another controller leads")
        self._sudden = None
        self.asked.clear()

    # What the controller does.

    async def seconds_pass(self, seconds: float) -> None:
        for table, columns in _AGEING.items():
            older = ", ".join(f"{column} = {column} - interval '{seconds} s'" for column in columns)
            await change(self.world, f"UPDATE {table} SET {older}")

    async def work(self) -> None:
        """A few seconds of a controller: pulse, sweep and moves, then passes over whatever is due."""
        reconciler, lease = self.alive.reconciler, self.alive.lease
        for name in list(self.engines.by_name()):
            if name in self.engines.by_name():
                await reconciler._pulse.beat(name, lease)
        async with self.world.database.reading() as session:
            absent = {node.engine for node in await list_nodes(session)} - self.engines.by_name().keys()
        for name in sorted(absent):
            await reconciler._pulse._note_silence(name, 0.0, lease)
        await reconciler._moving.step(lease)
        await self.passes()

    async def sweep(self) -> None:
        reconciler, lease = self.alive.reconciler, self.alive.lease
        for name in list(self.engines.by_name()):
            try:
                await reconciler._sweep.refresh_nodes(name, lease)
                await reconciler._sweep._compare(name, lease)
            except EngineError:
                continue

    async def passes(self) -> None:
        for _ in range(3):
            due = [*(await self.alive.reconciler.due(50)).keys, *sorted(self.asked)]
            self.asked.clear()
            for container_id in dict.fromkeys(due):
                await self.see_as_gateways_do()
                await self.alive.round(container_id)
            self.nothing_is_promised_twice()

    async def see_as_gateways_do(self) -> None:
        alive = {
            spec.replica_id
            for machine in self.machines.values()
            if machine.name not in self.dark
            for spec in machine.running()
        }
        rows = await self._rows("ready", "routed", "draining")
        self.world.failing = {row.id: UNREACHABLE for row in rows if row.id not in alive}

    # What must hold.

    def nothing_is_promised_twice(self) -> None:
        for machine in self.machines.values():
            if len(machine.running()) > PLACES:
                raise BrokenError(
                    f"{len(machine.running())} processes on {machine.name}, which has room for {PLACES}"
                )
            users = Counter(device for spec in machine.running() for device in spec.gpu_device_ids)
            if shared := [device for device, count in users.items() if count > 1]:
                raise BrokenError(f"{shared} of {machine.name} have several users")

    async def heals(self) -> None:
        """All that was away is back and open: after some time everything is as it is wanted, and nothing else is there."""
        self._sudden = None
        for machine in self.machines.values():
            machine.come_back()
        self.dark.clear()
        self.ill.clear()
        while len(self.engines) < len(self.machines):
            await self.remove_or_rejoin()
        await self.sweep()
        for name, machine in self.machines.items():
            await self._let(name, machine, Intake.OPEN)
        wrong = "nothing was looked at"
        for _ in range(30):
            await self.seconds_pass(5)
            await self.work()
            await self.sweep()
            wrong = await self.what_is_wrong()
            if not wrong:
                break
        if wrong:
            raise BrokenError(wrong)
        await self.money_is_right()

    async def what_is_wrong(self) -> str:
        """Of the whole; empty once all is well."""
        rows = await self._rows()
        there = Counter(
            (name, spec.replica_id) for name, machine in self.machines.items() for spec in machine.running()
        )
        wanted: Counter[tuple[str, str]] = Counter()
        for container_id in self.containers:
            row = await self.world.container(container_id)
            its = [one for one in rows if one.container_id == container_id]
            if row.desired_state != "running":
                if row.state != "STOPPED" or any(one.state != "removed" for one in its):
                    return f"{container_id} is {row.state}, with {[(one.id, one.state) for one in its if one.state != 'removed']}"
                continue
            left = [one for one in its if one.state != "removed"]
            slots = sorted(one.slot for one in left)
            if row.state != "RUNNING" or slots != list(range(row.desired_replicas)):
                states = [
                    (one.slot, one.state, one.engine[-3:], one.reason, one.moving_since is not None)
                    for one in left
                ]
                return f"{container_id} wants {row.desired_replicas} and is {row.state} ({row.reason}: {row.message}), with {states}"
            if any(
                one.state != "routed" or one.generation != row.generation or one.moving_since for one in left
            ):
                return f"{container_id} has {[(one.state, one.generation, one.moving_since) for one in left]}"
            wanted.update((one.engine, one.id) for one in left)
        if there != wanted:
            return f"there are {sorted((there - wanted).elements())} too many, and {sorted((wanted - there).elements())} too few"
        if left := [
            one.id for one in rows if one.container_id not in self.containers and one.state != "removed"
        ]:
            return f"of deleted containers {left} are left"
        objects = sum(len(machine.replicas) for machine in self.machines.values())
        if objects != wanted.total():
            return f"{objects - wanted.total()} ended ones are left on machines"
        if held := [one.id for one in rows if one.state == "removed" and one.port_released_at is None]:
            return f"ports of {held} are nobody's and not free"
        async with self.world.database.reading() as session:
            if doubts := await list_doubts(session):
                return f"there are doubts: {doubts}"
        return ""

    async def money_is_right(self) -> None:
        await self.renew()
        async with self.world.database.reading() as session:
            found = await find_differences(session) + await find_slots_paid_wrongly(session)
        if found:
            raise BrokenError(f"the ledger: {found}")

    async def _rows(self, *states: str) -> list[ReplicaRow]:
        query = select(ReplicaRow).order_by(ReplicaRow.container_id, ReplicaRow.slot)
        async with self.world.database.reading() as session:
            found = (await session.execute(query)).scalars()
            return [row for row in found if not states or row.state in states]


@asynccontextmanager
async def _leading(fleet: RandomFleet) -> AsyncIterator[None]:
    fleet.doomed = DoomedDatabase(fleet.world.database.dsn)
    try:
        async with life(fleet.world, fleet.engines, fleet.doomed) as fleet.alive:
            fleet.alive.reconciler.ask = fleet.asked.add
            # As among hundreds: small containers look at some machines only, large ones at all.
            fleet.alive.reconciler._placing.looks_at = 0
            for name in fleet.engines.by_name():
                fleet.alive.reconciler._operations.fit_to(name, cores=8)
            yield
    finally:
        await fleet.doomed.close()


async def _live_until_death(fleet: RandomFleet, steps: int) -> int:
    """How many steps are left."""
    async with _leading(fleet):
        try:
            while steps > 0:
                steps -= 1
                await fleet.happen()
                await fleet.work()
                await fleet.seconds_pass(fleet.chance.choice([1, 4, 7]))
                if fleet.chance.random() < 0.3:
                    await fleet.sweep()
        except asyncio.CancelledError:
            if not fleet.doomed.doom.dead:
                raise
            fleet.died()
    return steps


async def run_story(
    database: Database, seed: int, steps: int, kind: type[RandomFleet] = RandomFleet
) -> RandomFleet:
    """A seed's story, to its end. Raises `BrokenError` with what happened."""
    fleet = kind(await new_world(database), random.Random(seed))
    await fleet.begins()
    lease = await LeaseKeeper(database, "renewals", "test", system_clock).acquire()
    assert lease is not None
    lease.deadline_s = float("inf")
    fleet.renewals_lease = lease
    async with database.transaction() as session:
        for name, engine in fleet.engines.by_name().items():
            await replace_nodes(session, await engine.capacity(), name)
    try:
        while steps > 0:
            steps = await _live_until_death(fleet, steps)
        async with _leading(fleet):
            await fleet.ends()
    except Exception as exc:
        story = "\n  ".join(fleet.told)
        raise BrokenError(f"seed {seed}: {exc!r}\n  {story}") from exc
    return fleet
