"""A version that gets a share of the requests: another share, or the end of it, one way or the other.

Written down here and done by the reconciler, which finds it in the row."""

from collections.abc import Mapping
from dataclasses import replace

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.containers import repository, trial
from moorage.containers.activity import record_action
from moorage.containers.canaries.schemas import CanaryRequest
from moorage.containers.channels import ROUTES
from moorage.containers.models import ContainerRow
from moorage.containers.rollout import Rollout
from moorage.containers.service import Changed, refuse_deleted
from moorage.containers.states import TrialStep
from moorage.containers.versions.making import note_called_off
from moorage.containers.versions.update import under_way
from moorage.identity.actor import Actor
from moorage.kit.database import notify
from moorage.kit.errors import ConflictError


async def change_canary(
    session: AsyncSession, actor: Actor, container_id: str, wanted: CanaryRequest
) -> Changed:
    row, rollout = await _lock(session, container_id)
    changed = replace(rollout, share=wanted.share)
    if "promote_after_s" in wanted.model_fields_set:
        changed = replace(changed, promote_after_s=wanted.promote_after_s)
    if changed == rollout:
        return Changed(row, anything=False)
    row.rollout = changed.to_json()
    details = {"share": changed.share, "promote_after_s": changed.promote_after_s}
    _record(session, row, actor, "container.canary", rollout, details)
    await notify(session, ROUTES, about=row.id)
    return await under_way(session, row)


async def promote_canary(session: AsyncSession, actor: Actor, container_id: str) -> Changed:
    row, rollout = await _lock(session, container_id)
    if rollout.promoted_by is not None:
        return Changed(row, anything=False)
    if rollout.serving_since is None:
        raise ConflictError(
            "No replica of the canary serves yet. Wait until one does, or abort it.",
            code="canary_not_serving",
        )
    row.rollout = replace(rollout, promoted_by=actor.id).to_json()
    _record(session, row, actor, "container.canary_promote", rollout, {})
    return await under_way(session, row)


async def abort_canary(session: AsyncSession, actor: Actor, container_id: str) -> Changed:
    row, rollout = await _lock(session, container_id)
    if rollout.called_off_by is not None:
        return Changed(row, anything=False)
    if trial.trial_step(row) is TrialStep.CANARY:
        row.rollout = replace(rollout, called_off_by=actor.id).to_json()
    else:
        await note_called_off(session, row, "It was aborted.")
        trial.cancel(row)
    _record(session, row, actor, "container.canary_abort", rollout, {})
    return await under_way(session, row)


async def _lock(session: AsyncSession, container_id: str) -> tuple[ContainerRow, Rollout]:
    row = await repository.lock_container(session, container_id)
    refuse_deleted(row)
    rollout = Rollout.from_json(row.rollout)
    if rollout is None or not rollout.is_canary:
        raise ConflictError("No canary is under way.", code="no_canary")
    return row, rollout


def _record(
    session: AsyncSession,
    row: ContainerRow,
    actor: Actor,
    kind: str,
    rollout: Rollout,
    details: Mapping[str, object],
) -> None:
    record_action(session, row, actor.id, kind, {"version": rollout.version, **details})
