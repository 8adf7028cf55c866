from collections.abc import Sequence
from dataclasses import asdict

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.catalog.capacity import InstanceType
from moorage.catalog.defaults import default_catalogue
from moorage.catalog.models import InstanceTypeRow, NodeRow
from moorage.engines.base import GpuDevice, NodeCapacity


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
        )
        for row in rows.scalars()
    ]


async def replace_nodes(session: AsyncSession, nodes: Sequence[NodeCapacity]) -> None:
    """The engine's list is complete: what is not in it is gone."""
    await session.execute(delete(NodeRow).where(NodeRow.name.not_in([node.name for node in nodes])))
    for node in nodes:
        values = {**asdict(node), "gpus": [asdict(gpu) for gpu in node.gpus], "seen_at": func.now()}
        upsert = (
            insert(NodeRow).values(values).on_conflict_do_update(index_elements=[NodeRow.name], set_=values)
        )
        await session.execute(upsert)


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
    )
