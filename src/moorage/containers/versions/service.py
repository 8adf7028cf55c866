"""History, and the way back to any version of it."""

from dataclasses import replace
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.containers import repository as containers
from moorage.containers import trial
from moorage.containers.activity import record_action
from moorage.containers.drafts.difference import difference
from moorage.containers.drafts.service import refuse_over_limit, refuse_unproven
from moorage.containers.models import ContainerRow
from moorage.containers.replica_limits.service import withdraw_request
from moorage.containers.rollout import Rollout
from moorage.containers.scaling import same_scaling
from moorage.containers.service import Changed, begin_generation, refuse_deleted, refuse_on_trial
from moorage.containers.spec import ContainerSettings
from moorage.containers.states import ContainerState, Strategy, TrialStep
from moorage.containers.suspension import refuse_suspended
from moorage.containers.trial import put_image
from moorage.containers.versions import repository
from moorage.containers.versions.making import make_next, note_called_off, whole
from moorage.containers.versions.models import VersionRow
from moorage.containers.versions.update import Update, begin_update, under_way
from moorage.identity.actor import Actor
from moorage.kit.crypto import Keyring
from moorage.kit.errors import ConflictError, NotFoundError

_CALLED_OFF = (TrialStep.PREPARE, TrialStep.CANARY)


def served_s(version: VersionRow, now: datetime) -> float:
    since = version.served_since
    return version.served_s + (max((now - since).total_seconds(), 0.0) if since is not None else 0.0)


async def roll_back(
    session: AsyncSession, actor: Actor, container_id: str, number: int, *, keyring: Keyring
) -> Changed:
    """To the settings, secrets and image of that version, as a new one. While an update is under way, the version that
    still serves beside it is back at once."""
    row = await containers.lock_container(session, container_id)
    refuse_deleted(row)
    await refuse_suspended(session, row.project_id)
    if calls_off(row, number):
        return await _call_off(session, actor, row)
    refuse_on_trial(row)
    target = await repository.find_version(session, row.id, number)
    if target is None:
        raise NotFoundError(f"There is no version {number}.")
    if number == row.version:
        raise ConflictError(f"Version {number} is the present one.", code="version_is_present")
    if target.image is None:
        raise ConflictError(
            f"Version {number} never ran, so its image was never looked up. Save its settings as a draft instead.",
            code="version_never_ran",
        )
    if row.state in (ContainerState.STOPPED, ContainerState.FAILED):
        return await _start_with(session, actor, row, target, keyring)
    refuse_unproven(row)
    before = whole(keyring, row.id, row.settings, row.secrets)
    after = whole(keyring, row.id, target.settings, target.secrets)
    await refuse_over_limit(session, row, after[0])
    if not same_scaling(before[0], after[0]):
        await withdraw_request(session, actor, row)
    paths = [(one.health_path, one.api_path) for one in (before[0], after[0])]
    await begin_update(
        session,
        actor,
        row,
        Update(
            Strategy.ROLLING if paths[0] == paths[1] else Strategy.REPLACE,
            after[0],
            target.secrets,
            difference(before, after),
            # It has served before: nothing has to be proven by it.
            watch_s=0,
            back_to=number,
            pinned=target.image,
        ),
    )
    record_action(session, row, actor.id, "container.rollback", {"version": number})
    return await under_way(session, row)


def calls_off(row: ContainerRow, number: int) -> bool:
    """That version still serves, beside what is on trial: going back to it starts nothing."""
    rollout = Rollout.from_json(row.rollout)
    in_time = trial.trial_step(row) in _CALLED_OFF or (rollout is not None and rollout.is_beside)
    return rollout is not None and in_time and rollout.from_version == number


async def _call_off(session: AsyncSession, actor: Actor, row: ContainerRow) -> Changed:
    rollout = Rollout.from_json(row.rollout)
    assert rollout is not None, "that is what is called off"
    if rollout.is_beside or trial.trial_step(row) is TrialStep.CANARY:
        row.rollout = replace(rollout, called_off_by=actor.id).to_json()
    else:
        await note_called_off(session, row, f"It was rolled back to version {rollout.from_version}.")
        trial.cancel(row)
    record_action(session, row, actor.id, "container.rollback", {"version": rollout.from_version})
    return await under_way(session, row)


async def _start_with(
    session: AsyncSession, actor: Actor, row: ContainerRow, target: VersionRow, keyring: Keyring
) -> Changed:
    before = whole(keyring, row.id, row.settings, row.secrets)
    after = whole(keyring, row.id, target.settings, target.secrets)
    row.settings, row.secrets = target.settings, target.secrets
    row.instance_type = after[0].instance_type
    row.desired_replicas = after[0].min_replicas
    row.failure_fix = row.trial_failure = None
    await make_next(session, actor, row, before, after)
    if not same_scaling(before[0], after[0]):
        await withdraw_request(session, actor, row)
    changed = await begin_generation(session, actor, row, "container.rollback", {"version": target.version})
    assert target.image is not None, "looked at before"
    # Its very image: where that is not there any more, it is fetched again by its digest.
    put_image(row, target.image)
    await session.flush()
    await session.refresh(row)
    return changed


def image_name(version: VersionRow) -> str:
    return ContainerSettings.from_json(version.settings).image
