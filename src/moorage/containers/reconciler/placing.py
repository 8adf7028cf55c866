"""Where a container's next replicas may go: what the machines have left for it, and the rows that take it."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.catalog.capacity import (
    InstanceType,
    Placement,
    Used,
    Warmth,
    best_machines,
    keeps_caches,
    place,
    room_for,
)
from moorage.catalog.driver_fit import too_old_for
from moorage.catalog.repository import list_instance_types
from moorage.catalog.shortage import why_waiting, why_waiting_for_image, why_waiting_for_trusted
from moorage.catalog.siblings import OPERATOR
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
from moorage.engines.base import MachineKey, NodeCapacity
from moorage.engines.engines import Engines
from moorage.kit.database import Database
from moorage.kit.errors import EngineError
from moorage.kit.settings import Settings
from moorage.kit.together import Together

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
    _all: Together[str, None, Room] = field(init=False)
    """By container: those that find no room among some machines look at all of them together."""

    def __post_init__(self) -> None:
        self._all = Together(self._read_all, self.calls.clock, self.engines.pause_s)

    async def _read_all(self, containers: Mapping[str, None]) -> Mapping[str, Room]:
        async with self.database.reading() as session:
            return dict.fromkeys(containers, await capacity_repository.load_room(session))

    async def room(self, loaded: Loaded) -> Room:
        """The machines that it may go to. Of many, some at random are enough where they have room for all of it: a start takes
        as long as among few, and those that start at the same time seldom wait for each other's machines."""
        replicas = loaded.container.desired_replicas
        most = self.looks_at + replicas
        if len(self.engines) > most:
            async with self.database.reading() as session:
                some = await capacity_repository.load_some_room(session, loaded.types, most, _warmth(loaded))
            some = await self._open_to(loaded, some)
            if self.room_for(loaded, some) >= replicas:
                return some
            return await self._open_to(loaded, await self._all.ask(loaded.container.id, None))
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
        settings = ContainerSettings.from_json(loaded.container.settings)
        if not settings.accept_exposure:
            # Whoever makes one has to say so; one from before anybody was asked may be of a stranger's type all the same.
            there = [node for node in there if node.infrastructure == OPERATOR]
        owners = {node.key: node.owner for node in room.nodes if node.owner is not None}
        room = replace(room, owners=owners)
        if owners:
            there = await self._without_losing(loaded, room, there)
        if not _has_company(loaded):
            alone = [node for node in there if node.on_probation]
            there = [node for node in there if not node.on_probation]
            room = replace(room, only_beside_others=alone)
        unfit = self.calls.unfit.of(loaded.container)
        # Where nothing else is left, it fails there, and says why.
        there = [node for node in there if node.engine not in unfit] or there
        gpu_environment = loaded.container.image_gpu_environment
        if gpu_environment and loaded.instance_type.gpu_count:
            there = [node for node in there if too_old_for(node, gpu_environment) is None]
        if settings.registry_provider is RegistryProvider.LOCAL and len(known) > 1:
            having = await self.calls.engines_with(
                settings.image, {node.engine for node in there if node.takes_replicas}
            )
            without = tuple(node for node in there if node.takes_replicas and node.engine not in having)
            there = [node for node in there if node.engine in having or not node.takes_replicas]
            return replace(room, nodes=there, without_image=without)
        return replace(room, nodes=there)

    async def _without_losing(
        self, loaded: Loaded, room: Room, nodes: list[NodeCapacity]
    ) -> list[NodeCapacity]:
        """Without lent machines that lost two replicas within an hour, while others have room."""
        async with self.database.reading() as session:
            losing = await capacity_repository.engines_losing_replicas(session)
        others = [node for node in nodes if node.owner is None or node.engine not in losing]
        return others if self.room_for(loaded, replace(room, nodes=others)) else nodes

    def avoided(self, loaded: Loaded) -> tuple[str, ...]:
        row = loaded.container
        return avoided_nodes(
            Avoidance.from_json(row.avoidance),
            generation=row.generation,
            serving_generation=row.serving_generation,
            now=loaded.now,
        )

    def room_for(self, loaded: Loaded, room: Room) -> int:
        """Once the first has a place, others have one beside it too."""
        alone = self._room_on(loaded, room, room.nodes)
        return alone + self._room_on(loaded, room, room.only_beside_others) if alone else 0

    def _room_on(self, loaded: Loaded, room: Room, nodes: Sequence[NodeCapacity]) -> int:
        return sum(room_for(one, nodes, room.used, self.settings.cpu_overcommit) for one in loaded.types)

    def why_no_room(self, loaded: Loaded, room: Room) -> str:
        instance_type, avoidance = loaded.instance_type, Avoidance.from_json(loaded.container.avoidance)
        avoided = self.avoided(loaded)
        if room_for(instance_type, room.without_image, room.used, self.settings.cpu_overcommit):
            return why_waiting_for_image(ContainerSettings.from_json(loaded.container.settings).image)
        if self._room_on(loaded, room, room.only_beside_others):
            return why_waiting_for_trusted(instance_type)
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
        warmth = _warmth(loaded)
        for used in (room.used, {}):
            for instance_type in loaded.types:
                first = place(instance_type, room.nodes, used, overcommit, warmth=warmth)
                if first is not None:
                    return first.engine
        # An image is shown to nobody whom its container is not to be shown to, not even to wait there.
        kinds = {OPERATOR, *(one.infrastructure for one in loaded.types)}
        nodes = [*room.nodes, *room.only_beside_others]
        answering = [node.engine for node in nodes if node.ready and node.infrastructure in kinds]
        if not answering:
            raise EngineError("No machine answers.")
        return answering[0]

    def choices(self, loaded: Loaded, room: Room) -> Collection[MachineKey]:
        """The machines that an admission chooses among: a few more than it needs, because others choose at the same time, and
        not all of them, because others wait for those that it locks."""
        return {
            node.key
            for instance_type in loaded.types
            for nodes in (room.nodes, room.only_beside_others)
            for node in best_machines(
                instance_type,
                nodes,
                room.used,
                self.settings.cpu_overcommit,
                _siblings(loaded),
                _warmth(loaded),
                _of_owners(loaded, room),
                most=loaded.container.desired_replicas + _MORE_CHOICES,
            )
        }

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
        chosen = replace(
            room,
            nodes=[node for node in room.nodes if node.key in choices],
            only_beside_others=[node for node in room.only_beside_others if node.key in choices],
        )
        with_cache = ContainerSettings.from_json(loaded.container.settings).cache_gib is not None
        created = []
        for slot, (taken, placement) in zip(slots, self.places(loaded, chosen, slots, used), strict=False):
            ports = None if self.engines.places(placement.engine) else self.settings.replica_port_range
            row = await capacity_repository.insert_replica(
                session, loaded.container, slot, placement, ports, taken.name
            )
            created.append(row)
            if with_cache and keeps_caches(taken):
                await note_use(session, loaded.container.id, placement.engine, placement.node)
        return created

    def places(
        self,
        loaded: Loaded,
        room: Room,
        slots: Sequence[int],
        used: Mapping[MachineKey, Used],
    ) -> Iterator[tuple[InstanceType, Placement]]:
        """Where the replicas of these slots go, each beside those before it, for as long as there is room."""
        used, siblings, of_owners = dict(used), _siblings(loaded), _of_owners(loaded, room)
        warmth, nodes = _warmth(loaded), room.nodes
        for slot in slots:
            taken, placement = self._placed(loaded, nodes, used, siblings, warmth, of_owners)
            if placement is None:
                return
            yield taken, placement
            if slot == loaded.first_slot:
                nodes = [*room.nodes, *room.only_beside_others]
            siblings[placement.machine] += 1
            if placement.machine in room.owners:
                of_owners[room.owners[placement.machine]] += 1
            held = used.get(placement.machine, Used())
            used[placement.machine] = replace(
                held,
                cpu_millis=held.cpu_millis + loaded.instance_type.vcpu_millis,
                memory_bytes=held.memory_bytes + loaded.instance_type.memory_bytes,
                gpu_device_ids=held.gpu_device_ids | set(placement.gpu_device_ids),
            )

    def _placed(
        self,
        loaded: Loaded,
        nodes: Sequence[NodeCapacity],
        used: Mapping[MachineKey, Used],
        siblings: Mapping[MachineKey, int],
        warmth: Mapping[MachineKey, Warmth],
        of_owners: Mapping[str, int],
    ) -> tuple[InstanceType, Placement | None]:
        """The first of its types that has room, and where; None where none has."""
        for instance_type in loaded.types:
            found = place(
                instance_type, nodes, used, self.settings.cpu_overcommit, siblings, warmth, of_owners
            )
            if found is not None:
                return instance_type, found
        return loaded.instance_type, None


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


def _warmth(loaded: Loaded) -> dict[MachineKey, Warmth]:
    """Of machines that keep a cache for it, with something in it."""
    version = loaded.container.version
    return {
        MachineKey(one.engine, one.node): Warmth.WHOLE if one.warm_version >= version else Warmth.SOME
        for one in loaded.caches
        if one.deleting_at is None and (one.warm_version or one.size_bytes)
    }


def _of_owners(loaded: Loaded, room: Room) -> Counter[str]:
    """How many of its replicas each owner of machines has. The operator's own are nobody's: they go one by one."""
    counted: Counter[str] = Counter()
    for machine, replicas in _siblings(loaded).items():
        if machine in room.owners:
            counted[room.owners[machine]] += replicas
    return counted


def _has_company(loaded: Loaded) -> bool:
    """Whether its first slot, the one that stays when it scales down to one, has a replica: then others may be where they are lost
    more easily. What takes its place is never on probation either, nor is what may: a canary begins with slots of its own."""
    return any(
        row.slot == loaded.first_slot
        and row.state in LIVE
        and row.moving_since is None
        and row.generation == loaded.container.generation
        for row in loaded.replicas
    )
