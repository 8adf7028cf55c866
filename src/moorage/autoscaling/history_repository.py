"""SQL of a container's history: the minutes that the metrics keep for a month."""

from datetime import UTC, datetime

from sqlalchemy import BigInteger, cast, func, select
from sqlalchemy.dialects.postgresql import aggregate_order_by
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.autoscaling.pattern import MINUTE_S, Demand
from moorage.telemetry.metrics.models import ContainerStepRow


async def read_minutes(session: AsyncSession, container_id: str, first: int, until: int) -> Demand | None:
    """From its first minute with demand on, before `until`; both count minutes since the epoch. None: there was none.

    As two arrays: twenty thousand rows would keep the loop busy for longer than the database.
    """
    row = ContainerStepRow
    minute = cast(func.extract("epoch", row.at), BigInteger) / MINUTE_S
    query = select(
        func.array_agg(aggregate_order_by(cast(minute, BigInteger), row.at)),
        func.array_agg(aggregate_order_by(row.in_flight_mean, row.at)),
    ).where(
        row.container_id == container_id,
        row.step_s == MINUTE_S,
        row.at >= datetime.fromtimestamp(first * MINUTE_S, UTC),
        row.at < datetime.fromtimestamp(until * MINUTE_S, UTC),
    )
    minutes, means = (await session.execute(query)).one()
    if not minutes:
        return None
    levels = [0.0] * (until - minutes[0])
    for at, mean in zip(minutes, means, strict=True):
        levels[at - minutes[0]] = mean
    return Demand(minutes[0], levels)
