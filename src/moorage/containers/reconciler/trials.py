"""What the reconciler writes while a draft is being applied. Every step looks at the locked row first: whoever stopped
or deleted the container meanwhile has called the trial off."""

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.containers import trial
from moorage.containers.activity import SYSTEM, record_activity
from moorage.containers.models import ContainerRow
from moorage.containers.reconciler.loading_repository import Loaded
from moorage.containers.reconciler.repository import FoundImage
from moorage.containers.repository import lock_container
from moorage.containers.states import ReplicaState, TrialStep
from moorage.containers.verdict import Verdict
from moorage.containers.views import Plan


def on_trial(row: ContainerRow) -> ContainerRow:
    """The container as it will be, for a look at its image; never stored."""
    assert row.trial_settings is not None, "asked for only while there is something to try"
    assert row.trial_secrets is not None, "kept together"
    return ContainerRow(
        id=row.id, project_id=row.project_id, settings=row.trial_settings, secrets=row.trial_secrets
    )


async def record_image(session: AsyncSession, before: ContainerRow, found: FoundImage | Verdict) -> None:
    row = await _still(session, before, TrialStep.PREPARE)
    if row is None:
        return
    if isinstance(found, Verdict):
        trial.cancel(row)
        await _give_up(session, row, found, "Nothing was stopped: the settings from before stay.")
    else:
        row.trial_image = {
            "ref": found.ref,
            "digest": found.digest,
            "port": found.port,
            "gpu_environment": dict(found.gpu_environment),
        }


async def advance(session: AsyncSession, loaded: Loaded, plan: Plan) -> None:
    """The step that this plan ends, if it ends one."""
    before = loaded.container
    if plan.exchange:
        row = await _still(session, before, TrialStep.STOP)
        if row is not None:
            trial.exchange(row)
            _due(row)
    elif plan.go_back is not None:
        row = await _still(session, before, TrialStep.PROVE)
        if row is not None:
            trial.go_back(row)
            await _give_up(session, row, plan.go_back, "It went back to the settings from before.")
    elif trial.trial_step(before) is TrialStep.PROVE and _serves(loaded, plan):
        row = await _still(session, before, TrialStep.PROVE)
        if row is not None:
            trial.succeed(row)
            _record(session, row, "container.draft_applied")


async def _give_up(session: AsyncSession, row: ContainerRow, verdict: Verdict, outcome: str) -> None:
    now = (await session.execute(select(func.now()))).scalar_one()
    trial.failed(row, verdict, now)
    _due(row)
    _record(session, row, "container.draft_failed", verdict.reason, f"{verdict.message} {outcome}")


async def _still(session: AsyncSession, before: ContainerRow, step: TrialStep) -> ContainerRow | None:
    row = await lock_container(session, before.id)
    same = row.generation == before.generation and trial.trial_step(row) is step
    return row if same else None


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
