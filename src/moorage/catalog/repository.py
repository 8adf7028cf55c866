import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import ColumnElement, Row, String, any_, bindparam, delete, func, literal, or_, select, update
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, insert
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.catalog.capacity import InstanceType
from moorage.catalog.defaults import default_catalogue
from moorage.catalog.models import InstanceTypeRow, NodeRow
from moorage.catalog.siblings import sibling_of
from moorage.engines.base import LOCAL_ENGINE, GpuDevice, HostFinding, MachineKey, NodeCapacity
from moorage.kit.database import table_of


class Intake(StrEnum):
    """What the operator lets a machine do."""

    OPEN = "open"
    CORDONED = "cordoned"
    """Nothing new starts there."""
    DRAINING = "draining"
    """Nor does anything stay: what runs there moves elsewhere."""


def intake_of(node: NodeCapacity) -> Intake:
    return _intake(cordoned=node.cordoned, draining=node.draining)


def _intake(*, cordoned: bool, draining: bool) -> Intake:
    if draining:
        return Intake.DRAINING
    return Intake.CORDONED if cordoned else Intake.OPEN


async def fill_empty_catalogue(session: AsyncSession) -> None:
    """Only a catalogue with nothing in it: what the operator removed stays removed."""
    if (await session.execute(select(func.count()).select_from(InstanceTypeRow))).scalar_one() == 0:
        rows = [{**asdict(entry), "position": index} for index, entry in enumerate(default_catalogue())]
        await session.execute(insert(InstanceTypeRow).values(rows).on_conflict_do_nothing())


async def list_instance_types(session: AsyncSession) -> list[InstanceType]:
    rows = await session.execute(
        select(InstanceTypeRow).order_by(InstanceTypeRow.position, InstanceTypeRow.name)
    )
    return [_instance_type(row) for row in rows.scalars()]


async def find_instance_type(session: AsyncSession, name: str) -> InstanceType | None:
    row = await session.get(InstanceTypeRow, name)
    return _instance_type(row) if row is not None else None


async def find_sibling(session: AsyncSession, instance_type: InstanceType) -> InstanceType | None:
    return sibling_of(instance_type, await list_instance_types(session))


async def keep_instance_type(session: AsyncSession, name: str) -> InstanceTypeRow | None:
    """While the caller holds the answer, `find_instance_type` asks nobody: a session forgets rows that nobody holds."""
    return await session.get(InstanceTypeRow, name)


async def described_engines(session: AsyncSession) -> set[str]:
    """Those of which a machine is known."""
    return set((await session.execute(select(NodeRow.engine).distinct())).scalars())


# Columns and not objects, and made once: every pass that starts something reads machines.
_NODES = select(table_of(NodeRow)).order_by(NodeRow.name, NodeRow.engine)
_NODES_FOR = (
    select(table_of(NodeRow))
    .where(
        NodeRow.infrastructure == bindparam("infrastructure"),
        NodeRow.gpus.contains(bindparam("gpus", type_=JSONB)),
    )
    .order_by(NodeRow.lot)
)
_FROM_LOT, _BEFORE_LOT = (
    _NODES_FOR.where(condition).limit(bindparam("most"))
    for condition in (NodeRow.lot >= bindparam("lot"), NodeRow.lot < bindparam("lot"))
)


async def list_nodes(session: AsyncSession) -> list[NodeCapacity]:
    return [_node(row) for row in await session.execute(_NODES)]


async def some_nodes(session: AsyncSession, instance_type: InstanceType, most: int) -> list[NodeCapacity]:
    """At most so many machines of those with the type's GPU: neighbours by lot, from a lot at random on, so that the others are not
    read. Whether it fits there is not asked."""
    asked = {**_fit_for(instance_type), "lot": random.random()}  # noqa: S311 - not a secret
    found = list(await session.execute(_FROM_LOT, {**asked, "most": most}))
    if (missing := most - len(found)) > 0:
        found += await session.execute(_BEFORE_LOT, {**asked, "most": missing})
    return [_node(row) for row in found]


async def nodes_for(session: AsyncSession, instance_type: InstanceType) -> list[NodeCapacity]:
    """All machines with the type's GPU."""
    return [_node(row) for row in await session.execute(_NODES_FOR, _fit_for(instance_type))]


async def nodes_of(session: AsyncSession, machines: Collection[MachineKey]) -> list[NodeCapacity]:
    """These, as far as they are there."""
    rows = await session.execute(_NODES.where(_of({one.engine for one in machines})))
    return [node for node in map(_node, rows) if node.key in machines]


def _fit_for(instance_type: InstanceType) -> dict[str, Any]:
    gpus = [{"model": instance_type.gpu_model}] if instance_type.gpu_model is not None else []
    return {"infrastructure": instance_type.infrastructure, "gpus": gpus}


