"""The containers reconciler.

Purpose: every container's replicas, routes and state become what its row asks for.
Invariants: a replica's row is committed before the engine hears of it; every write is guarded by the lease;
no transaction is open during an engine call or a probe.
When it fails: a pass that raises is postponed with backoff and the other containers go on; a process that
dies leaves rows and engine objects from which the next pass continues.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.catalog.capacity import Used, place, room_for
from moorage.catalog.driver_fit import too_old_for
from moorage.catalog.repository import list_instance_types
from moorage.catalog.shortage import why_waiting
from moorage.containers import capacity_repository
from moorage.containers.avoidance import Avoidance, avoided_nodes, why_no_other_room
from moorage.containers.capacity_repository import Room
from moorage.containers.channels import CONTAINERS
from moorage.containers.fixes import next_larger
from moorage.containers.models import ContainerRow, ReplicaRow
from moorage.containers.plan import make_plan
from moorage.containers.reconciler import repository, trials
from moorage.containers.reconciler.disk_watch import DiskWatch
from moorage.containers.reconciler.doubts import Doubted, Doubts
from moorage.containers.reconciler.engine_calls import EngineCalls
from moorage.containers.reconciler.failure_mail import tell_of_failure
from moorage.containers.reconciler.funding import Funding
from moorage.containers.reconciler.gpu_watch import GpuWatch
from moorage.containers.reconciler.image_cleaning import ImageCleaning
from moorage.containers.reconciler.loading_repository import NO_ROUTE, Loaded, load
from moorage.containers.reconciler.observation import Observer, Seen
from moorage.containers.reconciler.operations import Operations
from moorage.containers.reconciler.outages import record_outages
from moorage.containers.reconciler.places import Kind
from moorage.containers.reconciler.presence import record_presence
from moorage.containers.reconciler.repository import FoundImage
from moorage.containers.reconciler.sweep import Sweep
from moorage.containers.reconciler.watches import run_watches
from moorage.containers.spec import ContainerSettings, RegistryProvider
from moorage.containers.states import LIVE, ContainerState, DesiredState, Reason, ReplicaState
from moorage.containers.stop_reasons import stopped_because
from moorage.containers.trial import trial_step
from moorage.containers.verdict import Fix, Verdict
from moorage.containers.views import ContainerView, Plan, ReplicaView
from moorage.engines.base import Engine, ObservedReplica, ReplicaPhase
from moorage.kit.clock import Clock
from moorage.kit.crypto import Keyring
from moorage.kit.database import Database
from moorage.kit.ids import ReplicaId
from moorage.kit.settings import Settings
from moorage.reconcile.driver import Due
from moorage.reconcile.lease import Lease


@dataclass
class ContainersReconciler:
    database: Database
    engine: Engine
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
    _gpu_watch: GpuWatch = field(init=False)
    _image_cleaning: ImageCleaning = field(init=False)
    _observer: Observer = field(init=False)
    _funding: Funding = field(init=False)

    def __post_init__(self) -> None:
        self._operations = Operations(self.clock, lambda container_id: self.ask(container_id))
        self._calls = EngineCalls(self.database, self.engine, self.keyring, self.settings, self.clock)
        self._doubts = Doubts(self.database, self.engine, self.keyring, self.settings)
        self._sweep = Sweep(self.database, self.engine, self.clock, self._doubts, self._operations.fit_to)
        self._disk_watch = DiskWatch(
            self.database, self.engine, self.clock, lambda container_id: self.ask(container_id)
        )
        self._gpu_watch = GpuWatch(
            self.database,
            self.engine,
            self.clock,
            lambda container_id: self.ask(container_id),
            self._sweep.refresh_nodes,
        )
        self._image_cleaning = ImageCleaning(self.database, self.engine, self.settings, self.clock)
        self._observer = Observer(self.engine, lambda container_id: self.ask(container_id))
        self._funding = Funding(self.settings)

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
        image, (seen, doubted, room) = await asyncio.gather(
            self._local_image(loaded, lease), self._surroundings(loaded, busy, lease)
        )
        room = self._with_its_driver(loaded, room)
        probes = self._observer.remember(loaded, seen)
        self._operations.keep_only(key, {key, *(row.id for row in loaded.replicas)})
        larger = await self._larger_type(loaded, seen, room)
        view = self._container_view(loaded, room, doubted, larger, pulling=key in busy)
        plan = make_plan(view, self._replica_views(loaded, seen, doubted), loaded.now)
        created: list[ReplicaRow] = []
        async with self._guarded(lease) as session:
            progress = self._progress(loaded, plan)
            as_asked = await repository.write_container(session, loaded, plan, progress, image)
            # Before the money: what is missing is not paid for, and what came back is.
            await record_presence(session, loaded, missing=doubted.replica_ids, there=seen.engine.keys())
            if plan.create_slots:
                await capacity_repository.lock_capacity(session)  # before the account: docs/locking.md
            funded = await self._funding.fund(session, loaded, plan, as_asked=as_asked)
            await record_outages(session, loaded, plan, funded, self.settings)
            await repository.move_replicas(session, plan, funded, probes)
            created = await self._admit(session, loaded, room, funded.create_slots)
            await trials.advance(session, loaded, plan)
            if as_asked:
                await tell_of_failure(session, self.keyring, self.settings, loaded, plan)
        for move in plan.transitions:
            # The next pass, once a gateway has it, makes it RUNNING.
            if move.to is ReplicaState.READY and move.replica_id not in funded.kept_back:
                self._calls.fresh.put(key, seen.engine[move.replica_id], words)
        if plan.gone:
            self._forget(key)
        self._begin_operations(loaded, seen, plan, created, lease)

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

    async def postpone(self, key: str, error: Exception, lease: Lease) -> None:
        async with self._guarded(lease) as session:
            await repository.postpone(session, key, error)

    async def lead(self, lease: Lease) -> None:
        """Watch the engine for changes, and compare everything with everything now and then. Whatever is under way
        ends only when we do not lead any more."""
        watches: dict[str, Callable[[], Awaitable[None]]] = {
            "sweep": partial(self._sweep.run, lease),
            "disk": partial(self._disk_watch.run, lease),
            "gpus": partial(self._gpu_watch.run, lease),
            "images": partial(self._image_cleaning.run, lease),
            "events": self._watch,
        }
        # Passes end after this does, and one of them may have seen something when all was forgotten.
        self._forget_all()
        try:
            await run_watches(watches, self.clock)
        finally:
            try:
                await self._operations.cancel_all()
            finally:
                self._forget_all()

    def _forget_all(self) -> None:
        """What this process saw while it led: when it leads again, all may be different."""
        self._observer.forget_all()
        self._calls.fresh.forget_all()

    async def _watch(self) -> None:
        self._sweep.hurry()
        async for container_id in self.engine.watch():
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

    async def _surroundings(
        self, loaded: Loaded, busy: frozenset[str], lease: Lease
    ) -> tuple[Seen, Doubted, Room]:
        seen, doubted = await self._observe(loaded, busy, lease)
        # Before the room: nothing is placed on a GPU that was just found broken.
        seen = replace(seen, lost_gpus=await self._gpu_watch.judge(loaded.replicas, seen.engine, lease))
        return seen, doubted, await self._room(loaded, seen, doubted)

    async def _room(self, loaded: Loaded, seen: Seen, doubted: Doubted) -> Room:
        """Only a pass that may have to start something needs to know what there is room for."""
        row = loaded.container
        live = {
            replica.slot
            for replica in loaded.replicas
            if replica.state in LIVE
            and replica.generation == row.generation
            and (_is_there(replica, seen) or replica.id in doubted.replica_ids)
        }
        if loaded.desired_state != DesiredState.RUNNING or len(live) >= row.desired_replicas:
            return Room()
        async with self.database.reading() as session:
            room = await capacity_repository.load_room(session)
        avoided = self._avoided(loaded)
        there = self._gpu_watch.with_broken(room.nodes)
        return replace(room, nodes=[node for node in there if node.name not in avoided])

    def _with_its_driver(self, loaded: Loaded, room: Room) -> Room:
        """Without machines whose driver cannot run what is in its image, which this pass may have found out."""
        asked = loaded.container.image_gpu_environment
        if not asked or not loaded.instance_type.gpu_count:
            return room
        return replace(room, nodes=[node for node in room.nodes if too_old_for(node, asked) is None])

    def _avoided(self, loaded: Loaded) -> tuple[str, ...]:
        row = loaded.container
        return avoided_nodes(
            Avoidance.from_json(row.avoidance),
            generation=row.generation,
            serving_generation=row.serving_generation,
            now=loaded.now,
        )

    async def _larger_type(self, loaded: Loaded, seen: Seen, room: Room) -> str | None:
        """The next larger type that some machine could hold; asked for only where memory was too small."""
        if not any(one.out_of_memory for one in seen.engine.values()):
            return None
        async with self.database.reading() as session:
            catalogue = await list_instance_types(session)
        possible = [
            one
            for one in catalogue
            if one.enabled and room_for(one, room.nodes, {}, self.settings.cpu_overcommit)
        ]
        larger = next_larger(loaded.instance_type, possible)
        return larger.name if larger is not None else None

    async def _local_image(self, loaded: Loaded, lease: Lease) -> FoundImage | Verdict | None:
        """An image of this machine is looked up within the pass; only a pull is worth a pass of its own."""
        row = loaded.container
        local = ContainerSettings.from_json(row.settings).registry_provider is RegistryProvider.LOCAL
        wanted = loaded.desired_state == DesiredState.RUNNING and row.generation != row.failed_generation
        if not local or not wanted or row.image_generation == row.generation:
            return None
        found = await self._calls.find_image(loaded, lease)
        if isinstance(found, Verdict):
            row.failed_generation = row.generation
            row.failure_reason, row.failure_message = found.reason, found.message
            row.failure_fix = None
        else:
            row.image_generation, row.image_ref, row.port = row.generation, found.ref, found.port
            row.image_gpu_environment = dict(found.gpu_environment)
        return found

    async def _observe(self, loaded: Loaded, busy: frozenset[str], lease: Lease) -> tuple[Seen, Doubted]:
        seen = await self._observer.observe(loaded, busy, self._look_at)
        if loaded.desired_state != DesiredState.RUNNING:
            return seen, Doubted()  # Nothing is lost by believing that what is to go has gone.
        missing = [row for row in loaded.replicas if row.id in seen.missing and row.state in _SHOULD_RUN]
        return seen, await self._doubts.judge(loaded, missing, seen.listed, lease) if missing else Doubted()

    async def _look_at(self, replica: ReplicaRow) -> ObservedReplica | None:
        fresh = self._calls.fresh.take(replica.container_id, replica.id)
        return fresh or await self.engine.inspect(ReplicaId(replica.id))

    def _container_view(
        self, loaded: Loaded, room: Room, doubted: Doubted, larger: str | None, *, pulling: bool
    ) -> ContainerView:
        row = loaded.container
        settings = ContainerSettings.from_json(row.settings)
        last_failure = loaded.failures[-1].verdict if loaded.failures else None
        if row.failed_generation == row.generation and row.failure_reason is not None:
            fix = Fix.from_json(row.failure_fix)
            last_failure = Verdict(Reason(row.failure_reason), row.failure_message or "", fix)
        return ContainerView(
            desired_state=loaded.desired_state,
            desired_replicas=row.desired_replicas,
            generation=row.generation,
            failed_generation=row.failed_generation,
            serving_generation=row.serving_generation,
            unready_since=row.unready_since,
            watched_since=loaded.watched_since,
            image_known=row.image_generation == row.generation,
            pulling=pulling,
            port=row.port or 0,
            health_path=settings.health_path,
            health_timeout=timedelta(seconds=settings.health_timeout_s),
            drain_limit=timedelta(seconds=self.settings.drain_timeout_s),
            memory_bytes=loaded.instance_type.memory_bytes,
            disk_bytes=loaded.instance_type.disk_bytes,
            instance_type=loaded.instance_type.name,
            larger_instance_type=larger,
            approval=loaded.approval,
            failed_starts=loaded.failed_starts,
            failed_starts_per_hour=self.settings.failed_starts_per_hour,
            allowance_spent=self._funding.allowance_spent(loaded),
            trial=trial_step(row),
            trial_failure=_trial_failure(row),
            doubt=doubted.verdict,
            room_for=room_for(loaded.instance_type, room.nodes, room.used, self.settings.cpu_overcommit),
            no_room_message=self._why_no_room(loaded, room),
            avoids_nodes=bool(self._avoided(loaded)),
            recent_failures=[(failure.slot, failure.ended_at) for failure in loaded.failures],
            last_failure=last_failure,
            unpayable_slots=self._funding.unpayable_slots(loaded),
            unpayable_because=self._funding.unpayable_because(loaded),
            stopped_because=stopped_because(loaded.stop_reason),
            engine_failing=self._operations.engine_failing(row.id),
        )

    def _why_no_room(self, loaded: Loaded, room: Room) -> str:
        instance_type, avoidance = loaded.instance_type, Avoidance.from_json(loaded.container.avoidance)
        avoided = self._avoided(loaded)
        if avoidance is None or not avoided:
            return why_waiting(instance_type, room.nodes, room.used, self.settings.cpu_overcommit)
        return why_no_other_room(instance_type.gpu_model or instance_type.name, avoided, avoidance.until)

    def _replica_views(self, loaded: Loaded, seen: Seen, doubted: Doubted) -> list[ReplicaView]:
        return [
            ReplicaView(
                id=ReplicaId(row.id),
                slot=row.slot,
                generation=row.generation,
                state=ReplicaState(row.state),
                created_at=row.created_at,
                started_at=row.started_at,
                draining_at=row.draining_at,
                ended_at=row.ended_at,
                collected=row.collected_at is not None,
                observed=seen.engine.get(row.id),
                probe=seen.probes.get(row.id),
                sockets=seen.sockets.get(row.id, ()),
                process_limit_reached=row.id in seen.at_process_limit,
                last_lines=seen.last_lines.get(row.id, ()),
                busy=row.id in seen.busy,
                at_gateways=row.id in loaded.routes,
                taking_requests=loaded.routes.get(row.id, NO_ROUTE).taking_requests,
                in_flight=loaded.routes.get(row.id, NO_ROUTE).in_flight,
                failing_since=loaded.routes.get(row.id, NO_ROUTE).failing_since,
                failing=loaded.routes.get(row.id, NO_ROUTE).failing,
                unfunded=row.unfunded_at is not None,
                evicted=self._disk_watch.evicted.get(row.id)
                or self._gpu_watch.evicted.get(row.id)
                or seen.lost_gpus.get(row.id),
                probing=row.id in seen.probing,
                doubted=row.id in doubted.replica_ids,
                replaced=row.ended_badly,
            )
            for row in loaded.replicas
        ]

    async def _admit(
        self, session: AsyncSession, loaded: Loaded, room: Room, slots: Sequence[int]
    ) -> list[ReplicaRow]:
        """Insert replicas in slots that have an hour, each where there is room. Under the capacity lock, because the
        plan's idea of the room may be older than another container's admission; what does not fit waits for the
        next pass, as does what could not be paid."""
        if not slots:
            return []
        used = await capacity_repository.used_capacity(session)
        created = []
        for slot in slots:
            placement = place(loaded.instance_type, room.nodes, used, self.settings.cpu_overcommit)
            if placement is None:
                break
            row = await capacity_repository.insert_replica(
                session, loaded.container, slot, placement, self.settings.replica_port_range
            )
            created.append(row)
            held = used.get(placement.node, Used())
            used[placement.node] = replace(
                held,
                cpu_millis=held.cpu_millis + loaded.instance_type.vcpu_millis,
                memory_bytes=held.memory_bytes + loaded.instance_type.memory_bytes,
                gpu_device_ids=held.gpu_device_ids | set(placement.gpu_device_ids),
            )
        return created

    def _begin_operations(
        self, loaded: Loaded, seen: Seen, plan: Plan, created: Sequence[ReplicaRow], lease: Lease
    ) -> None:
        container_id, calls = loaded.container.id, self._calls

        def begin(key: str, kind: Kind, work: Callable[[], Awaitable[None]]) -> None:
            self._operations.begin(key, container_id, work, kind=kind, organization_id=loaded.organization_id)

        if plan.ensure_image:
            begin(container_id, Kind.PULL, partial(calls.ensure_image, loaded, lease))
        if plan.prepare_trial:
            begin(container_id, Kind.PULL, partial(calls.prepare_trial, loaded, lease))
        rows = {row.id: row for row in (*loaded.replicas, *created)}
        for replica_id in (*plan.start, *(row.id for row in created)):
            begin(replica_id, Kind.START, partial(calls.start, loaded, rows[replica_id], lease))
        for replica_id in plan.stop:
            begin(replica_id, Kind.STOP, partial(calls.stop, seen.engine[replica_id].engine_id, lease))
        for replica_id in plan.kill:
            begin(replica_id, Kind.KILL, partial(calls.kill, seen.engine[replica_id].engine_id, lease))
        for replica_id in plan.remove:
            begin(replica_id, Kind.REMOVE, partial(calls.remove, seen.engine[replica_id].engine_id, lease))

    def _progress(self, loaded: Loaded, plan: Plan) -> dict[str, Any] | None:
        if plan.state is ContainerState.PULLING:
            pulled = self._calls.pull_progress.get(loaded.container.id)
            done, total = (pulled.done_bytes, pulled.total_bytes) if pulled else (0, 0)
            return {"phase": "pull", "done_bytes": done, "total_bytes": total}
        if plan.state is ContainerState.STARTING:
            started = [row.started_at for row in loaded.replicas if row.started_at and row.state in LIVE]
            limit_s = ContainerSettings.from_json(loaded.container.settings).health_timeout_s
            since = min(started).isoformat() if started else None
            return {"phase": "start", "started_at": since, "limit_s": limit_s}
        return None

    async def close(self) -> None:
        await self._operations.cancel_all()
        await self._observer.close()


def _is_there(replica: ReplicaRow, seen: Seen) -> bool:
    observed = seen.engine.get(replica.id)
    running = observed is not None and observed.phase is ReplicaPhase.RUNNING
    return running or replica.id in seen.busy


def _trial_failure(row: ContainerRow) -> Verdict | None:
    failure = row.trial_failure
    return None if failure is None else Verdict(Reason(failure["reason"]), failure["message"])


_SHOULD_RUN = (ReplicaState.STARTING, ReplicaState.READY, ReplicaState.ROUTED)
