"""SQL of what the versions of an update answered."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import and_, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.containers.models import ContainerRow, ReplicaRow
from moorage.containers.states import ReplicaState
from moorage.containers.versions.models import VersionFiguresRow, VersionResponseTimesRow
from moorage.containers.versions.repository import HAS_CANARY
from moorage.kit.histogram import Histogram
from moorage.kit.ids import GatewayId, ReplicaId

_BESIDE = ContainerRow.rollout.is_not(None) & (
    ContainerRow.rollout["from_generation"].as_integer().is_not(None) | HAS_CANARY
)
_AT_GATEWAY = and_(
    # Says nothing new, but lets Postgres use the small index of those that are not removed.
    text("replicas.state <> 'removed'"),
    ReplicaRow.state.in_((ReplicaState.READY, ReplicaState.ROUTED, ReplicaState.DRAINING)),
)
_WATCHED = (
    select(ReplicaRow.id, ReplicaRow.version == ContainerRow.rollout["version"].as_integer())
    .join(ContainerRow, ContainerRow.id == ReplicaRow.container_id)
    .where(_BESIDE, _AT_GATEWAY)
)


async def watched_replicas(session: AsyncSession) -> dict[ReplicaId, bool]:
    """Of all updates that are under way; and whether each is of the new version."""
    return {ReplicaId(one): is_new for one, is_new in await session.execute(_WATCHED)}


async def add_response_times(
    session: AsyncSession, gateway_id: GatewayId, took: Mapping[ReplicaId, Histogram]
) -> None:
    """As `add_figures` does."""
    row, by_bucket = VersionResponseTimesRow, Counter[tuple[str, int, int]]()
    for replica_id, container_id, version in await _owners(session, took.keys()):
        for bucket, answers in took[ReplicaId(replica_id)].items():
            by_bucket[container_id, version, bucket] += answers
    if not by_bucket:
        return
    said = insert(row)
    grown = {"answers": row.answers + said.excluded.answers}
    keys = [row.container_id, row.version, row.gateway_id, row.bucket]
    values = [
        {
            "container_id": container_id,
            "version": version,
            "gateway_id": gateway_id,
            "bucket": bucket,
            "answers": answers,
        }
        for (container_id, version, bucket), answers in sorted(by_bucket.items())
    ]
    await session.execute(said.on_conflict_do_update(index_elements=keys, set_=grown), values)


async def _owners(session: AsyncSession, replicas: Collection[ReplicaId]) -> Sequence[Any]:
    """The container and the version of each that is in an update. One that is gone was perhaps deleted in the middle of one."""
    query = (
        select(ReplicaRow.id, ReplicaRow.container_id, ReplicaRow.version)
        .join(ContainerRow, ContainerRow.id == ReplicaRow.container_id)
        .where(_BESIDE, ContainerRow.deleted_at.is_(None), ReplicaRow.id.in_(replicas))
        .order_by(ReplicaRow.container_id, ReplicaRow.version)
    )
    return (await session.execute(query)).all()


async def add_figures(
    session: AsyncSession, gateway_id: GatewayId, counted: Mapping[ReplicaId, Mapping[str, int]]
) -> None:
    """Only while the update goes on: what is said of one that has ended is nobody's question any more."""
    row = VersionFiguresRow
    for replica_id, container_id, version in await _owners(session, counted.keys()):
        figures = counted[ReplicaId(replica_id)]
        said = insert(row).values(
            container_id=container_id,
            version=version,
            gateway_id=gateway_id,
            answers=figures["answers"],
            errors=figures["errors"],
        )
        grown = {
            "answers": row.answers + said.excluded.answers,
            "errors": row.errors + said.excluded.errors,
        }
        keys = [row.container_id, row.version, row.gateway_id]
        await session.execute(said.on_conflict_do_update(index_elements=keys, set_=grown))
