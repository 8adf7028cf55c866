"""What the API does to containers: it writes what is wanted and wakes the reconciler. It never calls an engine."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.catalog.repository import find_instance_type
from moorage.containers import repository
from moorage.containers.activity import record_activity
from moorage.containers.channels import ROUTES
from moorage.containers.models import ContainerRow
from moorage.containers.registry_address import is_allowed_without_lookup
from moorage.containers.schemas import AutoscalingResources, ContainerCreate
from moorage.containers.secrets import seal
from moorage.containers.spec import (
    ContainerSecrets,
    ContainerSettings,
    RegistryProvider,
    ResourceMode,
    checked_environment,
    checked_health_path,
    checked_name,
    complete_image,
    split_command,
)
from moorage.containers.states import ContainerState, DesiredState, Reason
from moorage.identity.actor import Actor
from moorage.kit.clock import Clock
from moorage.kit.crypto import Keyring
from moorage.kit.database import notify
from moorage.kit.errors import ConflictError, FieldError, InvalidInputError
from moorage.kit.ids import new_container_id
from moorage.kit.settings import Settings
from moorage.organizations.models import ProjectRow

ResultT = TypeVar("ResultT")


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
    spec, secrets = await _checked(session, wanted, settings)
    if await repository.name_taken(session, project.id, wanted.name):
        raise _name_taken(wanted.name)
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
    )
    session.add(row)
    try:
        await session.flush()
    except IntegrityError as exc:
        if "uq_containers_project_id_name" in str(exc.orig):
            raise _name_taken(wanted.name) from exc
        raise
    _record(
        session, row, actor, "container.create", {"image": spec.image, "instance_type": spec.instance_type}
    )
    await repository.mark_due(session, [row.id])
    await notify(session, ROUTES)
    await session.refresh(row)
    return row


async def start_container(session: AsyncSession, actor: Actor, container_id: str) -> Changed:
    row = await repository.lock_container(session, container_id)
    _refuse_deleted(row)
    runs = row.desired_state == DesiredState.RUNNING and row.failed_generation != row.generation
    if runs:
        return Changed(row, anything=False)
    return await _new_generation(session, actor, row, "container.start")


async def restart_container(session: AsyncSession, actor: Actor, container_id: str) -> Changed:
    """A new generation takes over slot by slot; from stopped or failed it is a start."""
    row = await repository.lock_container(session, container_id)
    _refuse_deleted(row)
    return await _new_generation(session, actor, row, "container.restart")


async def stop_container(session: AsyncSession, actor: Actor, container_id: str) -> Changed:
    row = await repository.lock_container(session, container_id)
    _refuse_deleted(row)
    if row.desired_state == DesiredState.STOPPED:
        return Changed(row, anything=False)
    row.desired_state = DesiredState.STOPPED
    row.state, row.reason = ContainerState.STOPPING, Reason.STOPPED_BY_USER
    row.message = "Stopping: requests in flight may finish."
    return await _changed(session, actor, row, "container.stop")


async def delete_container(session: AsyncSession, actor: Actor, container_id: str) -> Changed:
    row = await repository.lock_container(session, container_id)
    if row.desired_state == DesiredState.DELETED:
        return Changed(row, anything=False)
    row.desired_state = DesiredState.DELETED
    row.state, row.reason, row.message = ContainerState.DELETING, None, None
    return await _changed(session, actor, row, "container.delete")


async def _new_generation(session: AsyncSession, actor: Actor, row: ContainerRow, kind: str) -> Changed:
    row.desired_state = DesiredState.RUNNING
    row.generation += 1
    row.unready_since = None
    if row.state != ContainerState.RUNNING:
        row.state, row.reason, row.message = ContainerState.PENDING, None, None
    return await _changed(session, actor, row, kind)


async def _changed(session: AsyncSession, actor: Actor, row: ContainerRow, kind: str) -> Changed:
    _record(session, row, actor, kind, {"generation": row.generation})
    await session.flush()
    await repository.mark_due(session, [row.id])
    await notify(session, ROUTES)
    await session.refresh(row)
    return Changed(row, anything=True)


async def _checked(
    session: AsyncSession, wanted: ContainerCreate, settings: Settings
) -> tuple[ContainerSettings, ContainerSecrets]:
    """All fields at once, so that a person mends them in one go."""
    problems: list[FieldError] = []
    image = (
        _try(problems, "image", lambda: complete_image(wanted.image, wanted.registry.provider))
        or wanted.image
    )
    _try(problems, "name", lambda: checked_name(wanted.name))
    _try(problems, "env", lambda: checked_environment(wanted.env))
    if wanted.start_command is not None:
        command = wanted.start_command
        _try(problems, "start_command", lambda: split_command(command))
    if wanted.health_check.path is not None:
        path = wanted.health_check.path
        _try(problems, "health_check.path", lambda: checked_health_path(path))
    problems += _registry_problems(wanted)
    problems += await _resource_problems(session, wanted)
    if problems:
        raise InvalidInputError(
            "; ".join(f"{one.field} {one.message}" for one in problems) + ".", fields=tuple(problems)
        )
    local = wanted.registry.provider is RegistryProvider.LOCAL
    if not local and not is_allowed_without_lookup(image, settings.allowed_registries):
        raise InvalidInputError(
            f"The registry of {image} is at a private address, which the operator has not allowed.",
            code="registry_address_not_allowed",
            fields=(FieldError("image", "must be at a public registry"),),
        )
    return _settings_of(wanted, image), ContainerSecrets(wanted.registry.password, wanted.env)


def _registry_problems(wanted: ContainerCreate) -> list[FieldError]:
    registry = wanted.registry
    if (registry.username is None) != (registry.password is None):
        return [FieldError("registry", "must have both username and password, or neither")]
    if registry.provider is RegistryProvider.LOCAL and registry.username is not None:
        return [FieldError("registry", "of the provider 'local' takes no username and password")]
    return []


async def _resource_problems(session: AsyncSession, wanted: ContainerCreate) -> list[FieldError]:
    resources = wanted.resources
    problems = []
    instance_type = await find_instance_type(session, resources.instance_type)
    if instance_type is None:
        message = f"{resources.instance_type[:63]!r} is not an instance type here; see GET /instance-types"
        problems.append(FieldError("resources.instance_type", message))
    elif wanted.infrastructure not in (instance_type.infrastructure, "any"):
        message = f"must be '{instance_type.infrastructure}', which {instance_type.name} is, or 'any'"
        problems.append(FieldError("infrastructure", message))
    if isinstance(resources, AutoscalingResources) and resources.min_replicas > resources.max_replicas:
        problems.append(FieldError("resources.min_replicas", "must not be greater than max_replicas"))
    return problems


def _settings_of(wanted: ContainerCreate, image: str) -> ContainerSettings:
    resources = wanted.resources
    scaling = {}
    if isinstance(resources, AutoscalingResources):
        scaling = resources.model_dump(exclude={"mode", "instance_type"})
    return ContainerSettings(
        image=image,
        registry_provider=wanted.registry.provider,
        registry_username=wanted.registry.username,
        resource_mode=ResourceMode(resources.mode),
        instance_type=resources.instance_type,
        category=wanted.category,
        start_command=wanted.start_command,
        port=wanted.port,
        health_path=wanted.health_check.path,
        health_timeout_s=wanted.health_check.timeout_s,
        environment_names=tuple(wanted.env),
        infrastructure=wanted.infrastructure,
        **scaling,
    )


def _try(problems: list[FieldError], field: str, check: Callable[[], ResultT]) -> ResultT | None:
    try:
        return check()
    except ValueError as exc:
        problems.append(FieldError(field, str(exc)))
        return None


def _record(
    session: AsyncSession, row: ContainerRow, actor: Actor, kind: str, details: dict[str, object]
) -> None:
    record_activity(
        session, project_id=row.project_id, container_id=row.id, actor=actor.id, kind=kind, details=details
    )


def _refuse_deleted(row: ContainerRow) -> None:
    if row.desired_state == DesiredState.DELETED:
        raise ConflictError("The container is being deleted.", code="container_deleting")


def _name_taken(name: str) -> ConflictError:
    return ConflictError(f"There is a container named {name} in this project already.", code="name_taken")
