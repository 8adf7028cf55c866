"""SQL of what the machines hold and of what is admitted to them. A row here is a promise of room, a port and perhaps
a GPU; it is made under a lock, before the engine hears of it."""

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from sqlalchemy import BigInteger, ColumnElement, String, any_, bindparam, func, literal, select, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.catalog.capacity import InstanceType, Placement, Used
from moorage.catalog.models import InstanceTypeRow
from moorage.catalog.repository import list_nodes, nodes_of, some_nodes
from moorage.containers.models import ContainerRow, ReplicaRow
from moorage.containers.states import Reason, ReplicaState
from moorage.engines.base import MachineKey, NodeCapacity
from moorage.kit.errors import EngineError
from moorage.kit.ids import new_replica_id

_PORTS_TO_TRY = 32
HOLDS_RESOURCES = (
    ReplicaState.REQUESTED,
    ReplicaState.STARTING,
    ReplicaState.READY,
    ReplicaState.ROUTED,
    ReplicaState.DRAINING,
)
NOT_REMOVED = text("replicas.state <> 'removed'")
"""Beside another condition on the state it says nothing new, but lets Postgres use the small indexes of those that are not removed."""
CAPACITY_LOCK = 0x6D6F6F72_63617061
"""Advisory, of each machine: one admission to it at a time, so that two cannot take the last place."""


@dataclass(frozen=True)
class Room:
    """The machines, and what the replicas on them hold."""

    nodes: Sequence[NodeCapacity] = ()
    used: Mapping[MachineKey, Used] = field(default_factory=dict)
    without_image: Sequence[NodeCapacity] = ()
    """Machines that would take a replica and do not have its local image."""
    only_beside_others: Sequence[NodeCapacity] = ()
    """Machines on probation, that would take a replica if it were not the container's only one."""
    owners: Mapping[MachineKey, str] = field(default_factory=dict)
    """Of machines that are lent."""
    whole: bool = True
    """Of all machines; otherwise of some that have room enough for the container that asks."""


async def load_room(session: AsyncSession) -> Room:
    return Room(await list_nodes(session), await used_capacity(session))


async def load_some_room(
    session: AsyncSession, types: Sequence[InstanceType], most: int, having: Collection[MachineKey] = ()
) -> Room:
    """Of so many machines at random that may be fit for each type, and of those that have its cache."""
    nodes = [node for one in types for node in await some_nodes(session, one, most)]
    if having:
        missing = set(having) - {node.key for node in nodes}
        nodes += await nodes_of(session, missing)
    used = await used_capacity(session, {node.engine for node in nodes})
    return Room(nodes, used, whole=False)


# Made once, like the reconciler's other statements: to put it together takes longer than to run it.
_HELD = (
    select(
        ReplicaRow.engine,
        ReplicaRow.node,
        func.sum(InstanceTypeRow.vcpu_millis),
        func.sum(InstanceTypeRow.memory_bytes),
        # Only of those that have any: most replicas of a large installation may be of CPU types.
        func.array_agg(func.array_to_string(ReplicaRow.gpu_device_ids, ",")).filter(
            func.cardinality(ReplicaRow.gpu_device_ids) > 0
        ),
    )
    .join(InstanceTypeRow, InstanceTypeRow.name == ReplicaRow.instance_type)
    .where(ReplicaRow.state.in_(HOLDS_RESOURCES))
    .group_by(ReplicaRow.engine, ReplicaRow.node)
)
_HELD_ON = _HELD.where(NOT_REMOVED, ReplicaRow.engine == any_(bindparam("engines", type_=ARRAY(String))))


async def used_capacity(
    session: AsyncSession, engines: Collection[str] | None = None
) -> dict[MachineKey, Used]:
    """Of all machines, or of those of these engines."""
    found = (
        await session.execute(_HELD)
        if engines is None
        else await session.execute(_HELD_ON, {"engines": sorted(engines)})
    )
    return {
        MachineKey(engine, node): Used(
            int(cpu), int(memory), frozenset(gpu for joined in gpus or () for gpu in joined.split(",") if gpu)
        )
        for engine, node, cpu, memory, gpus in found
    }


def on_engines(engines: Collection[str]) -> ColumnElement[bool]:
    """Replicas that one of these has."""
    return ReplicaRow.engine == any_(literal(sorted(engines), ARRAY(String)))


