"""The containers reconciler.

Purpose: every container's replicas, routes and state become what its row asks for.
Invariants: a replica's row is committed before the engine hears of it; every write is guarded by the lease;
no transaction is open during an engine call or a probe.
When it fails: a pass that raises is postponed with backoff and the other containers go on; a process that
dies leaves rows and engine objects from which the next pass continues.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.catalog.repository import list_nodes
from moorage.containers import capacity_repository
from moorage.containers.caches.turns import not_their_turn
from moorage.containers.capacity_repository import Room
from moorage.containers.channels import CONTAINERS
from moorage.containers.models import ReplicaRow
from moorage.containers.planning.canary_plan import plan_canary
from moorage.containers.planning.plan import make_plan
from moorage.containers.reconciler import repository, trials
from moorage.containers.reconciler.cache_turns import (
    about_to_be_deleted,
    record_turns,
    record_warm,
    turns_of,
    warm_versions,
)
from moorage.containers.reconciler.cache_watch import CacheWatch
from moorage.containers.reconciler.canary import (
    canary_view,
    funded_slots,
    loaded_canary,
    of_canary,
    with_canary,
)
from moorage.containers.reconciler.disk_watch import DiskWatch
from moorage.containers.reconciler.doubts import Doubted, Doubts
from moorage.containers.reconciler.engine_calls import EngineCalls
from moorage.containers.reconciler.failure_mail import tell_of_failure
from moorage.containers.reconciler.funding import Funding
from moorage.containers.reconciler.gpu_watch import GpuWatch
from moorage.containers.reconciler.image_cleaning import ImageCleaning
from moorage.containers.reconciler.loading_repository import Loaded, load
from moorage.containers.reconciler.moving import Moving
from moorage.containers.reconciler.observation import Observer, Seen
from moorage.containers.reconciler.operations import Operations
from moorage.containers.reconciler.outages import record_outages
from moorage.containers.reconciler.places import Kind, Ticket
from moorage.containers.reconciler.placing import Placing
from moorage.containers.reconciler.plan_views import PlanViews
from moorage.containers.reconciler.preparing import engines_after
from moorage.containers.reconciler.presence import record_presence
from moorage.containers.reconciler.pulse import Pulse, Silences
from moorage.containers.reconciler.repository import FoundImage
from moorage.containers.reconciler.start_progress import StartProgress
from moorage.containers.reconciler.start_times import StartTimes
from moorage.containers.reconciler.sweep import Sweep
from moorage.containers.reconciler.version_record import record_versions
from moorage.containers.rollout import Rollout
from moorage.containers.sleep.recording import record_awake
from moorage.containers.spec import ContainerSettings, RegistryProvider
from moorage.containers.states import LIVE, DesiredState, ReplicaState, Strategy
from moorage.containers.verdict import Verdict
from moorage.containers.views import Plan
from moorage.engines.base import Engine, MachineKey, NodeCapacity, ObservedReplica, ReplicaPhase
from moorage.engines.each import run_for_each
from moorage.engines.engines import Engines
from moorage.kit.clock import Clock
from moorage.kit.crypto import Keyring
from moorage.kit.database import Database
from moorage.kit.ids import ReplicaId
from moorage.kit.settings import Settings
from moorage.reconcile.driver import Due
from moorage.reconcile.lease import Lease
from moorage.reconcile.watches import Watches, run_watches


@dataclass
class ContainersReconciler:
    database: Database
    engines: Engines
    keyring: Keyring
    settings: Settings
    clock: Clock
    name: str = "containers"
    channels: tuple[str, ...] = (CONTAINERS,)
    ask: Callable[[str], None] = lambda _: None
    """Called with a container that wants a pass for a reason that only this process knows."""
    _operations: Operations = field(init=False)
    _calls: EngineCalls = field(init=False)
    _doubts: Doubts = field(init=False)
    _sweep: Sweep = field(init=False)
    _disk_watch: DiskWatch = field(init=False)
    _cache_watch: CacheWatch = field(init=False)
    _gpu_watch: GpuWatch = field(init=False)
    _image_cleaning: ImageCleaning = field(init=False)
    _observer: Observer = field(init=False)
    _funding: Funding = field(init=False)
    _placing: Placing = field(init=False)
    _views: PlanViews = field(init=False)
    _pulse: Pulse = field(init=False)
    _moving: Moving = field(init=False)
    _start_progress: StartProgress = field(init=False)
    _start_times: StartTimes = field(init=False)

    def __post_init__(self) -> None:
        self._operations = Operations(self.clock, lambda container_id: self.ask(container_id))
        self._calls = EngineCalls(self.database, self.engines, self.keyring, self.settings, self.clock)
        self._doubts = Doubts(self.database, self.engines, self.keyring, self.settings)
        self._sweep = Sweep(self.database, self.engines, self.clock, self._doubts, self._described)
        self._pulse = Pulse(self.database, self.engines, self.clock, self._sweep.hurry)
        self._cache_watch = CacheWatch(
            self.database,
            self.engines,
            self.settings,
            self.clock,
            lambda container_id: self.ask(container_id),
            self._pulse,
            lambda engine: self._disk_watch.space(engine),
        )
        self._start_progress = StartProgress(self._calls, self._cache_watch, self._operations)
        self._start_times = StartTimes(self.clock, self._cache_watch)
        self._disk_watch = DiskWatch(
            self.database,
            self.engines,
            self.clock,
            lambda container_id: self.ask(container_id),
            self._pulse,
            self._cache_watch.size_bytes,
        )
        self._gpu_watch = GpuWatch(
            self.database,
            self.engines,
            self.clock,
            lambda container_id: self.ask(container_id),
            self._pulse,
            self._sweep.refresh_nodes,
        )
        self._image_cleaning = ImageCleaning(self.database, self.engines, self.settings, self.clock)
        self._observer = Observer(self.engines, lambda container_id: self.ask(container_id))
        self._funding = Funding(self.settings)
        self._moving = Moving(self.database, self.settings, self.clock)
        self._placing = Placing(self.database, self.engines, self.settings, self._calls, self._gpu_watch)
        self._views = PlanViews(
            self.settings,
            self._operations,
            self._calls,
            self._funding,
            self._placing,
            self._why_evicted,
            self._cache_watch.step,
        )

    def _described(self, engine: str, nodes: Sequence[NodeCapacity]) -> None:
        self._operations.fit_to(engine, sum(node.cpu_millis for node in nodes) // 1000)
        self._gpu_watch.described(engine, nodes)

    async def due(self, limit: int) -> Due:
        async with self.database.reading() as session:
            return Due(*await repository.due_containers(session, limit))

    async def reconcile(self, key: str, lease: Lease) -> None:
        words = self._calls.fresh.words
        # Before the rows are read, and once: what ends while this pass looks asks for another, and is not judged in this.
        busy = self._operations.busy_keys()
        loaded = await self._load(key)
        if loaded is None:
            await self._put_to_rest(key, lease)
            return
        image, (seen, doubted) = await asyncio.gather(
            self._local_image(loaded, lease), self._surroundings(loaded, busy, lease)
        )
        # After the image, which says which drivers run it, and after the GPUs: nothing is placed on one just found broken.
        room = await self._room(loaded, seen, doubted)
        canary = loaded_canary(loaded)
        canary_room = await self._room(canary, seen, doubted) if canary is not None else Room()
        probes = self._observer.remember(loaded, seen)
        self._operations.keep_only(key, {key, *(row.id for row in loaded.replicas)})
        larger = await self._larger_type(loaded, seen, room)
        view = self._views.of_container(loaded, seen, room, doubted, larger)
        machines = await self._machines(loaded, seen)
        others, mine = (
            self._views.of_replicas(loaded, rows, seen, doubted, machines)
            for rows in of_canary(loaded, canary)
        )
        plan, tried = make_plan(view, others, loaded.now), None
        if canary is not None:
            canary_container = self._views.of_container(canary, seen, canary_room, doubted, None)
            on_trial = canary_view(loaded, canary_container, self.settings)
            tried = plan_canary(on_trial, mine, others, plan, loaded.now)
        both = with_canary(plan, tried)
        plan = replace(plan, look_again_in_s=both.look_again_in_s)
        created: list[ReplicaRow] = []
        created_on_trial: list[ReplicaRow] = []
        async with self._guarded(lease) as session:
            progress = self._start_progress.of(loaded, both, seen, brings_image=view.bringing_image)
            as_asked = await repository.write_container(session, loaded, plan, progress, image)
            # Before the money: what is missing is not paid for, and what came back is.
            await record_presence(session, loaded, missing=doubted.replica_ids, there=seen.engine.keys())
            choices = self._placing.choices(loaded, room) if plan.create_slots else ()
            canary_choices: Collection[MachineKey] = ()
            if canary is not None and tried is not None and tried.plan.create_slots:
                canary_choices = self._placing.choices(canary, canary_room)
            if choices or canary_choices:
                # Before the account: docs/locking.md.
                await capacity_repository.lock_capacity(session, {*choices, *canary_choices})
            funded = await self._funding.fund(session, loaded, both, as_asked=as_asked)
            await record_outages(session, loaded, both, funded, self.settings)
            await repository.move_replicas(session, both, funded, probes)
            await record_warm(session, loaded, both, funded)
            await self._start_times.record(session, loaded, both, funded)
            await record_turns(session, loaded, seen)
            if canary is not None:
                await record_turns(session, canary, seen)
            created = await self._placing.admit(session, loaded, room, choices, funded_slots(funded, plan))
            if canary is not None and tried is not None:
                slots = funded_slots(funded, tried.plan)
                created_on_trial = await self._placing.admit(
                    session, canary, canary_room, canary_choices, slots
                )
            await record_versions(session, loaded, both, image, as_asked=as_asked)
            if plan.awake and as_asked:
                await record_awake(session, loaded.container, plan)
            await trials.advance(session, loaded, plan, tried)
            if plan.resume is not None and as_asked:
                await trials.resume(session, loaded.container, plan.resume)
            if as_asked:
                await tell_of_failure(session, self.keyring, self.settings, loaded, plan)
        for move in both.transitions:
            # The next pass, once a gateway has it, makes it RUNNING.
            if move.to is ReplicaState.READY and move.replica_id not in funded.kept_back:
                self._calls.fresh.put(key, seen.engine[move.replica_id], words)
        for cache in loaded.caches:
            if plan.gone or cache.deleting_at is not None:
                self._cache_watch.hurry(cache.engine)
        if plan.gone:
            self._forget(key)
        await self._begin_operations(loaded, seen, plan, room, created, lease)
        if canary is not None and tried is not None:
            await self._begin_operations(canary, seen, tried.plan, canary_room, created_on_trial, lease)

    async def _put_to_rest(self, key: str, lease: Lease) -> None:
        """A container that is gone, and is due because nobody knew whether the pass that ended it was committed."""
        self._forget(key)
        async with self._guarded(lease) as session:
            await repository.put_to_rest(session, key)

    def _forget(self, container_id: str) -> None:
        """No pass over it follows."""
        self._operations.keep_only(container_id, ())
        self._observer.forget(container_id)
        self._calls.fresh.forget(container_id)
        self._calls.unfit.forget(container_id)
        self._calls.starts.forget(container_id)

    async def postpone(self, key: str, error: Exception, lease: Lease) -> None:
        async with self._guarded(lease) as session:
            await repository.postpone(session, key, error)

    async def lead(self, lease: Lease) -> None:
        """Watch each engine for changes, and compare everything with everything now and then. Whatever is under way
        ends only when we do not lead any more."""
        # Passes end after this does, and one of them may have seen something when all was forgotten.
        self._forget_all()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(
                    run_watches(
                        {
                            "ports": partial(self._sweep.run_ports, lease),
                            "absent": partial(self._pulse.run_absent, lease),
                            "moving": partial(self._moving.run, lease),
                        },
                        self.clock,
                    )
                )
                group.create_task(
                    run_for_each(self.engines, partial(self._watches_of, lease=lease), self.clock)
                )
        finally:
            try:
                await self._operations.cancel_all()
            finally:
                self._forget_all()

    def _watches_of(self, name: str, engine: Engine, *, lease: Lease) -> Watches:
        of_what_answers: Watches = {
            "sweep": partial(self._sweep.run, name, lease),
            "disk": partial(self._disk_watch.run, name, lease),
            "caches": partial(self._cache_watch.run, name, lease),
            "gpus": partial(self._gpu_watch.run, name, lease),
            "images": partial(self._image_cleaning.run, name, lease),
            "events": partial(self._watch, name, engine),
        }
        return {
            "pulse": partial(self._pulse.run, name, lease),
            **{what: partial(self._once_it_answers, name, watch) for what, watch in of_what_answers.items()},
        }

    async def _once_it_answers(self, name: str, watch: Callable[[], Awaitable[None]]) -> None:
        await self._pulse.until_it_answers(name)
        await watch()

    def _forget_all(self) -> None:
        """What this process saw while it led: when it leads again, all may be different."""
        self._observer.forget_all()
        self._calls.fresh.forget_all()
        self._calls.unfit.forget_all()
        self._calls.starts.forget_all()
        self._cache_watch.forget_all()

    async def _watch(self, name: str, engine: Engine) -> None:
        self._sweep.hurry(name)
        async for container_id in engine.watch():
            self._calls.fresh.engine_spoke(container_id)
            self.ask(container_id)

    @asynccontextmanager
    async def _guarded(self, lease: Lease) -> AsyncIterator[AsyncSession]:
        async with self.database.transaction() as session:
            await lease.guard(session)
            yield session

    async def _load(self, key: str) -> Loaded | None:
        async with self.database.reading() as session:
            return await load(session, key)

    async def _surroundings(self, loaded: Loaded, busy: frozenset[str], lease: Lease) -> tuple[Seen, Doubted]:
        seen, doubted = await self._observe(loaded, busy, lease)
        lost_gpus = await self._gpu_watch.judge(loaded.replicas, seen.engine, lease)
        return replace(seen, lost_gpus=lost_gpus), doubted

    async def _room(self, loaded: Loaded, seen: Seen, doubted: Doubted) -> Room:
        """Only a pass that may have to start something needs to know what there is room for."""
        row = loaded.container
        live = {
            replica.slot
            for replica in loaded.replicas
            if replica.state in LIVE
            and replica.generation == row.generation
            and replica.moving_since is None
            and (_is_there(replica, seen) or replica.id in doubted.replica_ids)
        }
        if loaded.desired_state != DesiredState.RUNNING or loaded.asleep or len(live) >= row.desired_replicas:
            return Room()
        return await self._placing.room(loaded)

    async def _larger_type(self, loaded: Loaded, seen: Seen, room: Room) -> str | None:
        """Asked for only where memory was too small."""
        small = any(one.out_of_memory for one in seen.engine.values())
        return await self._placing.larger_type(loaded, room) if small else None

    async def _local_image(self, loaded: Loaded, lease: Lease) -> FoundImage | Verdict | None:
        """An image of this machine is looked up within the pass; only a pull is worth a pass of its own."""
        row = loaded.container
        local = ContainerSettings.from_json(row.settings).registry_provider is RegistryProvider.LOCAL
        wanted = loaded.desired_state == DesiredState.RUNNING and row.generation != row.failed_generation
        if not local or not wanted or row.image_generation == row.generation:
            return None
        found = await self._calls.find_local_image(loaded, lease)
        if isinstance(found, Verdict):
            row.failed_generation = row.generation
            row.failure_reason, row.failure_message = found.reason, found.message
            row.failure_fix = None
        else:
            row.image_generation, row.image_ref, row.port = row.generation, found.ref, found.port
            row.image_gpu_environment = dict(found.gpu_environment)
        return found

    async def _observe(self, loaded: Loaded, busy: frozenset[str], lease: Lease) -> tuple[Seen, Doubted]:
        seen = await self._observer.observe(loaded, busy, self._look_at, self._pulse.silent)
        if loaded.desired_state != DesiredState.RUNNING:
            return seen, Doubted()  # Nothing is lost by believing that what is to go has gone.
        missing = [row for row in loaded.replicas if row.id in seen.missing and row.state in _SHOULD_RUN]
        return seen, await self._doubts.judge(loaded, missing, seen.listed, lease) if missing else Doubted()

    async def _look_at(self, replica: ReplicaRow) -> ObservedReplica | None:
        fresh = self._calls.fresh.take(replica.container_id, replica.id)
        return fresh or await self.engines.of(replica.engine).inspect(ReplicaId(replica.id))

    def _why_evicted(self, row: ReplicaRow) -> Verdict | None:
        return (
            self._disk_watch.why_evicted(row.engine, row.id)
            or self._cache_watch.why_evicted(row.engine, row.id)
            or self._gpu_watch.why_evicted(row.engine, row.id)
            or self._moving.why_evicted(row.id)
        )

    async def _machines(self, loaded: Loaded, seen: Seen) -> Silences:
        """Asked for only where one does not answer."""
        if not seen.unreachable:
            return Silences()
        async with self.database.reading() as session:
            return Silences(await list_nodes(session), frozenset(self.engines.by_name()))

    async def _begin_operations(
        self,
        loaded: Loaded,
        seen: Seen,
        plan: Plan,
        room: Room,
        created: Sequence[ReplicaRow],
        lease: Lease,
    ) -> None:
        container_id, calls = loaded.container.id, self._calls

        def begin(key: str, kind: Kind, engine: str, work: Callable[[], Awaitable[None]]) -> None:
            ticket = Ticket(key, kind, loaded.organization_id, engine)
            self._operations.begin(ticket, container_id, work)

        requested = {row.id for row in loaded.replicas if row.state == ReplicaState.REQUESTED}
        calls.starts.keep_only(container_id, requested)
        rows = {row.id: row for row in (*loaded.replicas, *created)}
        turns = turns_of((*loaded.replicas, *created), seen, self._operations.busy_keys())
        waiting = not_their_turn(turns, warm_versions(loaded, created))
        emptied_first = about_to_be_deleted(loaded, turns)
        for replica_id in (*plan.start, *(row.id for row in created)):
            row = rows[replica_id]
            if replica_id in waiting or row.engine in emptied_first:
                continue  # Another fills the cache of its machine; the pass after that one is ready begins it.
            self._disk_watch.something_begins(row.engine)
            if ContainerSettings.from_json(loaded.container.settings).cache_gib is not None:
                self._cache_watch.hurry(row.engine)
            if calls.starts.lacks_image(row):
                begin(replica_id, Kind.PULL, row.engine, partial(calls.bring_image, loaded, row, lease))
            else:
                begin(replica_id, Kind.START, row.engine, partial(calls.start, loaded, row, lease))
        for kind, call, replica_ids in (
            (Kind.STOP, calls.stop, plan.stop),
            (Kind.KILL, calls.kill, plan.kill),
            (Kind.REMOVE, calls.remove, plan.remove),
        ):
            for replica_id in replica_ids:
                engine, engine_id = rows[replica_id].engine, seen.engine[replica_id].engine_id
                begin(replica_id, kind, engine, partial(call, engine, engine_id, lease))
        if plan.ensure_image:
            first = await self._placing.first_engine(loaded, room)
            begin(container_id, Kind.PULL, first, partial(calls.ensure_image, loaded, first, lease))
        elif plan.prepare_trial:
            rollout = Rollout.from_json(loaded.container.rollout)
            # Beside what serves the next ones may take as long as they like.
            stops = rollout is None or rollout.strategy is Strategy.REPLACE
            engines = await engines_after(self._placing, loaded) if stops else []
            engines = engines or [await self._placing.first_engine(loaded, room)]
            begin(container_id, Kind.PULL, engines[0], partial(calls.prepare_trial, loaded, engines, lease))

    async def close(self) -> None:
        await self._operations.cancel_all()
        await self._observer.close()


def _is_there(replica: ReplicaRow, seen: Seen) -> bool:
    observed = seen.engine.get(replica.id)
    running = observed is not None and observed.phase is ReplicaPhase.RUNNING
    return running or replica.id in seen.busy


_SHOULD_RUN = (ReplicaState.STARTING, ReplicaState.READY, ReplicaState.ROUTED)
