"""What the API does to containers: it writes what is wanted and wakes the reconciler. It never calls an engine."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.containers import repository, trial
from moorage.containers.activity import SYSTEM, record_action, record_activity
from moorage.containers.admission import hold_hours, refuse_spent_allowance
from moorage.containers.avoidance import Avoidance
from moorage.containers.channels import CONTAINERS, ROUTES
from moorage.containers.edit import changed_fields, merged, patch_of
from moorage.containers.exposure import record_exposure
from moorage.containers.models import ContainerRow
from moorage.containers.replica_limits.service import ask_where_needed, withdraw_request
from moorage.containers.scaling import same_scaling
from moorage.containers.schemas import ContainerCreate, ContainerPatch, SettingsPatch
from moorage.containers.secrets import seal
from moorage.containers.sleep.service import get_up, leave_bed
from moorage.containers.spec import ContainerSettings
from moorage.containers.states import ContainerState, DesiredState, Reason, TrialStep
from moorage.containers.stop_reasons import stopped_because
from moorage.containers.suspension import refuse_suspended, suspended
from moorage.containers.validation import validated
from moorage.containers.verdict import Fix
from moorage.containers.versions.making import make_first, make_next, note_called_off, whole
from moorage.identity.actor import Actor
from moorage.kit.clock import Clock
from moorage.kit.crypto import Keyring
from moorage.kit.database import notify
from moorage.kit.errors import ConflictError, NotFoundError
from moorage.kit.ids import new_container_id
from moorage.kit.settings import Settings
from moorage.organizations.caps import CONTAINERS as CONTAINERS_CAP
from moorage.organizations.caps import require_room
from moorage.organizations.models import ProjectRow
from moorage.organizations.repository import hold_project


@dataclass(frozen=True)
class Changed:
    """`anything` is False when there was nothing to do."""

    row: ContainerRow
    anything: bool


async def create_container(
    session: AsyncSession,
    actor: Actor,
    project: ProjectRow,
    wanted: ContainerCreate,
    *,
    keyring: Keyring,
    settings: Settings,
    clock: Clock,
) -> ContainerRow:
    spec, secrets = await validated(session, wanted, settings)
    most = settings.containers_per_project
    await require_room(session, CONTAINERS_CAP, project.id, repository.count_containers, most)
    held = await hold_project(session, project.id)
    if held is None:
        raise NotFoundError("There is no such project.")
    if held.suspended:
        raise suspended()
    await refuse_spent_allowance(session, project.organization_id, settings, clock.now())
    container_id = new_container_id()
    row = ContainerRow(
        id=container_id,
        project_id=project.id,
        name=wanted.name,
        instance_type=spec.instance_type,
        settings=spec.to_json(),
        secrets=seal(keyring, container_id, secrets),
        desired_state=DesiredState.RUNNING,
        desired_replicas=spec.min_replicas,
        generation=1,
        state=ContainerState.PENDING,
        state_since=clock.now(),
        reconcile_at=func.now(),
    )
    session.add(row)
    created = {"image": spec.image, "instance_type": spec.instance_type}
    record_action(session, row, actor.id, "container.create", created)
    await _flush_with_name(session, wanted.name)
    record_exposure(session, project.organization_id, actor, row, None, spec)
    await make_first(session, actor, row)
    await hold_hours(session, row, is_new=True)
    await ask_where_needed(session, actor, row)
    await notify(session, CONTAINERS, ROUTES, about=row.id)
    return row


async def edit_container(
    session: AsyncSession,
    actor: Actor,
    container_id: str,
    patch: ContainerPatch,
    *,
    keyring: Keyring,
    settings: Settings,
) -> ContainerRow:
    """New settings for a container that has no replicas; the next start uses them."""
    row = await repository.lock_container(session, container_id)
    refuse_deleted(row)
    await refuse_suspended(session, row.project_id)
    refuse_on_trial(row)
    _refuse_not_stopped(row)
    name_before = row.name
    changed = await put_settings(session, actor, row, patch, keyring, settings)
    if changed:
        # Clients send whole forms, so what was sent says little. Names only, besides its own: a value may be a secret.
        renamed = {"name_before": name_before} if row.name != name_before else {}
        record_action(session, row, actor.id, "container.edit", {"fields": changed, **renamed})
    await notify(session, ROUTES, about=row.id)
    await session.refresh(row)
    return row


async def apply_fix(
    session: AsyncSession,
    actor: Actor,
    container_id: str,
    seen: Fix | None,
    *,
    keyring: Keyring,
    settings: Settings,
) -> Changed:
    """Exactly the change that is on offer, and a start. `seen` is the one that whoever asks was shown."""
    row = await repository.lock_container(session, container_id)
    refuse_deleted(row)
    refuse_on_trial(row)
    _refuse_not_stopped(row)
    fix = Fix.from_json(row.failure_fix) if has_fix(row) else None
    if fix is None:
        raise ConflictError(
            "There is no fix: the last failure has none, or the settings have changed since. Edit the settings instead.",
            code="no_fix",
        )
    if seen is not None and seen != fix:
        raise ConflictError(
            f"The fix has changed: it now sets {fix.field} from {fix.before} to {fix.after}.",
            code="fix_changed",
        )
    patch = patch_of(ContainerSettings.from_json(row.settings), fix)
    await put_settings(session, actor, row, patch, keyring, settings)
    return await begin_generation(session, actor, row, "container.fix", fix.to_json())


def has_fix(row: ContainerRow) -> bool:
    """What failed is what a start would try again, and its fix is a setting."""
    return row.failure_fix is not None and row.failed_generation == row.generation


async def start_container(session: AsyncSession, actor: Actor, container_id: str) -> Changed:
    row = await repository.lock_container(session, container_id)
    refuse_deleted(row)
    await refuse_suspended(session, row.project_id)
    if _is_to_run(row):
        return Changed(row, anything=False)
    return await begin_generation(session, actor, row, "container.start")


async def restart_container(
    session: AsyncSession, actor: Actor, container_id: str, *, avoid_until: datetime | None = None
) -> Changed:
    """A new generation takes over slot by slot; from stopped or failed it is a start. With a time, on other machines
    than now for as long."""
    row = await repository.lock_container(session, container_id)
    refuse_deleted(row)
    refuse_on_trial(row)
    if avoid_until is None:
        return await begin_generation(session, actor, row, "container.restart")
    nodes = await repository.current_nodes(session, row.id)
    row.avoidance = Avoidance(row.generation + 1, tuple(nodes), avoid_until).to_json()
    return await begin_generation(session, actor, row, "container.restart", {"avoided_nodes": nodes})


async def stop_container(session: AsyncSession, actor: Actor, container_id: str) -> Changed:
    row = await repository.lock_container(session, container_id)
    refuse_deleted(row)
    if row.desired_state == DesiredState.STOPPED:
        return Changed(row, anything=False)
    await note_called_off(session, row, "The container was stopped while the draft was being applied.")
    trial.cancel(row)
    await leave_bed(session, row, actor.id)
    row.desired_state, row.stop_reason = DesiredState.STOPPED, None
    row.state, row.reason = ContainerState.STOPPING, Reason.STOPPED_BY_USER
    row.message = "Stopping: requests in flight may finish."
    return await _changed(session, actor, row, "container.stop")


async def stop_because(session: AsyncSession, row: ContainerRow, reason: Reason) -> None:
    """Stopped by the installation, not by whoever manages it; only a start by one of those undoes it."""
    verdict = stopped_because(reason)
    assert verdict is not None, "a reason is given"
    assert row.desired_state == DesiredState.RUNNING, "what is stopped keeps its reason"
    await note_called_off(session, row, verdict.message)
    trial.cancel(row)
    await leave_bed(session, row, SYSTEM)
    row.desired_state, row.stop_reason = DesiredState.STOPPED, reason
    row.state, row.reason, row.message = ContainerState.STOPPING, verdict.reason, verdict.message
    record_activity(
        session,
        project_id=row.project_id,
        container_id=row.id,
        actor=SYSTEM,
        kind="container.stop",
        reason=verdict.reason,
        message=verdict.message,
        details={"generation": row.generation},
    )
    await session.flush()
    await repository.mark_due(session, [row.id])
    await notify(session, ROUTES, about=row.id)


async def delete_container(session: AsyncSession, actor: Actor, container_id: str) -> Changed:
    row = await repository.lock_container(session, container_id)
    if row.desired_state == DesiredState.DELETED:
        return Changed(row, anything=False)
    await leave_bed(session, row, actor.id)
    row.desired_state = DesiredState.DELETED
    row.state, row.reason, row.message = ContainerState.DELETING, None, None
    await withdraw_request(session, actor, row)
    return await _changed(session, actor, row, "container.delete")


async def put_settings(
    session: AsyncSession,
    actor: Actor,
    row: ContainerRow,
    patch: SettingsPatch,
    keyring: Keyring,
    settings: Settings,
) -> list[str]:
    """Names of the fields that differ now."""
    before, secrets_before = whole(keyring, row.id, row.settings, row.secrets)
    name_before = row.name
    wanted = merged(name_before, before, secrets_before, patch)
    spec, secrets = await validated(session, wanted, settings)
    row.name, row.instance_type = wanted.name, spec.instance_type
    row.settings, row.secrets = spec.to_json(), seal(keyring, row.id, secrets)
    row.desired_replicas = spec.min_replicas
    row.failure_fix = row.trial_failure = None
    await _flush_with_name(session, wanted.name)
    project = await session.get(ProjectRow, row.project_id)
    assert project is not None, "a foreign key says so"
    record_exposure(session, project.organization_id, actor, row, before, spec)
    await make_next(session, actor, row, (before, secrets_before), (spec, secrets))
    if not same_scaling(before, spec):
        await withdraw_request(session, actor, row)
    return changed_fields((name_before, before, secrets_before), (wanted.name, spec, secrets))


async def begin_generation(
    session: AsyncSession,
    actor: Actor,
    row: ContainerRow,
    kind: str,
    details: Mapping[str, object] | None = None,
) -> Changed:
    await refuse_suspended(session, row.project_id)
    await get_up(session, row, actor.id)
    row.desired_state, row.stop_reason = DesiredState.RUNNING, None
    row.generation += 1
    row.unready_since = row.trial_failure = None
    if row.state != ContainerState.RUNNING:
        row.state, row.reason, row.message = ContainerState.PENDING, None, None
        # What the autoscaler asked for was for a load that is over.
        row.desired_replicas = ContainerSettings.from_json(row.settings).min_replicas
    await hold_hours(session, row)
    await ask_where_needed(session, actor, row)
    return await _changed(session, actor, row, kind, details)


async def _changed(
    session: AsyncSession,
    actor: Actor,
    row: ContainerRow,
    kind: str,
    details: Mapping[str, object] | None = None,
) -> Changed:
    record_action(session, row, actor.id, kind, {"generation": row.generation, **(details or {})})
    await session.flush()
    await repository.mark_due(session, [row.id])
    await notify(session, ROUTES, about=row.id)
    await session.refresh(row)
    return Changed(row, anything=True)


async def _flush_with_name(session: AsyncSession, name: str) -> None:
    """An index says whether the name is free; a look beforehand could be outrun by another request."""
    try:
        await session.flush()
    except IntegrityError as exc:
        if "uq_containers_project_id_name" in str(exc.orig):
            raise _name_taken(name) from exc
        raise


def refuse_deleted(row: ContainerRow) -> None:
    if row.desired_state == DesiredState.DELETED:
        raise ConflictError("The container is being deleted.", code="container_deleting")


def refuse_on_trial(row: ContainerRow) -> None:
    if trial.trial_step(row) is TrialStep.CANARY:
        raise ConflictError("A canary is under way. Promote it or abort it first.", code="canary_under_way")
    if trial.is_on_trial(row):
        raise ConflictError(
            "Its draft is being applied. Wait until that is done, or stop the container to cancel it.",
            code="draft_being_applied",
        )


def _refuse_not_stopped(row: ContainerRow) -> None:
    at_rest = row.state in (ContainerState.STOPPED, ContainerState.FAILED)
    # One that stopped with its organization runs again by itself.
    if at_rest and not _is_to_run(row):
        return
    raise ConflictError(
        f"The container is {'about to start' if at_rest else row.state}; its settings can change only while "
        "it is STOPPED or FAILED. Stop it first.",
        code="container_not_stopped",
    )


def _is_to_run(row: ContainerRow) -> bool:
    return row.desired_state == DesiredState.RUNNING and row.failed_generation != row.generation


def _name_taken(name: str) -> ConflictError:
    return ConflictError(f"This project already has a container named {name}.", code="name_taken")
