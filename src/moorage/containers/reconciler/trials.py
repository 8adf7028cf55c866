"""What the reconciler writes while settings are on trial. Every step looks at the locked row first: whoever stopped
or deleted the container meanwhile has called the trial off."""

from dataclasses import replace
from typing import Any

from sqlalchemy import func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.containers import trial
from moorage.containers.activity import SYSTEM, record_activity
from moorage.containers.channels import ROUTES
from moorage.containers.models import ContainerRow, ReplicaRow
from moorage.containers.planning.canary_plan import CanaryPlan
from moorage.containers.reconciler.loading_repository import Loaded
from moorage.containers.reconciler.repository import FoundImage, image_json
from moorage.containers.reconciler.spans_repository import follow_slots
from moorage.containers.repository import lock_container
from moorage.containers.rollout import FIRST_CANARY_SLOT, Rollout
from moorage.containers.sleep.service import get_up
from moorage.containers.spec import ContainerSettings, RegistryProvider
from moorage.containers.states import LIVE, SERVING, DesiredState, Outcome, ReplicaState, Strategy, TrialStep
from moorage.containers.verdict import Verdict
from moorage.containers.versions import repository as versions
from moorage.containers.views import Plan
from moorage.kit.database import database_now, notify


def on_trial(row: ContainerRow) -> ContainerRow:
    """The container as it will be, for a look at its image; never stored."""
    assert row.trial_settings is not None, "asked for only while there is something to try"
    assert row.trial_secrets is not None, "kept together"
    return ContainerRow(
        id=row.id,
        project_id=row.project_id,
        settings=row.trial_settings,
        secrets=row.trial_secrets,
        generation=row.generation,
    )


def digest_from_before(row: ContainerRow) -> str | None:
    """Of a version that is gone back to: its content, whatever its tag names by now."""
    pinned = _pinned(row)
    return pinned["digest"] if pinned is not None else None


def local_image_from_before(row: ContainerRow) -> FoundImage | None:
    """Of a version that is gone back to: no engine looks up a local image by anything but its name, and that may be another
    image's by now. Where it is gone, the start finds that out, and it is looked up by its name again."""
    assert row.trial_settings is not None, "asked for only while there is something to try"
    local = ContainerSettings.from_json(row.trial_settings).registry_provider is RegistryProvider.LOCAL
    pinned = _pinned(row)
    if pinned is None or not local:
        return None
    return FoundImage(pinned["ref"], pinned["digest"], pinned["port"], pinned["gpu_environment"] or {})


def _pinned(row: ContainerRow) -> dict[str, Any] | None:
    rollout = Rollout.from_json(row.rollout)
    return rollout.pinned if rollout is not None else None


async def record_image(session: AsyncSession, before: ContainerRow, found: FoundImage | Verdict) -> None:
    row = await _still(session, before, TrialStep.PREPARE)
    if row is None or row.desired_state == DesiredState.DELETED:
        return
    rollout = Rollout.from_json(row.rollout)
    if isinstance(found, Verdict):
        if rollout is not None:
            await versions.note_outcome(session, row.id, rollout.version, Outcome.FAILED, found.message)
        trial.cancel(row)
        await _give_up(session, row, found, "Nothing was stopped. The previous settings stay.")
        return
    row.trial_image = image_json(found)
    if rollout is None:
        return
    await versions.note_image(session, row.id, rollout.version, row.trial_image)
    if rollout.strategy is Strategy.REPLACE:
        return
    await versions.forget_figures(session, row.id)
    if rollout.strategy is Strategy.ROLLING:
        trial.exchange(row)
    _due(row)
    await notify(session, ROUTES, about=row.id)


async def advance(
    session: AsyncSession, loaded: Loaded, plan: Plan, canary: CanaryPlan | None = None
) -> None:
    """The step that this plan ends, if it ends one."""
    before = loaded.container
    if canary is not None:
        row = await _still(session, before, TrialStep.CANARY)
        if row is not None:
            await _advance_canary(session, row, canary)
    elif plan.exchange:
        row = await _still(session, before, TrialStep.STOP)
        if row is not None:
            # What sleeps has to prove itself, so it wakes.
            await get_up(session, row, SYSTEM)
            trial.exchange(row)
            _due(row)
    elif plan.go_back is not None:
        row = await _still(session, before, TrialStep.PROVE)
        if row is not None:
            await _go_back(session, row, plan.go_back)
    elif trial.trial_step(before) is TrialStep.PROVE and _has_proven(loaded, plan):
        row = await _still(session, before, TrialStep.PROVE)
        if row is not None:
            trial.succeed(row)
            await versions.note_serving(session, row.id, row.version)
            _record(session, row, "container.draft_applied")
            _due(row)
            await notify(session, ROUTES, about=row.id)


async def _advance_canary(session: AsyncSession, row: ContainerRow, canary: CanaryPlan) -> None:
    rollout = Rollout.from_json(row.rollout)
    assert rollout is not None, "a canary has one"
    if canary.drop is not None:
        await _drop(session, row, rollout, canary.drop)
    elif canary.promote is not None:
        trial.promote(row, await database_now(session))
        trial.note_serving(row)
        await _move_in(session, row)
        _due(row)
        message = f"{canary.promote} Version {rollout.version} takes over."
        _record(session, row, "container.canary_promoted", message=message)
        await notify(session, ROUTES, about=row.id)
    elif canary.serves and rollout.serving_since is None:
        now = (await session.execute(select(func.now()))).scalar_one()
        row.rollout = replace(rollout, serving_since=now).to_json()


