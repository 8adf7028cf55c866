"""What would change, field by field, with secrets masked. Pure."""

from dataclasses import dataclass

from moorage.containers.spec import ContainerSecrets, ContainerSettings, ResourceMode

MASK = "***"
Value = int | str | None


@dataclass(frozen=True)
class Change:
    field: str
    """As the API names it: `image`, `health_check.path`, `env.TOKEN`."""
    before: Value
    after: Value


@dataclass(frozen=True)
class _Secret:
    value: str | None


def difference(
    before: tuple[ContainerSettings, ContainerSecrets], after: tuple[ContainerSettings, ContainerSecrets]
) -> list[Change]:
    """A secret that changed shows as such, never by its value."""
    old, new = _flat(*before), _flat(*after)
    fields = [*new, *(field for field in old if field not in new)]
    return [
        Change(field, _shown(old.get(field)), _shown(new.get(field)))
        for field in fields
        if old.get(field) != new.get(field)
    ]


def _flat(settings: ContainerSettings, secrets: ContainerSecrets) -> dict[str, Value | _Secret]:
    scaling: dict[str, Value] = {}
    if settings.resource_mode is ResourceMode.AUTOSCALING:
        scaling = {
            "resources.min_replicas": settings.min_replicas,
            "resources.max_replicas": settings.max_replicas,
            "resources.target_concurrency": settings.target_concurrency,
            "resources.scale_down_delay_s": settings.scale_down_delay_s,
        }
    return {
        "category": settings.category,
        "image": settings.image,
        "registry.provider": settings.registry_provider,
        "registry.username": settings.registry_username,
        "registry.password": _Secret(secrets.registry_password),
        "resources.mode": settings.resource_mode,
        "resources.instance_type": settings.instance_type,
        **scaling,
        "start_command": settings.start_command,
        "port": settings.port,
        "health_check.path": settings.health_path,
        "health_check.timeout_s": settings.health_timeout_s,
        **{f"env.{name}": _Secret(value) for name, value in secrets.environment.items()},
        **{f"plain_env.{name}": value for name, value in settings.plain_environment.items()},
        "api_path": settings.api_path,
        "infrastructure": settings.infrastructure,
        "accept_exposure": "true" if settings.accept_exposure else None,
        "sleep_after_s": settings.sleep_after_s,
        "cache.size_gib": settings.cache_gib,
    }


def _shown(value: Value | _Secret) -> Value:
    if isinstance(value, _Secret):
        return None if value.value is None else MASK
    return value
