"""SQL of what starts took."""

from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import func, insert, literal, select
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.catalog.models import NodeRow
from moorage.containers.start_times.measuring import Measured, PastStep, Step
from moorage.containers.start_times.models import MeasuredStepRow
from moorage.kit.database import delete_portion, table_of

MOST_LOOKED_AT = 500
"""The newest, of its own and of each rate of others."""
_RATES = (Step.PULL, Step.DOWNLOAD)


async def record(
    session: AsyncSession,
    found: Sequence[Measured],
    *,
    organization_id: str,
    engine: str,
    instance_type: str,
    image: str,
) -> None:
    """Nothing of a machine that has left meanwhile."""
    for one in found:
        of_its_machine = select(
            literal(organization_id),
            NodeRow.infrastructure,
            literal(instance_type),
            literal(image),
            literal(one.step.value),
            literal(one.bytes),
            literal(one.took_s),
        ).where(NodeRow.engine == engine)
        columns = ["organization_id", "infrastructure", "instance_type", "image", "step", "bytes", "took_s"]
        await session.execute(insert(table_of(MeasuredStepRow)).from_select(columns, of_its_machine.limit(1)))


async def known_to(session: AsyncSession, organization_id: str) -> list[PastStep]:
    """Newest first: all of its own; of others how fast they pulled and downloaded, and neither what nor on what."""
    row = MeasuredStepRow
    own = select(row).where(row.organization_id == organization_id).order_by(row.at.desc(), row.id.desc())
    found = list((await session.execute(own.limit(MOST_LOOKED_AT))).scalars())
    for step in _RATES:
        others = select(row).where(row.step == step, row.organization_id != organization_id)
        newest = others.order_by(row.at.desc(), row.id.desc()).limit(MOST_LOOKED_AT)
        found += (await session.execute(newest)).scalars()
    return [
        PastStep(
            one.organization_id,
            one.infrastructure,
            one.instance_type,
            one.image,
            Step(one.step),
            one.bytes,
            one.took_s,
        )
        for one in found
    ]


async def purge_measured_steps(session: AsyncSession, kept: timedelta) -> int:
    return await delete_portion(session, MeasuredStepRow, MeasuredStepRow.at < func.now() - kept)
