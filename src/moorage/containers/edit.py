"""An edit: the settings as they are, with what was sent laid over them. Pure.

The result has the shape of a new container, so that it passes through the same checks as one.
"""

from dataclasses import asdict
from typing import Any

from moorage.containers.schemas import ContainerCreate, ContainerPatch, SettingsPatch
from moorage.containers.spec import ContainerSecrets, ContainerSettings, ResourceMode
from moorage.containers.verdict import Fix


def merged(
    name: str, settings: ContainerSettings, secrets: ContainerSecrets, patch: SettingsPatch
) -> ContainerCreate:
    """Fields that were not sent stay. `env`, `plain_env` and `registry` merge by key, and null deletes a key."""
    sent = patch.model_dump(exclude_unset=True)
    current = _as_sent(name, settings, secrets)
    _take_out_of_the_other(current, sent)
    for field in ("env", "plain_env", "registry", "health_check", "limits"):
        if field in sent:
            sent[field] = _without_nulls({**current[field], **sent[field]})
    return ContainerCreate.model_validate({**current, **sent})


def changed_fields(
    before: tuple[str, ContainerSettings, ContainerSecrets],
    after: tuple[str, ContainerSettings, ContainerSecrets],
) -> list[str]:
    """Their names, as an edit calls them; a value may be a secret."""
    was, is_now = _as_sent(*before), _as_sent(*after)
    return sorted(name for name, value in is_now.items() if value != was[name])


def _take_out_of_the_other(current: dict[str, Any], sent: dict[str, Any]) -> None:
    """A variable that is sent as one kind is no longer of the other; one that is sent as both is left for the checks."""
    for one, other in (("env", "plain_env"), ("plain_env", "env")):
        named = {name for name, value in sent.get(one, {}).items() if value is not None}
        kept = {name: value for name, value in current[other].items() if name not in named}
        current[other] = kept


def patch_of(settings: ContainerSettings, fix: Fix) -> ContainerPatch:
    """The edit that a fix stands for."""
    match fix.field:
        case "port":
            return ContainerPatch.model_validate({"port": fix.after})
        case "health_check.timeout_s":
            return ContainerPatch.model_validate({"health_check": {"timeout_s": fix.after}})
        case "resources.instance_type":
            resources = {**_resources(settings), "instance_type": fix.after}
            return ContainerPatch.model_validate({"resources": resources})
    raise ValueError(f"no setting is called {fix.field}")


def _as_sent(name: str, settings: ContainerSettings, secrets: ContainerSecrets) -> dict[str, Any]:
    return {
        "name": name,
        "category": settings.category,
        "image": settings.image,
        "registry": {
            "provider": settings.registry_provider,
            "username": settings.registry_username,
            "password": secrets.registry_password,
        },
        "resources": _resources(settings),
        "start_command": settings.start_command,
        "port": settings.port,
        "health_check": {"path": settings.health_path, "timeout_s": settings.health_timeout_s},
        "limits": asdict(settings.limits),
        "env": dict(secrets.environment),
        "plain_env": dict(settings.plain_environment),
        "infrastructure": settings.infrastructure,
        "accept_exposure": settings.accept_exposure,
        "api_path": settings.api_path,
        "sleep_after_s": settings.sleep_after_s,
        "cache": {"size_gib": settings.cache_gib} if settings.cache_gib is not None else None,
    }


def _resources(settings: ContainerSettings) -> dict[str, Any]:
    resources: dict[str, Any] = {"mode": settings.resource_mode, "instance_type": settings.instance_type}
    if settings.resource_mode is ResourceMode.AUTOSCALING:
        resources |= {
            "min_replicas": settings.min_replicas,
            "max_replicas": settings.max_replicas,
            "target_concurrency": settings.target_concurrency,
            "scale_down_delay_s": settings.scale_down_delay_s,
        }
    return resources


def _without_nulls(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}