async def _move_in(session: AsyncSession, row: ContainerRow) -> None:
    """What was on trial has the slots of a guest: from now on those of the replicas that it takes over from, beside which it
    is until then. What is left of its own hours lapses."""
    guests = (ReplicaRow.container_id == row.id) & (ReplicaRow.slot >= FIRST_CANARY_SLOT)
    of_version = guests & (ReplicaRow.generation == row.generation)
    await session.execute(
        update(ReplicaRow).where(of_version).values(slot=ReplicaRow.slot - FIRST_CANARY_SLOT)
    )
    await follow_slots(session, row.id)


async def _drop(session: AsyncSession, row: ContainerRow, rollout: Rollout, why: Verdict) -> None:
    """What served beside it is another deployment in name only: the number that the canary had is nobody's."""
    old = row.generation
    knew_image, had_failed = row.image_generation == old, row.failed_generation == old
    trial.cancel(row)
    row.generation += 1
    row.image_generation = row.generation if knew_image else row.image_generation
    row.failed_generation = row.generation if had_failed else row.failed_generation
    await versions.note_outcome(session, row.id, rollout.version, Outcome.ROLLED_BACK, why.message)
    await _adopt(session, row, old)
    await _give_up(session, row, why, f"Version {rollout.from_version} serves all requests.")
    await notify(session, ROUTES, about=row.id)


async def _go_back(session: AsyncSession, row: ContainerRow, why: Verdict) -> None:
    rollout = Rollout.from_json(row.rollout)
    trial.go_back(row)
    if rollout is not None:
        await versions.note_outcome(session, row.id, rollout.version, Outcome.ROLLED_BACK, why.message)
        if rollout.from_generation is not None:
            await _adopt(session, row, rollout.from_generation)
    await _give_up(session, row, why, "It went back to the previous settings.")
    await notify(session, ROUTES, about=row.id)


async def resume(session: AsyncSession, before: ContainerRow, why: Verdict) -> None:
    """A restart failed. Whoever asked for another one meanwhile, or stopped it, is not outrun."""
    row = await lock_container(session, before.id)
    same = (row.generation, row.desired_state) == (before.generation, DesiredState.RUNNING)
    if not same or trial.is_on_trial(row) or row.serving_image is None:
        return
    served = trial.resume(row)
    await versions.note_image(session, row.id, row.version, row.serving_image)
    await _adopt(session, row, served)
    _due(row)
    _record(session, row, "container.restart_failed", why.reason, why.message)
    await notify(session, ROUTES, about=row.id)


async def _adopt(session: AsyncSession, row: ContainerRow, old_generation: int) -> None:
    """What served all the time is this deployment: the same settings and the same image. Only what is missing of it is
    started."""
    await session.flush()
    old = (ReplicaRow.container_id == row.id) & (ReplicaRow.generation == old_generation)
    adopted = (
        update(ReplicaRow)
        .where(old, ReplicaRow.state.in_(LIVE))
        .values(generation=row.generation)
        .returning(ReplicaRow.state)
        .execution_options(synchronize_session=False)
    )
    states = (await session.execute(adopted)).scalars().all()
    if any(state in SERVING for state in states):
        trial.note_serving(row)


async def _give_up(session: AsyncSession, row: ContainerRow, verdict: Verdict, outcome: str) -> None:
    now = (await session.execute(select(func.now()))).scalar_one()
    trial.failed(row, verdict, now)
    _due(row)
    _record(session, row, "container.draft_failed", verdict.reason, f"{verdict.message} {outcome}")


async def _still(session: AsyncSession, before: ContainerRow, step: TrialStep) -> ContainerRow | None:
    row = await lock_container(session, before.id)
    same = row.generation == before.generation and trial.trial_step(row) is step
    # One that was called off may have been followed by another, which is at the same step of the same generation.
    return row if same and _version_on_trial(row) == _version_on_trial(before) else None


def _version_on_trial(row: ContainerRow) -> int | None:
    """None of a trial that a version before rollouts began."""
    rollout = Rollout.from_json(row.rollout)
    return rollout.version if rollout is not None else None


def _has_proven(loaded: Loaded, plan: Plan) -> bool:
    rollout = Rollout.from_json(loaded.container.rollout)
    if rollout is not None and rollout.is_beside:
        return plan.proven
    return _serves(loaded, plan)


def _serves(loaded: Loaded, plan: Plan) -> bool:
    routed = {move.replica_id for move in plan.transitions if move.to is ReplicaState.ROUTED}
    return any(
        replica.generation == loaded.container.generation
        and (replica.id in routed or replica.state == ReplicaState.ROUTED)
        for replica in loaded.replicas
    )


def _due(row: ContainerRow) -> None:
    row.changes += 1
    row.reconcile_at = func.now()


def _record(
    session: AsyncSession, row: ContainerRow, kind: str, reason: str | None = None, message: str | None = None
) -> None:
    record_activity(
        session,
        project_id=row.project_id,
        container_id=row.id,
        actor=SYSTEM,
        kind=kind,
        reason=reason,
        message=message,
        details={"generation": row.generation},
    )
