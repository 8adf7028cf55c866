from collections.abc import Sequence
from dataclasses import asdict, replace

from sqlalchemy import delete, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.catalog.capacity import InstanceType
from moorage.catalog.defaults import default_catalogue
from moorage.catalog.models import InstanceTypeRow, NodeRow
from moorage.engines.base import GpuDevice, HostFinding, NodeCapacity


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


async def keep_instance_type(session: AsyncSession, name: str) -> InstanceTypeRow | None:
    """While the caller holds the answer, `find_instance_type` asks nobody: a session forgets rows that nobody holds."""
    return await session.get(InstanceTypeRow, name)


async def list_nodes(session: AsyncSession) -> list[NodeCapacity]:
    rows = await session.execute(select(NodeRow).order_by(NodeRow.name))
    return [
        NodeCapacity(
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
        )
        for row in rows.scalars()
    ]


async def nodes_seen_s_ago(session: AsyncSession) -> dict[str, float]:
    """By machine: for how long its engine has not described it."""
    age_s = func.extract("epoch", func.clock_timestamp() - NodeRow.seen_at)
    return {name: float(seconds) for name, seconds in await session.execute(select(NodeRow.name, age_s))}


async def lock_instance_type(session: AsyncSession, name: str) -> InstanceTypeRow | None:
    query = select(InstanceTypeRow).where(InstanceTypeRow.name == name).with_for_update()
    return (await session.execute(query)).scalar_one_or_none()


async def next_position(session: AsyncSession) -> int:
    return (
        await session.execute(select(func.coalesce(func.max(InstanceTypeRow.position), -1) + 1))
    ).scalar_one()


async def replace_nodes(session: AsyncSession, nodes: Sequence[NodeCapacity]) -> None:
    """The engine's list is complete: what is not in it is gone."""
    nodes = await _by_known_names(session, nodes)
    await session.execute(delete(NodeRow).where(NodeRow.name.not_in([node.name for node in nodes])))
    for node in nodes:
        values = {**asdict(node), "seen_at": func.now()}
        upsert = (
            insert(NodeRow).values(values).on_conflict_do_update(index_elements=[NodeRow.name], set_=values)
        )
        await session.execute(upsert)


async def record_images(session: AsyncSession, count: int, size_bytes: int) -> None:
    """What the engine keeps of images that were pulled."""
    await session.execute(update(NodeRow).values(images=count, images_bytes=size_bytes))


async def images_of_nodes(session: AsyncSession) -> dict[str, tuple[int, int]]:
    """How many each machine keeps, and their size in bytes."""
    query = select(NodeRow.name, NodeRow.images, NodeRow.images_bytes)
    return {row.name: (row.images, row.images_bytes) for row in await session.execute(query)}


async def _by_known_names(session: AsyncSession, nodes: Sequence[NodeCapacity]) -> list[NodeCapacity]:
    """A machine keeps the name that it was first known by, for as long as its engine is the same. Replicas' rows say
    where they are by that name: under another the machine would look empty, and its memory and GPUs be given out again."""
    query = select(NodeRow.engine_identity, NodeRow.name).where(NodeRow.engine_identity.is_not(None))
    known = {row.engine_identity: row.name for row in await session.execute(query)}
    return [replace(node, name=known.get(node.engine_identity, node.name)) for node in nodes]


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