def _node(row: Row[Any]) -> NodeCapacity:
    return NodeCapacity(
        row.name,
        row.infrastructure,
        row.architecture,
        row.cpu_millis,
        row.memory_bytes,
        tuple(GpuDevice(**gpu) for gpu in row.gpus),
        row.gpu_driver,
        row.cuda_version,
        row.engine_identity,
        row.closed_because,
        tuple(row.weaknesses),
        row.gpu_handover,
        row.gpu_handover_reason,
        tuple(HostFinding(**finding) for finding in row.findings),
        schedulable=row.schedulable,
        engine=row.engine,
        ready=row.ready,
        unready_since=row.unready_since,
        cordoned=row.cordoned_at is not None,
        draining=row.draining_at is not None,
        owner=row.owner,
        on_probation=row.on_probation,
    )


async def nodes_seen_s_ago(session: AsyncSession) -> dict[MachineKey, float]:
    """By machine: for how long its engine has not described it."""
    age_s = func.extract("epoch", func.clock_timestamp() - NodeRow.seen_at)
    query = select(NodeRow.engine, NodeRow.name, age_s)
    return {
        MachineKey(engine, name): float(seconds) for engine, name, seconds in await session.execute(query)
    }


async def lock_instance_type(session: AsyncSession, name: str) -> InstanceTypeRow | None:
    query = select(InstanceTypeRow).where(InstanceTypeRow.name == name).with_for_update()
    return (await session.execute(query)).scalar_one_or_none()


async def next_position(session: AsyncSession) -> int:
    return (
        await session.execute(select(func.coalesce(func.max(InstanceTypeRow.position), -1) + 1))
    ).scalar_one()


async def replace_nodes(
    session: AsyncSession, nodes: Sequence[NodeCapacity], engine: str = LOCAL_ENGINE
) -> None:
    """The engine's list is complete: of its machines, what is not in it is gone. Whether one that is known is ready is for
    `note_answers` to say; a new one is."""
    await replace_nodes_of(session, {engine: nodes})


async def replace_nodes_of(
    session: AsyncSession, described: Mapping[str, Sequence[NodeCapacity]]
) -> set[MachineKey]:
    """Of several engines, each with its complete list. Returns the machines that nobody knew."""
    query = select(NodeRow.engine, NodeRow.engine_identity, NodeRow.name).where(_of(described))
    known = list(await session.execute(query))
    # A machine keeps the name that it was first known by, for as long as its engine is the same. Replicas' rows say where
    # they are by that name: under another the machine would look empty, and its memory and GPUs be given out again.
    names = {(row.engine, row.engine_identity): row.name for row in known if row.engine_identity is not None}
    rows = [
        {
            **{name: value for name, value in asdict(node).items() if name not in _NOT_THE_ENGINES},
            "engine": engine,
            "name": names.get((engine, node.engine_identity), node.name),
        }
        for engine, nodes in sorted(described.items())
        for node in nodes
    ]
    there = {(row["engine"], row["name"]) for row in rows}
    for engine, name in {(row.engine, row.name) for row in known} - there:
        await session.execute(delete(NodeRow).where(NodeRow.engine == engine, NodeRow.name == name))
    if rows:
        insertion = insert(table_of(NodeRow)).values({"seen_at": func.now(), "ready": True})
        said = {name: insertion.excluded[name] for name in rows[0]}
        key = [NodeRow.engine, NodeRow.name]
        upsert = insertion.on_conflict_do_update(index_elements=key, set_={**said, "seen_at": func.now()})
        await session.execute(upsert, rows)  # one statement, whatever their number
    return {MachineKey(*one) for one in there - {(row.engine, row.name) for row in known}}


_NOT_THE_ENGINES = frozenset(
    {"engine", "ready", "unready_since", "cordoned", "draining", "owner", "on_probation"}
)
"""What a machine's row says and its engine does not."""


async def note_silence(session: AsyncSession, engine: str, silent_s: float) -> bool:
    """The engine has not answered for so long. Whether that is news of any of its machines."""
    silent = (
        update(NodeRow)
        .where(NodeRow.engine == engine, NodeRow.ready)
        .values(ready=False, unready_since=func.now() - timedelta(seconds=silent_s))
        .returning(NodeRow.name)
    )
    return bool((await session.execute(silent)).all())


async def is_silent(session: AsyncSession, engine: str, at_least: timedelta) -> bool:
    """Whether it has not answered for so long, properly and to whoever asks it for something."""
    silent = NodeRow.unready_since <= func.now() - at_least
    query = select(NodeRow.name).where(NodeRow.engine == engine, ~NodeRow.ready, silent)
    return (await session.execute(query.limit(1))).first() is not None


