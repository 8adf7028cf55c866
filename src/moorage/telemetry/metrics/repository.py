"""SQL of samples and steps."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta

from sqlalchemy import BigInteger, cast, delete, exists, func, literal_column, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from moorage.containers.models import ReplicaRow
from moorage.telemetry.metrics.models import ContainerSampleRow, ContainerStepRow, GatewayReportRow
from moorage.telemetry.metrics.samples import KEEP_SECONDS, STEPS, Sample, Step
from moorage.telemetry.metrics.series import ReadyTime
from moorage.telemetry.steps import Steps

_ROWS_PER_STATEMENT = 1000
CONTINUES_WITHIN = timedelta(seconds=5)
"""A gateway that reports again within this was not silent, only late."""
FALLS_SILENT_AFTER = timedelta(seconds=20)
"""A gateway that was silent for longer is not waited for."""


@dataclass(frozen=True)
class Report:
    """When a gateway reported."""

    gateway_id: str
    since: datetime
    until: datetime


async def store_samples(
    session: AsyncSession,
    gateway_id: str,
    samples: Sequence[Sample],
    first: datetime,
    last: datetime,
    *,
    begins: bool = False,
) -> None:
    """All that this gateway has to say about the seconds from `first` to `last`. Twice is as good as once. `begins`: of what was
    before, nobody there knows, however short ago that is."""
    # A crash of Postgres may take the last moment: nothing is charged by samples.
    await session.execute(select(func.set_config("synchronous_commit", "off", True)))
    for begin in range(0, len(samples), _ROWS_PER_STATEMENT):
        some = [asdict(sample) for sample in samples[begin : begin + _ROWS_PER_STATEMENT]]
        await session.execute(insert(ContainerSampleRow).values(some).on_conflict_do_nothing())
    await _take_back(session, gateway_id, last)
    newest = select(func.max(GatewayReportRow.since)).where(GatewayReportRow.gateway_id == gateway_id)
    continued = (
        update(GatewayReportRow)
        .where(
            GatewayReportRow.gateway_id == gateway_id,
            GatewayReportRow.since == newest.scalar_subquery(),
            GatewayReportRow.until >= first - CONTINUES_WITHIN,
        )
        .values(until=last)
        .returning(GatewayReportRow.since)
    )
    if begins or (await session.execute(continued)).scalar_one_or_none() is None:
        begun = insert(GatewayReportRow).values(gateway_id=gateway_id, since=first, until=last)
        said = {"until": begun.excluded.until}
        await session.execute(begun.on_conflict_do_update(index_elements=("gateway_id", "since"), set_=said))


async def _take_back(session: AsyncSession, gateway_id: str, last: datetime) -> None:
    """What this gateway said of times after its newest second was said before its clock was set back: then those seconds
    are still to come, and what they will hold is not known."""
    row = GatewayReportRow
    ahead = (
        select(row.since).where(row.gateway_id == gateway_id, row.until > last + CONTINUES_WITHIN).limit(1)
    )
    if (await session.execute(ahead)).first() is None:
        return
    sample = ContainerSampleRow
    await session.execute(delete(sample).where(sample.at > last, sample.gateway_id == gateway_id))
    await session.execute(delete(row).where(row.gateway_id == gateway_id, row.since > last))
    await session.execute(
        update(row).where(row.gateway_id == gateway_id, row.until > last).values(until=last)
    )


async def list_samples(
    session: AsyncSession, since: datetime, until: datetime, container_ids: Iterable[str] | None = None
) -> list[Sample]:
    """From `since` on and before `until`."""
    row = ContainerSampleRow
    # Columns and not objects: there are thousands, and an object that a session follows costs five times as much.
    columns = (row.container_id, row.gateway_id, row.at, row.in_flight, row.queued, row.requests, row.errors)
    query = select(*columns, row.response_ms).where(row.at >= since, row.at < until).order_by(row.at)
    if container_ids is not None:
        query = query.where(row.container_id.in_(list(container_ids)))
    return [Sample(*found) for found in await session.execute(query)]


async def list_merged_steps(
    session: AsyncSession, source_s: int, steps: Steps, until: datetime, container_id: str
) -> list[Step]:
    """As `samples.longer_steps` makes them, but in the database: a month of minutes is more than a loop should see."""
    row = ContainerStepRow
    at = func.date_bin(timedelta(seconds=steps.step_s), row.at, steps.first)
    share = source_s / steps.step_s
    weighted_ms = func.sum(row.response_ms * row.requests) / func.nullif(func.sum(row.requests), 0)
    query = (
        select(
            at,
            func.sum(row.in_flight_mean) * share,
            func.max(row.in_flight_max),
            func.sum(row.queued_mean) * share,
            cast(func.sum(row.requests), BigInteger),
            cast(func.sum(row.errors), BigInteger),
            func.coalesce(weighted_ms, 0.0),
        )
        .where(
            row.container_id == container_id,
            row.step_s == source_s,
            row.at >= steps.first,
            row.at < until,
        )
        .group_by(literal_column("1"))
        .order_by(literal_column("1"))
    )
    return [Step(container_id, *found) for found in await session.execute(query)]


async def list_steps(
    session: AsyncSession, step_s: int, since: datetime, until: datetime, container_id: str | None = None
) -> list[Step]:
    row = ContainerStepRow
    columns = (row.container_id, row.at, row.in_flight_mean, row.in_flight_max, row.queued_mean)
    query = select(*columns, row.requests, row.errors, row.response_ms).order_by(row.at)
    query = query.where(row.step_s == step_s, row.at >= since, row.at < until)
    if container_id is not None:
        query = query.where(row.container_id == container_id)
    return [Step(*found) for found in await session.execute(query)]


async def list_ready_times(
    session: AsyncSession, container_id: str, since: datetime, until: datetime
) -> list[ReadyTime]:
    """Of the replicas that were ready at any time between the two."""
    over = func.coalesce(ReplicaRow.draining_at, ReplicaRow.ended_at)
    query = select(ReplicaRow.ready_at, over).where(
        ReplicaRow.container_id == container_id,
        ReplicaRow.ready_at < until,
        (over.is_(None)) | (over >= since),
    )
    return [ReadyTime(ready_at, ended) for ready_at, ended in await session.execute(query) if ready_at]


async def list_reports(session: AsyncSession, since: datetime) -> list[Report]:
    """Of every gateway, those that reach into the time from `since` on, and the last one before."""
    row = GatewayReportRow
    query = select(row.gateway_id, row.since, row.until).order_by(row.since)
    newest_before = (
        select(row.gateway_id, func.max(row.since).label("since"))
        .where(row.until < since)
        .group_by(row.gateway_id)
        .subquery()
    )
    before = query.join(
        newest_before, (newest_before.c.gateway_id == row.gateway_id) & (newest_before.c.since == row.since)
    )
    found = [*await session.execute(before), *await session.execute(query.where(row.until >= since))]
    return [Report(*one) for one in found]


async def known_until(session: AsyncSession) -> datetime:
    """Up to when every gateway that reports has said what happened: from there on, nothing is known yet."""
    row, now = GatewayReportRow, func.clock_timestamp()
    last = select(func.max(row.until).label("at")).group_by(row.gateway_id).subquery()
    reports = last.c.at > now - FALLS_SILENT_AFTER
    behind = func.min(last.c.at).filter(reports)
    # Where none does, it was known until the last of them fell silent.
    query = select(func.coalesce(behind, func.max(last.c.at)), now)
    found = (await session.execute(query)).one()
    until: datetime = found[0] + timedelta(seconds=1) if found[0] is not None else found[1]
    return until


async def store_steps(session: AsyncSession, step_s: int, steps: Sequence[Step]) -> None:
    """Steps that are there already are replaced: made again from the same rows, they are the same or more complete."""
    for begin in range(0, len(steps), _ROWS_PER_STATEMENT):
        some = [{"step_s": step_s, **asdict(step)} for step in steps[begin : begin + _ROWS_PER_STATEMENT]]
        upsert = insert(ContainerStepRow).values(some)
        keys = ("step_s", "at", "container_id")
        values = {name: upsert.excluded[name] for name in some[0] if name not in keys}
        await session.execute(upsert.on_conflict_do_update(index_elements=keys, set_=values))


async def purge(session: AsyncSession) -> None:
    """Everything that is older than it is kept."""
    now = func.now()
    await session.execute(delete(ContainerSampleRow).where(ContainerSampleRow.at < now - KEEP_SECONDS))
    for step_s, kept in STEPS:
        old = (ContainerStepRow.step_s == step_s) & (ContainerStepRow.at < now - kept)
        await session.execute(delete(ContainerStepRow).where(old))
    row, later = GatewayReportRow, aliased(GatewayReportRow)
    superseded = exists().where(later.gateway_id == row.gateway_id, later.since > row.since)
    await session.execute(delete(row).where(row.until < now - STEPS[-1][1], superseded))
