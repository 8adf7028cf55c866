"""Falling asleep and waking: each is one transaction that writes what is wanted, under the container's lock. So a thousand
requests at ten gateways are one wake, and whoever stops the container meanwhile is not overruled."""

from dataclasses import dataclass

from sqlalchemy import func
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.containers import trial
from moorage.containers.activity import SYSTEM, record_action, record_activity
from moorage.containers.admission import hold_hours, is_paid, refuse_spent_allowance
from moorage.containers.channels import ROUTES
from moorage.containers.models import WOKEN_BY_REQUEST, ContainerRow
from moorage.containers.repository import lock_container, mark_due
from moorage.containers.sleep import repository
from moorage.containers.sleep.state import is_asleep
from moorage.containers.spec import ContainerSettings
from moorage.containers.states import ContainerState, DesiredState
from moorage.containers.suspension import refuse_suspended
from moorage.kit.clock import Clock
from moorage.kit.database import notify
from moorage.kit.errors import ConflictError
from moorage.kit.settings import Settings
from moorage.organizations.models import ProjectRow


@dataclass(frozen=True)
class Woken:
    row: ContainerRow
    anything: bool
    """False where it was awake, or about to be."""


async def fall_asleep(session: AsyncSession, container_id: str, sleep_after_s: int) -> bool:
    """It did nothing for so long, as far as all gateways say. False where it is another by now than the one that was looked
    at. Its gateways stop sending it requests first; only when they all say so do its replicas go."""
    row = await lock_container(session, container_id)
    spec = ContainerSettings.from_json(row.settings)
    # Of a restart that failed, the replicas from before it are all there is: once they go, nothing of it can be started again.
    whole = row.failed_generation != row.generation
    settled = row.state == ContainerState.RUNNING and whole and not trial.is_on_trial(row)
    if not settled or row.desired_state != DesiredState.RUNNING or is_asleep(row):
        return False
    if spec.sleep_after_s != sleep_after_s:
        return False
    row.asleep_since = func.now()
    # What the autoscaler asked for was for a load that is over.
    row.desired_replicas = spec.min_replicas
    await repository.add_sleep(session, row, spec.min_replicas)
    _record(session, row, SYSTEM, "container.sleep", f"It had no request for {_words(sleep_after_s)}.")
    await _tell(session, row)
    return True


async def wake(
    session: AsyncSession, container_id: str, by: str, *, by_request: bool, settings: Settings, clock: Clock
) -> Woken:
    """It has replicas again, from its least number on. Raises where it may not: without credit for an hour of each, while its
    organization is suspended or has started too much in vain; then it sleeps on."""
    row = await lock_container(session, container_id)
    if row.desired_state != DesiredState.RUNNING:
        raise ConflictError(
            "The container is stopped. Start it to serve again.", code="container_not_running"
        )
    await refuse_suspended(session, row.project_id)
    if row.asleep_since is None:
        return Woken(row, anything=False)
    if not await is_paid(session, row):
        project = await session.get(ProjectRow, row.project_id)
        assert project is not None, "a foreign key says so"
        await refuse_spent_allowance(session, project.organization_id, settings, clock.now())
    await get_up(session, row, by)
    await hold_hours(session, row)
    if by_request:
        _record(session, row, by, "container.wake", WOKEN_BY_REQUEST)
    else:
        generation = {"generation": row.generation}
        record_action(session, row, by, "container.wake", generation, message="It was woken.")
    await _tell(session, row)
    await session.refresh(row)
    return Woken(row, anything=True)


async def get_up(session: AsyncSession, row: ContainerRow, by: str) -> None:
    """For a start of it, whoever asks for that. Its row is locked; requests are held until it serves."""
    if row.asleep_since is None:
        return
    row.asleep_since, row.woken_at = None, func.now()
    row.unready_since = None
    row.desired_replicas = ContainerSettings.from_json(row.settings).min_replicas
    await repository.end_sleep(session, row.id, by)


async def leave_bed(session: AsyncSession, row: ContainerRow, by: str) -> None:
    """It is to stop, or to go: nobody is held for it any more."""
    if row.asleep_since is not None:
        await repository.end_sleep(session, row.id, by)
    row.asleep_since = row.woken_at = None


async def stay_awake(session: AsyncSession, container_id: str) -> None:
    """A request reached it as it fell asleep, and still runs."""
    row = await lock_container(session, container_id)
    if row.asleep_since is None or row.desired_state != DesiredState.RUNNING:
        return
    await get_up(session, row, SYSTEM)
    await hold_hours(session, row)
    _record(
        session, row, SYSTEM, "container.wake", "A request reached it as it fell asleep, so it stays awake."
    )
    await _tell(session, row)


async def _tell(session: AsyncSession, row: ContainerRow) -> None:
    await session.flush()
    await mark_due(session, [row.id])
    await notify(session, ROUTES, about=row.id)


def _record(session: AsyncSession, row: ContainerRow, actor: str, kind: str, message: str) -> None:
    record_activity(
        session,
        project_id=row.project_id,
        container_id=row.id,
        actor=actor,
        kind=kind,
        message=message,
        details={"generation": row.generation},
    )


def _words(seconds: int) -> str:
    return f"{seconds} s" if seconds % 60 else f"{seconds // 60} min"
