"""Whose turn it is to use a cache, from rows and from what the engines say; and when one is full of what a version needs."""

from collections.abc import Collection, Sequence
from datetime import timedelta

from sqlalchemy import func, update
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.catalog.capacity import keeps_caches
from moorage.containers.caches.repository import note_warm
from moorage.containers.caches.turns import Turn, not_their_turn
from moorage.containers.models import ReplicaRow
from moorage.containers.reconciler.funding import Funded
from moorage.containers.reconciler.loading_repository import Loaded
from moorage.containers.reconciler.observation import Seen
from moorage.containers.states import LIVE, ReplicaState
from moorage.containers.views import Plan

DELETED_WITHIN = timedelta(seconds=60)


def turns_of(rows: Sequence[ReplicaRow], seen: Seen, busy: Collection[str] = ()) -> list[Turn]:
    return [
        Turn(
            row.id,
            row.slot,
            row.engine,
            row.generation,
            row.version,
            ReplicaState(row.state),
            row.id in seen.engine or row.id in seen.busy or row.id in busy,
        )
        for row in rows
    ]


def warm_versions(loaded: Loaded, created: Sequence[ReplicaRow] = ()) -> dict[str, int]:
    """By engine. One that was chosen in this pass has an empty cache for now."""
    if loaded.container.settings.get("cache_gib") is None or not any(map(keeps_caches, loaded.types)):
        return {}
    chosen = {row.engine: 0 for row in created if keeps_caches(loaded.type_of(row))}
    return chosen | {one.engine: one.warm_version for one in loaded.caches}


def about_to_be_deleted(loaded: Loaded, turns: Sequence[Turn]) -> frozenset[str]:
    """Engines where somebody deleted the cache and nothing has it: what begins there must not find what was in it. For a while;
    if it cannot be removed, that is better than not to start at all."""
    if loaded.container.settings.get("cache_gib") is None:
        return frozenset()
    in_use = {
        one.engine
        for one in turns
        if one.state in (*LIVE, ReplicaState.DRAINING)
        and (one.begun or one.state is not ReplicaState.REQUESTED)
    }
    return frozenset(
        cache.engine
        for cache in loaded.caches
        if cache.deleting_at is not None
        and abs(loaded.now - cache.deleting_at) < DELETED_WITHIN
        and cache.engine not in in_use
    )


async def record_turns(session: AsyncSession, loaded: Loaded, seen: Seen) -> None:
    """Who waits, and whose wait is over: how long it was counts as a start does, if nothing comes of it."""
    requested = [row for row in loaded.replicas if row.state == ReplicaState.REQUESTED]
    if not loaded.caches or not requested:
        return
    waiting = not_their_turn(turns_of(loaded.replicas, seen), warm_versions(loaded))
    begins = [row.id for row in requested if row.id in waiting and row.waits_since is None]
    ends = [
        row.id
        for row in requested
        if row.id not in waiting and row.waits_since is not None and row.turn_at is None
    ]
    for ids, column in ((begins, "waits_since"), (ends, "turn_at")):
        if ids:
            await session.execute(
                update(ReplicaRow).where(ReplicaRow.id.in_(ids)).values({column: func.now()})
            )


async def record_warm(session: AsyncSession, loaded: Loaded, plan: Plan, funded: Funded) -> None:
    if not loaded.caches:
        return
    rows = {row.id: row for row in loaded.replicas}
    ready = [
        rows[move.replica_id]
        for move in plan.transitions
        if move.to is ReplicaState.READY and move.replica_id not in funded.kept_back
    ]
    versions = {row.engine: row.version for row in sorted(ready, key=lambda row: row.version)}
    await note_warm(session, loaded.container.id, versions)
