"""Where a container's next replicas may go: what the machines have left for it, and the rows that take it."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.catalog.capacity import Used, best_machines, keeps_caches, place, room_for
from moorage.catalog.driver_fit import too_old_for
from moorage.catalog.repository import list_instance_types
from moorage.catalog.shortage import why_waiting, why_waiting_for_image
from moorage.containers import capacity_repository
from moorage.containers.avoidance import Avoidance, avoided_nodes, why_no_other_room
from moorage.containers.caches.repository import note_use
from moorage.containers.capacity_repository import Room
from moorage.containers.fixes import next_larger
from moorage.containers.models import ReplicaRow
from moorage.containers.reconciler.engine_calls import EngineCalls
from moorage.containers.reconciler.gpu_watch import GpuWatch
from moorage.containers.reconciler.loading_repository import Loaded
from moorage.containers.spec import ContainerSettings, RegistryProvider
from moorage.containers.states import LIVE
from moorage.engines.base import MachineKey
from moorage.engines.engines import Engines
from moorage.kit.database import Database
from moorage.kit.errors import EngineError
from moorage.kit.settings import Settings

_MORE_CHOICES = 8


@dataclass
class Placing:
    database: Database
    engines: Engines
    settings: Settings
    calls: EngineCalls
    gpu_watch: GpuWatch
    looks_at: int = 64
    """So many machines, and as many more as a container has replicas, before it looks at all of them."""

    async def room(self, loaded: Loaded) -> Room:
        """The machines that it may go to. Of many, some at random are enough where they have room for all of it: a start takes
        as long as among few, and those that start at the same time seldom wait for each other's machines."""
        replicas = loaded.container.desired_replicas
        most = self.looks_at + replicas
        if len(self.engines) > most:
            async with self.database.reading() as session:
                some = await capacity_repository.load_some_room(
                    session, loaded.instance_type, most, _having(loaded)
                )
            some = await self._open_to(loaded, some)
            if self.room_for(loaded, some) >= replicas:
                return some
        return await self._whole_room(loaded)

    async def _whole_room(self, loaded: Loaded) -> Room:
        async with self.database.reading() as session:
            room = await capacity_repository.load_room(session)
        return await self._open_to(loaded, room)

    async def _open_to(self, loaded: Loaded, room: Room) -> Room:
        """Without machines that it stays away from, or cannot run on."""
        avoided, known = self.avoided(loaded), self.engines.by_name()
        there = [
            node
            for node in self.gpu_watch.with_broken(room.nodes)
            if node.name not in avoided and node.engine in known
        ]
        if loaded.container.settings.get("cache_gib"):
            there = [node for node in there if not self.engines.places(node.engine)]
        unfit = self.calls.unfit.of(loaded.container)
        # Where nothing else is left, it fails there, and says why.
        there = [node for node in there if node.engine not in unfit] or there
        gpu_environment = loaded.container.image_gpu_environment
        if gpu_environment and loaded.instance_type.gpu_count:
            there = [node for node in there if too_old_for(node, gpu_environment) is None]
        settings = ContainerSettings.from_json(loaded.container.settings)
        if settings.registry_provider is RegistryProvider.LOCAL and len(known) > 1:
            having = await self.calls.engines_with(
                settings.image, {node.engine for node in there if node.takes_replicas}
            )
            without = tuple(node for node in there if node.takes_replicas and node.engine not in having)
            there = [node for node in there if node.engine in having or not node.takes_replicas]
            return replace(room, nodes=there, without_image=without)
        return replace(room, nodes=there)

    def avoided(self, loaded: Loaded) -> tuple[str, ...]:
        row = loaded.container
        return avoided_nodes(
            Avoidance.from_json(row.avoidance),
            generation=row.generation,
            serving_generation=row.serving_generation,
            now=loaded.now,
        )

    def room_for(self, loaded: Loaded, room: Room) -> int:
        return room_for(loaded.instance_type, room.nodes, room.used, self.settings.cpu_overcommit)

    def why_no_room(self, loaded: Loaded, room: Room) -> str:
        instance_type, avoidance = loaded.instance_type, Avoidance.from_json(loaded.container.avoidance)
        avoided = self.avoided(loaded)
        if room_for(instance_type, room.without_image, room.used, self.settings.cpu_overcommit):
            return why_waiting_for_image(ContainerSettings.from_json(loaded.container.settings).image)
        if avoidance is None or not avoided:
            return why_waiting(instance_type, room.nodes, room.used, self.settings.cpu_overcommit)
        return why_no_other_room(instance_type.gpu_model or instance_type.name, avoided, avoidance.until)

    async def larger_type(self, loaded: Loaded, room: Room) -> str | None:
        """The next larger type that some machine could hold."""
        room = room if room.whole else await self._whole_room(loaded)
        async with self.database.reading() as session:
            catalogue = await list_instance_types(session)
        possible = [
            one
            for one in catalogue
            if one.enabled and room_for(one, room.nodes, {}, self.settings.cpu_overcommit)
        ]
        larger = next_larger(loaded.instance_type, possible)
        return larger.name if larger is not None else None

    async def first_engine(self, loaded: Loaded, room: Room) -> str:
        """Where its image is fetched first: where the first replica would go, or could if there were room. Where none
        could, on any machine that answers: it waits, and says for what."""
        names = list(self.engines.by_name())
        if len(names) == 1:
            return names[0]
        room = room if room.nodes else await self.room(loaded)
        overcommit = self.settings.cpu_overcommit
        having = _having(loaded)
        first = place(loaded.instance_type, room.nodes, room.used, overcommit, having=having) or place(
            loaded.instance_type, room.nodes, {}, overcommit, having=having
        )
        if first is not None:
            return first.engine
        answering = [node.engine for node in room.nodes if node.ready]
        if not answering:
            raise EngineError("No machine answers.")
        return answering[0]

    def choices(self, loaded: Loaded, room: Room) -> Collection[MachineKey]:
        """The machines that an admission chooses among: a few more than it needs, because others choose at the same time, and
        not all of them, because others wait for those that it locks."""
        best = best_machines(
            loaded.instance_type,
            room.nodes,
            room.used,
            self.settings.cpu_overcommit,
            _siblings(loaded),
            _having(loaded),
            most=loaded.container.desired_replicas + _MORE_CHOICES,
        )
        return {node.key for node in best}

    async def admit(
        self,
        session: AsyncSession,
        loaded: Loaded,
        room: Room,
        choices: Collection[MachineKey],
        slots: Sequence[int],
    ) -> list[ReplicaRow]:
        """Insert replicas in slots that have an hour, each where there is room. Under the capacity locks of the choices,
        because the plan's idea of the room may be older than another container's admission; what does not fit waits for
        the next pass, as does what could not be paid."""
        if not slots:
            return []
        used = await capacity_repository.used_capacity(session, {machine.engine for machine in choices})
        nodes = [node for node in room.nodes if node.key in choices]
        siblings, having = _siblings(loaded), _having(loaded)
        with_cache = ContainerSettings.from_json(loaded.container.settings).cache_gib is not None
        created = []
        for slot in slots:
            placement = place(
                loaded.instance_type, nodes, used, self.settings.cpu_overcommit, siblings, having
            )
            if placement is None:
                break
            ports = None if self.engines.places(placement.engine) else self.settings.replica_port_range
            row = await capacity_repository.insert_replica(session, loaded.container, slot, placement, ports)
            created.append(row)
            if with_cache and keeps_caches(loaded.instance_type):
                await note_use(session, loaded.container.id, placement.engine, placement.node)
            siblings[placement.machine] += 1
            held = used.get(placement.machine, Used())
            used[placement.machine] = replace(
                held,
                cpu_millis=held.cpu_millis + loaded.instance_type.vcpu_millis,
                memory_bytes=held.memory_bytes + loaded.instance_type.memory_bytes,
                gpu_device_ids=held.gpu_device_ids | set(placement.gpu_device_ids),
            )
        return created


def _siblings(loaded: Loaded) -> Counter[MachineKey]:
    """How many of its replicas each machine has. Of those that are to take over from others, only of their own: they
    begin where the others have filled a cache."""
    return Counter(
        MachineKey(row.engine, row.node)
        for row in loaded.replicas
        if row.state in LIVE
        and row.moving_since is None
        and (not loaded.caches or row.generation == loaded.container.generation)
    )


def _having(loaded: Loaded) -> frozenset[MachineKey]:
    """Machines that keep a cache for it, with something in it."""
    return frozenset(
        MachineKey(one.engine, one.node)
        for one in loaded.caches
        if one.deleting_at is None and (one.warm_version or one.size_bytes)
    )