async def replicas_by_engine(session: AsyncSession) -> dict[str, int]:
    """How many replicas have not ended on each."""
    query = select(ReplicaRow.engine, func.count()).where(ReplicaRow.state.in_(HOLDS_RESOURCES))
    return {row[0]: row[1] for row in await session.execute(query.group_by(ReplicaRow.engine))}


async def count_replicas(session: AsyncSession, engine: str) -> int:
    """How many have not ended on this one."""
    query = select(func.count()).where(
        NOT_REMOVED, ReplicaRow.state.in_(HOLDS_RESOURCES), ReplicaRow.engine == engine
    )
    return (await session.execute(query)).scalar_one()


async def replicas_by_machine(session: AsyncSession) -> dict[MachineKey, int]:
    query = select(ReplicaRow.engine, ReplicaRow.node, func.count()).where(
        ReplicaRow.state.in_(HOLDS_RESOURCES)
    )
    found = await session.execute(query.group_by(ReplicaRow.engine, ReplicaRow.node))
    return {MachineKey(engine, node): count for engine, node, count in found}


async def engines_losing_replicas(session: AsyncSession) -> set[str]:
    """Those whose machine lost two replicas within an hour, for an hour after that."""
    hour = timedelta(hours=1)
    before = func.lag(ReplicaRow.ended_at).over(partition_by=ReplicaRow.engine, order_by=ReplicaRow.ended_at)
    lost = (
        select(ReplicaRow.engine, ReplicaRow.ended_at.label("at"), before.label("before"))
        .where(
            ReplicaRow.reason.in_((Reason.NODE_LOST, Reason.GPU_LOST)),
            ReplicaRow.ended_at.between(func.now() - 2 * hour, func.now()),
        )
        .subquery()
    )
    twice = select(lost.c.engine).where(lost.c.at > func.now() - hour, lost.c.at - lost.c.before <= hour)
    return set((await session.execute(twice)).scalars())


_LOCK = text(
    "SELECT pg_advisory_xact_lock(hashtextextended(machine, :capacity)) FROM unnest(:machines) AS machine"
).bindparams(
    bindparam("machines", type_=ARRAY(String)), bindparam("capacity", CAPACITY_LOCK, type_=BigInteger)
)


async def lock_capacity(session: AsyncSession, machines: Collection[MachineKey]) -> None:
    """Of all machines that the admission may choose among, in one order for everybody: docs/locking.md."""
    await session.execute(_LOCK, {"machines": [f"{engine}/{node}" for engine, node in sorted(machines)]})


async def insert_replica(
    session: AsyncSession,
    container: ContainerRow,
    slot: int,
    placement: Placement,
    ports: tuple[int, int] | None,
    taken_type: str | None = None,
) -> ReplicaRow:
    """Without `ports` its engine gives it an address, and no port of a machine is held for it. `taken_type`: the container's own
    by default."""
    row = ReplicaRow(
        id=new_replica_id(),
        container_id=container.id,
        slot=slot,
        generation=container.generation,
        version=container.version,
        instance_type=container.instance_type,
        sibling_type=taken_type if taken_type != container.instance_type else None,
        state=ReplicaState.REQUESTED,
        engine=placement.engine,
        node=placement.node,
        engine_identity=placement.engine_identity,
        gpu_device_ids=list(placement.gpu_device_ids),
        host_port=await _free_port(session, placement.machine, ports) if ports is not None else None,
        port_released_at=func.now() if ports is None else None,
    )
    session.add(row)
    await session.flush()
    return row


async def _free_port(session: AsyncSession, machine: MachineKey, ports: tuple[int, int]) -> int:
    """Any port of the machine that is nobody's. At random, so that one just let go is rarely the next to be given out."""
    first, last = ports
    held = select(ReplicaRow.host_port).where(
        ReplicaRow.engine == machine.engine,
        ReplicaRow.node == machine.node,
        ReplicaRow.port_released_at.is_(None),
    )
    # A few tickets first: nearly always one of them is free, and nobody has to read thousands of rows.
    tickets = random.sample(range(first, last + 1), min(_PORTS_TO_TRY, last - first + 1))
    taken = set((await session.execute(held.where(ReplicaRow.host_port.in_(tickets)))).scalars())
    free = [port for port in tickets if port not in taken]
    if not free:
        taken = set((await session.execute(held)).scalars())
        free = [port for port in range(first, last + 1) if port not in taken]
    if not free:
        raise EngineError(
            f"All ports from {first} to {last} of {machine.node} are in use. Widen MOORAGE_REPLICA_PORTS."
        )
    return random.choice(free)  # noqa: S311 - not a secret
