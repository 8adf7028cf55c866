"""What the API does to the scaling of a container: it writes the policy, and the number where the policy demands it."""

from dataclasses import replace

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.autoscaling.schemas import ScaleRequest
from moorage.containers.activity import record_action
from moorage.containers.replica_limits.service import ask_to_scale, ask_where_needed, withdraw_request
from moorage.containers.repository import lock_container, mark_due
from moorage.containers.scaling import put_scaling
from moorage.containers.service import Changed
from moorage.containers.spec import ContainerSettings, ResourceMode
from moorage.containers.states import DesiredState
from moorage.containers.trial import is_on_trial
from moorage.containers.verdict import Verdict
from moorage.identity.actor import Actor
from moorage.kit.errors import ConflictError, FieldError, InvalidInputError


async def change_scaling(
    session: AsyncSession, actor: Actor, container_id: str, wanted: ScaleRequest
) -> tuple[Changed, Verdict | None]:
    """Takes effect while it runs. A container of one replica becomes one that scales. A verdict says what it waits
    for, if that is more than its project may have."""
    row = await lock_container(session, container_id)
    if row.desired_state == DesiredState.DELETED:
        raise ConflictError("The container is being deleted.", code="container_deleting")
    before = ContainerSettings.from_json(row.settings)
    sent = wanted.model_dump(exclude_none=True)
    after = replace(before, resource_mode=ResourceMode.AUTOSCALING, **sent)
    _check(before, after, wanted)
    if after == before and not is_on_trial(row):
        await withdraw_request(session, actor, row)
        return Changed(row, anything=False), None
    if (waits := await ask_to_scale(session, actor, row, after, sent)) is not None:
        return Changed(row, anything=True), waits
    put_scaling(row, sent)
    await withdraw_request(session, actor, row)
    if row.desired_state == DesiredState.RUNNING:
        await ask_where_needed(session, actor, row)
    record_action(session, row, actor.id, "container.scale", sent)
    await session.flush()
    await mark_due(session, [row.id])
    await session.refresh(row)
    return Changed(row, anything=True), None


def _check(before: ContainerSettings, after: ContainerSettings, wanted: ScaleRequest) -> None:
    if before.resource_mode is ResourceMode.GENERAL and wanted.max_replicas is None:
        raise _invalid("max_replicas", "must be sent for a container that had one replica until now")
    if after.min_replicas > after.max_replicas:
        field = "min_replicas" if wanted.min_replicas is not None else "max_replicas"
        raise _invalid(field, f"would leave min {after.min_replicas} above max {after.max_replicas}")


def _invalid(field: str, message: str) -> InvalidInputError:
    return InvalidInputError(f"{field} {message}.", fields=(FieldError(field, message),))
