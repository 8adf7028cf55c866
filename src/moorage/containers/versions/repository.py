"""SQL of versions. Whoever writes here has locked the container's row."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import delete, func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.containers.models import ContainerRow, ReplicaRow
from moorage.containers.states import Outcome, ReplicaState, Strategy
from moorage.containers.update_rule import Figures
from moorage.containers.versions.models import VersionFiguresRow, VersionResponseTimesRow, VersionRow

HAS_CANARY = (ContainerRow.rollout["strategy"].astext == Strategy.CANARY) & ContainerRow.trial_image.is_not(
    None
)
"""A share of the requests is for a version on trial."""
MOST_KEPT = 200
"""Of one container; the oldest go first, and none that serves."""


async def add_version(
    session: AsyncSession,
    row: ContainerRow,
    *,
    by: str,
    settings: Mapping[str, Any],
    secrets: bytes,
    changes: Sequence[Mapping[str, Any]],
    strategy: Strategy | None,
    reason: str | None = None,
) -> int:
    newest = select(func.coalesce(func.max(VersionRow.version), 0)).where(VersionRow.container_id == row.id)
    version: int = (await session.execute(newest)).scalar_one() + 1
    session.add(
        VersionRow(
            container_id=row.id,
            version=version,
            created_by=by,
            settings=dict(settings),
            secrets=secrets,
            changes=[dict(change) for change in changes],
            strategy=strategy,
            reason=reason,
            served_s=0.0,
        )
    )
    await session.flush()
    old = (VersionRow.container_id == row.id) & (VersionRow.version <= version - MOST_KEPT)
    unused = VersionRow.version.not_in((row.version, version)) & VersionRow.served_since.is_(None)
    await session.execute(delete(VersionRow).where(old, unused))
    return version


async def find_version(session: AsyncSession, container_id: str, version: int) -> VersionRow | None:
    return await session.get(VersionRow, (container_id, version))


async def list_versions(
    session: AsyncSession, container_id: str, before: int | None, limit: int
) -> list[VersionRow]:
    query = select(VersionRow).where(VersionRow.container_id == container_id)
    if before is not None:
        query = query.where(VersionRow.version < before)
    return list((await session.execute(query.order_by(VersionRow.version.desc()).limit(limit))).scalars())


async def note_image(
    session: AsyncSession, container_id: str, version: int, image: Mapping[str, Any]
) -> None:
    await session.execute(_one(container_id, version).values(image=dict(image)))


async def note_served(session: AsyncSession, container_id: str, versions: Collection[int]) -> None:
    """These have replicas at the endpoint now, and no others."""
    mine, row = VersionRow.container_id == container_id, VersionRow
    begins = update(row).where(mine, row.version.in_(versions), row.served_since.is_(None))
    await session.execute(begins.values(served_since=func.now()))
    lasted_s = func.extract("epoch", func.now() - row.served_since)
    ends = update(row).where(mine, row.version.not_in(versions), row.served_since.is_not(None))
    await session.execute(ends.values(served_s=row.served_s + lasted_s, served_since=None))


async def note_serving(session: AsyncSession, container_id: str, version: int) -> None:
    """It has taken over; whatever served, or waited to, is replaced."""
    mine, row = VersionRow.container_id == container_id, VersionRow
    others = update(row).where(
        mine, row.version != version, row.outcome.is_(None) | (row.outcome == Outcome.SERVING)
    )
    await session.execute(others.values(outcome=Outcome.REPLACED))
    serves = update(row).where(mine, row.version == version, row.outcome.is_distinct_from(Outcome.SERVING))
    await session.execute(serves.values(outcome=Outcome.SERVING))


async def note_outcome(
    session: AsyncSession, container_id: str, version: int, outcome: Outcome, reason: str | None
) -> None:
    await session.execute(_one(container_id, version).values(outcome=outcome, reason=reason))


async def read_figures(session: AsyncSession, container_id: str) -> dict[int, Figures]:
    """By version, over all gateways."""
    row, times = VersionFiguresRow, VersionResponseTimesRow
    query = select(row.version, func.sum(row.answers), func.sum(row.errors)).group_by(row.version)
    found = (await session.execute(query.where(row.container_id == container_id))).all()
    took: dict[int, dict[int, int]] = {}
    by_bucket = select(times.version, times.bucket, func.sum(times.answers)).group_by(
        times.version, times.bucket
    )
    for version, bucket, count in await session.execute(by_bucket.where(times.container_id == container_id)):
        took.setdefault(version, {})[bucket] = int(count)
    return {
        version: Figures(int(answers), int(errors), took.get(version, {}))
        for version, answers, errors in found
    }


async def count_routed(session: AsyncSession, container_id: str) -> dict[int, int]:
    """By version: its replicas at the endpoint."""
    replica = ReplicaRow
    query = select(replica.version, func.count()).group_by(replica.version)
    mine = (replica.container_id == container_id) & (replica.state == ReplicaState.ROUTED)
    return {row[0]: row[1] for row in await session.execute(query.where(mine))}


async def forget_figures(session: AsyncSession, container_id: str) -> None:
    for row in (VersionFiguresRow, VersionResponseTimesRow):
        await session.execute(delete(row).where(row.container_id == container_id))


async def forget_all(session: AsyncSession, container_id: str) -> None:
    """Of a container that is gone: its secrets go with it."""
    await forget_figures(session, container_id)
    await session.execute(delete(VersionRow).where(VersionRow.container_id == container_id))


def _one(container_id: str, version: int) -> Any:
    return update(VersionRow).where(VersionRow.container_id == container_id, VersionRow.version == version)
