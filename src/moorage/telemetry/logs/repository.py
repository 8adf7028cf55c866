"""SQL of storing logs: cursors, lines. What reads them is in `reading/repository.py`."""

from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import delete, func, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.containers.channels import COLLECTED
from moorage.containers.models import ContainerRow, ReplicaRow
from moorage.containers.repository import mark_due
from moorage.containers.states import ReplicaState
from moorage.containers.versions.models import VersionRow
from moorage.engines.base import LogStream
from moorage.kit.database import copy_binary, notify
from moorage.kit.errors import ConflictError
from moorage.organizations.models import ProjectRow
from moorage.telemetry.logs.budget.plan import volume_of
from moorage.telemetry.logs.budget.repository import add_volume
from moorage.telemetry.logs.copying import COLUMNS, Source, binary_rows
from moorage.telemetry.logs.cursor import Cursor, RawLine, StreamPosition
from moorage.telemetry.logs.models import LogCursorRow, LogLineRow

HAS_OUTPUT = (
    ReplicaState.STARTING,
    ReplicaState.READY,
    ReplicaState.ROUTED,
    ReplicaState.DRAINING,
    ReplicaState.STOPPED,
)


async def list_sources(session: AsyncSession) -> list[Source]:
    query = (
        select(
            ReplicaRow.id,
            ReplicaRow.container_id,
            ContainerRow.project_id,
            ProjectRow.organization_id,
            ReplicaRow.engine_id,
            ReplicaRow.engine,
        )
        .join(ContainerRow, ContainerRow.id == ReplicaRow.container_id)
        .join(ProjectRow, ProjectRow.id == ContainerRow.project_id)
        .where(
            # Says nothing new, but lets Postgres use the small index of those that are not removed.
            text("replicas.state <> 'removed'"),
            ReplicaRow.state.in_(HAS_OUTPUT),
            ReplicaRow.engine_id.is_not(None),
            ReplicaRow.collected_at.is_(None),
        )
    )
    return [
        Source(replica_id, container_id, project_id, organization_id, engine_id, engine)
        for replica_id, container_id, project_id, organization_id, engine_id, engine in await session.execute(
            query
        )
        if engine_id is not None
    ]


async def sealed_secrets(session: AsyncSession, container_id: str) -> list[bytes]:
    """Of the settings, and of those that replace or replaced them: a replica may have been started with either. Also of each
    version of which a replica is left: it drains, and speaks, when the update has long ended."""
    columns = (ContainerRow.secrets, ContainerRow.trial_secrets, ContainerRow.fallback_secrets)
    query = select(*columns).where(ContainerRow.id == container_id)
    present = [sealed for sealed in (await session.execute(query)).one() if sealed is not None]
    versions = select(ReplicaRow.version).where(
        ReplicaRow.container_id == container_id, text("replicas.state <> 'removed'")
    )
    of_versions = (
        select(VersionRow.secrets)
        .where(VersionRow.container_id == container_id, VersionRow.version.in_(versions))
        .order_by(VersionRow.version)
    )
    others = [sealed for sealed in (await session.execute(of_versions)).scalars() if sealed not in present]
    return [*present, *others]


async def find_or_create_cursor(session: AsyncSession, source: Source) -> Cursor:
    fresh = insert(LogCursorRow).values(replica_id=source.replica_id, container_id=source.container_id)
    await session.execute(fresh.on_conflict_do_nothing())
    query = select(LogCursorRow).where(LogCursorRow.replica_id == source.replica_id)
    row = (await session.execute(query)).scalar_one()
    positions = {
        LogStream.STDOUT: StreamPosition(row.stdout_time_ns, row.stdout_chunks),
        LogStream.STDERR: StreamPosition(row.stderr_time_ns, row.stderr_chunks),
    }
    return Cursor(row.since_ns, positions, row.next_sequence)


async def store_lines(
    session: AsyncSession, source: Source, lines: Sequence[RawLine], texts: Sequence[str], cursor: Cursor
) -> None:
    """Lines, each with its text made harmless, and cursor, together. `cursor` is the one behind the last of them."""
    await _move_cursor(session, source, lines[0].sequence, cursor)
    await copy_binary(session, LogLineRow, COLUMNS, binary_rows(source, lines, texts))
    await add_volume(session, source.container_id, volume_of(texts), len(texts))


async def finish(session: AsyncSession, source: Source) -> None:
    """Everything is stored: the replica may be removed. The container's row is locked first, as everybody does."""
    await mark_due(session, [source.container_id])
    await session.execute(
        update(LogCursorRow)
        .where(LogCursorRow.replica_id == source.replica_id, LogCursorRow.finished_at.is_(None))
        .values(finished_at=func.now())
    )
    await session.execute(
        update(ReplicaRow)
        .where(ReplicaRow.id == source.replica_id, ReplicaRow.collected_at.is_(None))
        .values(collected_at=func.now())
    )
    await notify(session, COLLECTED)


async def collect_what_never_ran(session: AsyncSession) -> None:
    """A replica whose start failed has no output to wait for."""
    never_ran = (
        (ReplicaRow.state == ReplicaState.STOPPED)
        & text("replicas.state <> 'removed'")
        & ReplicaRow.engine_id.is_(None)
        & ReplicaRow.collected_at.is_(None)
    )
    container_ids = list(
        (await session.execute(select(ReplicaRow.container_id).where(never_ran).distinct())).scalars()
    )
    if not container_ids:
        return
    await mark_due(session, container_ids)
    here = ReplicaRow.container_id.in_(container_ids)
    await session.execute(update(ReplicaRow).where(never_ran, here).values(collected_at=func.now()))
    await notify(session, COLLECTED)


async def tidy_cursors(session: AsyncSession, retention_days: int) -> None:
    """Close those whose replica went without us, forget those whose lines are gone."""
    gone = select(ReplicaRow.id).where(ReplicaRow.state.in_((ReplicaState.COLLECTED, ReplicaState.REMOVED)))
    await session.execute(
        update(LogCursorRow)
        .where(LogCursorRow.finished_at.is_(None), LogCursorRow.replica_id.in_(gone))
        .values(finished_at=func.now())
    )
    too_old = func.now() - timedelta(days=retention_days + 1)
    await session.execute(delete(LogCursorRow).where(LogCursorRow.finished_at < too_old))


async def _move_cursor(session: AsyncSession, source: Source, from_sequence: int, to: Cursor) -> None:
    stdout, stderr = to.positions[LogStream.STDOUT], to.positions[LogStream.STDERR]
    moved = (
        update(LogCursorRow)
        .where(LogCursorRow.replica_id == source.replica_id, LogCursorRow.next_sequence == from_sequence)
        .values(
            next_sequence=to.next_sequence,
            since_ns=to.since_ns,
            stdout_time_ns=stdout.time_ns,
            stdout_chunks=stdout.chunks,
            stderr_time_ns=stderr.time_ns,
            stderr_chunks=stderr.chunks,
        )
        # A crash of Postgres may take the last moment of both; the engine still has those lines then, because a
        # replica is removed only after a later transaction that does wait for the disk.
        .returning(func.set_config("synchronous_commit", "off", True))
    )
    if (await session.execute(moved)).scalar_one_or_none() is None:
        raise ConflictError(f"The log of {source.replica_id} has moved on without this reader.")
