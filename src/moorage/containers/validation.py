"""From what a user sent to settings that are whole and right, all problems at once, so that a person fixes them in
one go. Used for new containers, for edits and for the pre-flight alike: what is checked on one path is on all."""

from collections.abc import Callable
from typing import TypeVar

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.catalog.repository import find_instance_type
from moorage.containers.schemas import AutoscalingResources, ContainerCreate, RegistryWrite
from moorage.containers.spec import (
    ContainerSecrets,
    ContainerSettings,
    Limits,
    RegistryProvider,
    ResourceMode,
    checked_environment,
    checked_health_path,
    complete_image,
    registry_host,
    split_command,
)
from moorage.kit.errors import FieldError, InvalidInputError
from moorage.kit.names import checked_name
from moorage.kit.settings import Settings
from moorage.outbound.addresses import is_allowed_by_name

ResultT = TypeVar("ResultT")


async def validated(
    session: AsyncSession, wanted: ContainerCreate, settings: Settings
) -> tuple[ContainerSettings, ContainerSecrets]:
    problems: list[FieldError] = []
    image = _image(problems, wanted.image, wanted.registry) or wanted.image
    _try(problems, "name", lambda: checked_name(wanted.name))
    _try(problems, "env", lambda: checked_environment(wanted.env))
    _try(problems, "plain_env", lambda: checked_environment(wanted.plain_env))
    if not problems:
        _try(problems, "plain_env", lambda: _check_together(wanted))
    if wanted.start_command is not None:
        command = wanted.start_command
        _try(problems, "start_command", lambda: split_command(command))
    if wanted.health_check.path is not None:
        path = wanted.health_check.path
        _try(problems, "health_check.path", lambda: checked_health_path(path))
    if wanted.cache is not None:
        size_gib = wanted.cache.size_gib
        _try(problems, "cache", lambda: _check_cache(size_gib, settings))
    problems += await _resource_problems(session, wanted)
    _raise(problems)
    _refuse_exposure(wanted)
    _refuse_private_registry(image, wanted.registry, settings)
    return _settings_of(wanted, image), ContainerSecrets(wanted.registry.password, wanted.env)


def _check_together(wanted: ContainerCreate) -> None:
    twice = sorted(wanted.env.keys() & wanted.plain_env.keys())
    if twice:
        raise ValueError(f"{twice[0][:60]!r} is also in env: a variable is either secret or plain")
    checked_environment({**wanted.env, **wanted.plain_env})


def _refuse_exposure(wanted: ContainerCreate) -> None:
    """Nobody ends up on a stranger's machine without having said so."""
    if wanted.infrastructure == "operator" or wanted.accept_exposure:
        return
    raise InvalidInputError(
        f"With infrastructure '{wanted.infrastructure}' it may run on a machine of somebody else's. Its owner has root there, and "
        "can read the memory of what runs: prompts, answers, weights, the image, and the environment with its secrets. Set "
        "accept_exposure to true if that may be, or infrastructure to 'operator'.",
        code="exposure_not_accepted",
        fields=(
            FieldError("accept_exposure", f"must be true for the infrastructure '{wanted.infrastructure}'"),
        ),
    )


def validated_image(image: str, registry: RegistryWrite, settings: Settings) -> str:
    """The complete name of an image that may be asked for."""
    problems: list[FieldError] = []
    complete = _image(problems, image, registry) or image
    _raise(problems)
    _refuse_private_registry(complete, registry, settings)
    return complete


def _image(problems: list[FieldError], image: str, registry: RegistryWrite) -> str | None:
    if (registry.username is None) != (registry.password is None):
        problems.append(FieldError("registry", "must have both username and password, or neither"))
    if registry.provider is RegistryProvider.LOCAL and registry.username is not None:
        problems.append(FieldError("registry", "of the provider 'local' takes no username or password"))
    return _try(problems, "image", lambda: complete_image(image, registry.provider))


def _refuse_private_registry(image: str, registry: RegistryWrite, settings: Settings) -> None:
    local = registry.provider is RegistryProvider.LOCAL
    if not local and not is_allowed_by_name(registry_host(image), settings.allowed_registries):
        raise InvalidInputError(
            f"The registry of {image} is at a private address that the operator has not allowed.",
            code="registry_address_not_allowed",
            fields=(FieldError("image", "must be at a public registry"),),
        )


def largest_cache_gib(settings: Settings) -> int:
    """That a container may have here; 0 where none may have one."""
    in_cluster_only = settings.kubernetes is not None and settings.docker_host is None
    return 0 if in_cluster_only else settings.largest_cache_gib


def _check_cache(size_gib: int, settings: Settings) -> None:
    if largest_cache_gib(settings) == 0:
        raise ValueError(
            "must be left out: this installation runs containers in a Kubernetes cluster, which keeps no caches"
        )
    if size_gib > settings.largest_cache_gib:
        raise ValueError(f"must have a size_gib of at most {settings.largest_cache_gib}")


def _raise(problems: list[FieldError]) -> None:
    if problems:
        sentence = "; ".join(f"{one.field} {one.message}" for one in problems) + "."
        raise InvalidInputError(sentence, fields=tuple(problems))


async def _resource_problems(session: AsyncSession, wanted: ContainerCreate) -> list[FieldError]:
    resources = wanted.resources
    problems = []
    instance_type = await find_instance_type(session, resources.instance_type)
    if instance_type is None:
        message = f"{resources.instance_type[:63]!r} is not an instance type here"
        problems.append(FieldError("resources.instance_type", message))
    elif not instance_type.enabled:
        message = f"{instance_type.name} is no longer offered"
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
        limits=Limits(**wanted.limits.model_dump()),
        environment_names=tuple(wanted.env),
        plain_environment=dict(wanted.plain_env),
        infrastructure=wanted.infrastructure,
        # Said of other machines, and to be said again before it goes back to them.
        accept_exposure=wanted.infrastructure != "operator" and wanted.accept_exposure,
        api_path=wanted.api_path,
        sleep_after_s=wanted.sleep_after_s,
        cache_gib=wanted.cache.size_gib if wanted.cache is not None else None,
        **scaling,
    )


def _try(problems: list[FieldError], field: str, check: Callable[[], ResultT]) -> ResultT | None:
    try:
        return check()
    except ValueError as exc:
        problems.append(FieldError(field, str(exc)))
        return None
