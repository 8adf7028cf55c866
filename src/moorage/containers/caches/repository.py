"""SQL of containers' caches."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Row, Select, String, any_, delete, exists, func, literal, or_, select, tuple_, update
from sqlalchemy.dialects.postgresql import ARRAY, insert
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.containers.capacity_repository import NOT_REMOVED, on_engines
from moorage.containers.models import CacheRow, ContainerRow, ReplicaRow
from moorage.containers.spec import ContainerSettings
from moorage.containers.states import DesiredState, ReplicaState
from moorage.engines.base import HeldCache
from moorage.kit.database import table_of
from moorage.kit.ids import new_cache_id
from moorage.kit.pagination import PageRequest
from moorage.organizations.models import ProjectRow

_ENDED = (ReplicaState.STOPPED, ReplicaState.COLLECTED, ReplicaState.REMOVED)
_its_replicas = (
    (ReplicaRow.container_id == CacheRow.container_id)
    & (ReplicaRow.engine == CacheRow.engine)
    & ReplicaRow.state.not_in(_ENDED)
)
IN_USE = exists().where(_its_replicas).correlate(CacheRow)


@dataclass(frozen=True)
class KnownCache:
    row: CacheRow
    project_id: str
    limit_bytes: int | None
    """None: it is to go."""
    in_use: bool


@dataclass(frozen=True)
class User:
    """A replica that has a cache on a machine, or is to have one."""

    replica_id: str
    container_id: str
    state: str
    limit_bytes: int
    created_at: datetime


@dataclass(frozen=True)
class ShownCache:
    row: CacheRow
    project_id: str
    container_name: str
    limit_gib: int | None
    in_use: bool


@dataclass(frozen=True)
class CachesOfMachine:
    node: str
    count: int
    size_bytes: int


async def note_use(session: AsyncSession, container_id: str, engine: str, node: str) -> None:
    """Before anything of it is on the machine."""
    new = insert(table_of(CacheRow)).values(
        id=new_cache_id(), container_id=container_id, engine=engine, node=node
    )
    used = {"used_at": func.now(), "node": new.excluded.node}
    await session.execute(new.on_conflict_do_update(index_elements=["container_id", "engine"], set_=used))


async def caches_of(session: AsyncSession, container_id: str) -> list[CacheRow]:
    query = select(CacheRow).where(CacheRow.container_id == container_id)
    return list((await session.execute(query)).scalars())


async def note_warm(session: AsyncSession, container_id: str, versions: Mapping[str, int]) -> None:
    """By engine: a replica of that version became ready there."""
    for engine, version in versions.items():
        its = (CacheRow.container_id == container_id) & (CacheRow.engine == engine)
        await session.execute(
            update(CacheRow)
            .where(its)
            .values(warm_version=func.greatest(CacheRow.warm_version, version), used_at=func.now())
        )


_VERSIONS = (ContainerRow.settings, ContainerRow.trial_settings, ContainerRow.fallback["settings"])
"""Of a container: what serves, and what may be beside it or follow it."""


async def known_on(session: AsyncSession, engines: Collection[str]) -> dict[str, list[KnownCache]]:
    container = ContainerRow
    gone = or_(container.deleted_at.is_not(None), container.desired_state == DesiredState.DELETED)
    query = (
        select(CacheRow, container.project_id, gone.label("gone"), IN_USE.label("in_use"), *_VERSIONS)
        .join(container, container.id == CacheRow.container_id)
        .where(CacheRow.engine == any_(literal(sorted(engines), ARRAY(String))))
    )
    found: dict[str, list[KnownCache]] = {engine: [] for engine in engines}
    for row, project_id, is_gone, in_use, *versions in await session.execute(query):
        limit_bytes = None if is_gone or row.deleting_at is not None else _room_for(versions)
        found[row.engine].append(KnownCache(row, project_id, limit_bytes, in_use))
    return found


def _room_for(versions: Sequence[dict[str, Any] | None]) -> int | None:
    """What its settings say; while another version is beside them, the larger of the two: both are in it."""
    sizes = [ContainerSettings.from_json(one).cache_bytes for one in versions if one is not None]
    return max((one for one in sizes if one is not None), default=None)


async def users_on(session: AsyncSession, engines: Collection[str]) -> dict[str, list[User]]:
    """Newest first."""
    row = ReplicaRow
    query = (
        select(row.engine, row.id, row.container_id, row.state, row.created_at, *_VERSIONS)
        .join(ContainerRow, ContainerRow.id == row.container_id)
        .where(
            NOT_REMOVED,
            on_engines(engines),
            row.state.not_in(_ENDED),
            # Most have none, and their settings are long.
            or_(*(version["cache_gib"].astext.is_not(None) for version in _VERSIONS)),
        )
        .order_by(row.created_at.desc(), row.id.desc())
    )
    found: dict[str, list[User]] = {engine: [] for engine in engines}
    for engine, replica_id, container_id, state, created_at, *versions in await session.execute(query):
        limit_bytes = _room_for(versions)
        if limit_bytes is not None:
            found[engine].append(User(replica_id, container_id, state, limit_bytes, created_at))
    return found


async def write_sizes(session: AsyncSession, engine: str, held: Sequence[HeldCache]) -> None:
    for one in held:
        its = (CacheRow.engine == engine) & (CacheRow.container_id == one.container_id)
        sizes = {"size_bytes": one.size_bytes, "compiled_bytes": one.compiled_bytes}
        used = {"used_at": func.now()} if one.in_use else {}
        await session.execute(update(CacheRow).where(its).values(measured_at=func.now(), **sizes, **used))


async def note_cut(session: AsyncSession, engine: str, container_id: str) -> None:
    """What no replica holds open or has used was taken away: what the next start needs may be gone."""
    its = (CacheRow.engine == engine) & (CacheRow.container_id == container_id)
    await session.execute(update(CacheRow).where(its).values(warm_version=0))


async def forget(session: AsyncSession, engine: str, container_ids: Collection[str]) -> None:
    """What was in them is gone. What a replica has begun to use meanwhile is a new one."""
    if not container_ids:
        return
    its = (CacheRow.engine == engine) & CacheRow.container_id.in_(container_ids)
    await session.execute(delete(CacheRow).where(its, ~IN_USE))
    emptied = {"size_bytes": 0, "compiled_bytes": 0, "warm_version": 0, "deleting_at": None}
    await session.execute(update(CacheRow).where(its).values(emptied))


def _shown(organization_id: str) -> Select[Any]:
    return (
        select(
            CacheRow,
            ContainerRow.project_id,
            ContainerRow.name,
            ContainerRow.settings,
            IN_USE.label("in_use"),
        )
        .join(ContainerRow, ContainerRow.id == CacheRow.container_id)
        .join(ProjectRow, ProjectRow.id == ContainerRow.project_id)
        .where(ProjectRow.organization_id == organization_id)
    )


async def list_caches(
    session: AsyncSession, organization_id: str, project_ids: Collection[str] | None, page: PageRequest
) -> list[ShownCache]:
    """Newest first; of these projects, or of all."""
    query = _shown(organization_id)
    if project_ids is not None:
        query = query.where(ContainerRow.project_id.in_(project_ids))
    if page.after is not None:
        query = query.where(tuple_(CacheRow.created_at, CacheRow.id) < (page.after.time, page.after.id))
    newest_first = query.order_by(CacheRow.created_at.desc(), CacheRow.id.desc()).limit(page.limit + 1)
    return [_as_shown(found) for found in await session.execute(newest_first)]


async def find_cache(session: AsyncSession, organization_id: str, cache_id: str) -> ShownCache | None:
    query = _shown(organization_id).where(CacheRow.id == cache_id)
    found = (await session.execute(query.execution_options(populate_existing=True))).one_or_none()
    return _as_shown(found) if found is not None else None


def _as_shown(found: Row[Any]) -> ShownCache:
    settings = ContainerSettings.from_json(found.settings)
    return ShownCache(found.CacheRow, found.project_id, found.name, settings.cache_gib, found.in_use)


async def caches_by_machine(session: AsyncSession) -> list[CachesOfMachine]:
    query = (
        select(CacheRow.node, func.count(), func.sum(CacheRow.size_bytes))
        .group_by(CacheRow.node)
        .order_by(CacheRow.node)
    )
    return [CachesOfMachine(node, count, int(size)) for node, count, size in await session.execute(query)]