async def note_answers(
    session: AsyncSession, engines: Collection[str], not_ready: Collection[str] = ()
) -> set[str]:
    """These engines answer, and so do those that are not ready yet all the same. Of which of the first that is news about any
    machine."""
    heard = _of({*engines, *not_ready}) & ~NodeRow.ready
    # Whoever writes several machines takes them in this order: docs/locking.md.
    locked = select(NodeRow.engine).where(heard).order_by(NodeRow.engine, NodeRow.name).with_for_update()
    news = set((await session.execute(locked)).scalars())
    if back := news & {*engines}:
        await session.execute(update(NodeRow).where(_of(back)).values(ready=True, unready_since=None))
    if news - back:
        await session.execute(update(NodeRow).where(_of(news - back)).values(unready_since=func.now()))
    return back


def _of(engines: Collection[str]) -> ColumnElement[bool]:
    return NodeRow.engine == any_(literal(sorted(engines), ARRAY(String)))


async def forget_engine(session: AsyncSession, engine: str) -> None:
    """Its machines left for good: what ran there is gone."""
    await session.execute(delete(NodeRow).where(NodeRow.engine == engine))


async def set_intake(session: AsyncSession, engine: str, name: str, intake: Intake) -> Intake | None:
    """What it was before. None where the engine has no machine of that name."""
    machine = (NodeRow.engine == engine) & (NodeRow.name == name)
    asked = select(NodeRow.cordoned_at, NodeRow.draining_at).where(machine).with_for_update()
    found = (await session.execute(asked)).first()
    if found is None:
        return None
    closed_at = func.coalesce(NodeRow.cordoned_at, func.now()) if intake is not Intake.OPEN else None
    draining_at = func.coalesce(NodeRow.draining_at, func.now()) if intake is Intake.DRAINING else None
    changed = update(NodeRow).where(machine).values(cordoned_at=closed_at, draining_at=draining_at)
    await session.execute(changed)
    return _intake(cordoned=found.cordoned_at is not None, draining=found.draining_at is not None)


async def described_gpus(session: AsyncSession) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """By engine: the devices that its machines said they have; and those of machines that answer."""
    said: dict[str, list[str]] = {}
    ready: dict[str, list[str]] = {}
    for engine, gpus, answers in await session.execute(select(NodeRow.engine, NodeRow.gpus, NodeRow.ready)):
        for found in (said, ready) if answers else (said,):
            found.setdefault(engine, []).extend(gpu["device_id"] for gpu in gpus)
    return said, ready


async def set_lending(
    session: AsyncSession,
    engine: str,
    owner: str | None,
    *,
    on_probation: bool,
    empty_by: datetime | None,
) -> None:
    """What its machine's row says, for whoever places replicas there."""
    said = {"owner": owner, "on_probation": on_probation, "empty_by": empty_by}
    differs = or_(*(getattr(NodeRow, name).is_distinct_from(value) for name, value in said.items()))
    await session.execute(update(NodeRow).where(NodeRow.engine == engine, differs).values(said))


async def follow_intakes(session: AsyncSession, engine: str, nodes: Sequence[NodeCapacity]) -> None:
    """A cluster's operator says to the cluster which machines are to be empty (`kubectl cordon`)."""
    known = {node.name: intake_of(node) for node in await list_nodes(session) if node.engine == engine}
    for node in sorted(nodes, key=lambda node: node.name):  # docs/locking.md
        if node.name in known and known[node.name] is not intake_of(node):
            await set_intake(session, engine, node.name, intake_of(node))


@dataclass(frozen=True)
class Kept:
    """Images that were pulled and are kept."""

    count: int
    size_bytes: int


async def record_images(session: AsyncSession, kept: Mapping[str, Kept]) -> None:
    """Of each engine."""
    nodes = table_of(NodeRow)
    said = (
        update(nodes)
        .where(nodes.c.engine == bindparam("of"))
        .values(images=bindparam("count"), images_bytes=bindparam("size"))
    )
    await session.execute(
        said, [{"of": name, "count": one.count, "size": one.size_bytes} for name, one in sorted(kept.items())]
    )


async def images_of_nodes(session: AsyncSession) -> dict[MachineKey, tuple[int, int]]:
    """How many each machine keeps, and their size in bytes."""
    query = select(NodeRow.engine, NodeRow.name, NodeRow.images, NodeRow.images_bytes)
    return {
        MachineKey(row.engine, row.name): (row.images, row.images_bytes)
        for row in await session.execute(query)
    }


def _instance_type(row: InstanceTypeRow) -> InstanceType:
    return InstanceType(
        row.name,
        row.gpu_model,
        row.gpu_count,
        row.vcpu_millis,
        row.memory_bytes,
        row.disk_bytes,
        row.price_per_hour_microusd,
        row.infrastructure,
        row.enabled,
    )
