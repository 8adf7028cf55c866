"""From a settings file and options to the body of `POST /projects/{project}/containers`.

The file's keys are the API's, so the API checks them; here only what the API cannot know is done: secrets are
fetched, a list becomes a command, and what follows from the image's name is filled in.
"""

import re
import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moorage_cli.client import Record
from moorage_cli.errors import UsageError
from moorage_cli.secret_values import environment_option, expanded, read_environment_file, read_secret

DEFAULT_INSTANCE_TYPE = "cpu-small"

_PROVIDERS_BY_HOST = (
    ("github", r"ghcr\.io"),
    ("gitlab", r"registry\.gitlab\.com"),
    ("quay", r"quay\.io"),
    ("nvidia", r"nvcr\.io"),
    ("google", r"([a-z0-9-]+\.)?gcr\.io|[a-z0-9-]+-docker\.pkg\.dev"),
    ("aws", r"[0-9]{12}\.dkr\.ecr\.[a-z0-9-]+\.amazonaws\.com(\.cn)?|public\.ecr\.aws"),
    ("azure", r"[a-z0-9]+\.azurecr\.(io|cn|us)"),
    ("docker-hub", r"(index\.|registry-1\.)?docker\.io"),
)


@dataclass(frozen=True)
class DeployOptions:
    """What stands on the command line; each wins over the file."""

    name: str | None = None
    image: str | None = None
    provider: str | None = None
    username: str | None = None
    password_file: Path | None = None
    instance_type: str | None = None
    min_replicas: int | None = None
    max_replicas: int | None = None
    start_command: str | None = None
    port: int | None = None
    health_path: str | None = None
    health_timeout_s: int | None = None
    api_path: str | None = None
    sleep_after_s: int | None = None
    cache_gib: int | None = None
    infrastructure: str | None = None
    accept_exposure: bool = False
    as_proposed: bool = False
    environment: tuple[str, ...] = ()
    environment_file: Path | None = None


def load_container_file(path: Path, environment: Mapping[str, str]) -> Record:
    """The body that the file describes, secrets in place."""
    try:
        values = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError) as exc:
        raise UsageError(f"Cannot read {path}: {getattr(exc, 'strerror', None) or exc}.") from exc
    except tomllib.TOMLDecodeError as exc:
        raise UsageError(f"{path} is not valid TOML: {exc}.") from exc
    body: Record = dict(values)
    if isinstance(body.get("start_command"), list):
        body["start_command"] = shlex.join(str(part) for part in body["start_command"])
    if "registry" in body:
        body["registry"] = _registry(_table(body, "registry", path), path, environment)
    for name in ("health_check", "limits", "cache"):
        if name in body:
            body[name] = _table(body, name, path)
    for kind in ("env", "plain_env"):
        if kind in body:
            table = _table(body, kind, path)
            body[kind] = {
                name: _env_value(kind, name, value, path, environment) for name, value in table.items()
            }
    return body


def deploy_body(body: Record, options: DeployOptions, environment: Mapping[str, str]) -> Record:
    """The file's body (or an empty one) with the options laid over it and what follows from the image filled in."""
    body = dict(body)
    simple = {
        "name": options.name,
        "image": options.image,
        "start_command": options.start_command,
        "port": options.port,
        "api_path": options.api_path,
        "sleep_after_s": options.sleep_after_s,
        "infrastructure": options.infrastructure,
        "accept_exposure": options.accept_exposure or None,
    }
    body.update({key: value for key, value in simple.items() if value is not None})
    body.update(cache_option(options))
    if not isinstance(body.get("image"), str) or not body["image"]:
        raise UsageError("Name what to deploy: --image REF, or -f FILE with an image in it.")
    body.setdefault("name", name_of_image(body["image"]))
    body["registry"] = registry_of(body, options)
    body["resources"] = _with_resource_options(body, options)
    health = {"path": options.health_path, "timeout_s": options.health_timeout_s}
    if any(value is not None for value in health.values()):
        given = {key: value for key, value in health.items() if value is not None}
        body["health_check"] = {**body.get("health_check", {}), **given}
    added = read_environment_file(options.environment_file) if options.environment_file else {}
    added.update(environment_option(text, environment) for text in options.environment)
    if added:
        body["env"] = {**body.get("env", {}), **added}
    return body


def cache_option(options: DeployOptions) -> Record:
    """`--cache`; 0 is none, also where the file or a model's template would have one."""
    if options.cache_gib is None:
        return {}
    return {"cache": {"size_gib": options.cache_gib} if options.cache_gib else None}


def name_of_image(image: str) -> str:
    """`ghcr.io/acme/chat:1.2` → `chat`."""
    last = image.partition("@")[0].rpartition("/")[2].partition(":")[0]
    return re.sub(r"[^A-Za-z0-9._-]", "-", last)[:63] or "container"


def provider_of_image(image: str) -> str:
    """The provider that an image's host belongs to; without a host, Docker Hub."""
    first, slash, _ = image.partition("/")
    if first == "local" and slash:
        return "local"
    if not slash or not ("." in first or ":" in first or first == "localhost"):
        return "docker-hub"
    return next((name for name, hosts in _PROVIDERS_BY_HOST if re.fullmatch(hosts, first)), "other")


def _registry(table: Record, path: Path, environment: Mapping[str, str]) -> Record:
    registry = dict(table)
    file = registry.pop("password_file", None)
    if file is not None:
        if "password" in registry:
            raise UsageError(f"{path}: give registry.password or registry.password_file, not both.")
        registry["password"] = read_secret(path.parent / str(file))
    elif isinstance(registry.get("password"), str):
        registry["password"] = expanded(registry["password"], environment, "registry.password")
    return registry


def _env_value(kind: str, name: str, value: Any, path: Path, environment: Mapping[str, str]) -> str:
    where = f"{kind}.{name}"
    if isinstance(value, str):
        return expanded(value, environment, where)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, dict) and set(value) == {"file"}:
        return read_secret(path.parent / str(value["file"]))
    raise UsageError(f'{where} must be a text, a number, or {{ file = "PATH" }}.')


def registry_of(body: Record, options: DeployOptions) -> Record:
    """The file's registry with the options laid over it; the provider follows from the image unless it is named."""
    registry = dict(body.get("registry") or {})
    if options.provider is not None:
        registry["provider"] = options.provider
    registry.setdefault("provider", provider_of_image(body["image"]))
    if options.username is not None:
        registry["username"] = options.username
    if options.password_file is not None:
        registry["password"] = read_secret(options.password_file)
    if registry.get("username") and not registry.get("password"):
        raise UsageError("A registry's username needs its password: give --password-file FILE (- is stdin).")
    return registry


def _with_resource_options(body: Record, options: DeployOptions) -> Any:
    resources = body.get("resources", {})
    if not isinstance(resources, dict):
        return resources  # the API says what is wrong with it
    resources = dict(resources)
    if options.instance_type is not None:
        resources["instance_type"] = options.instance_type
    resources.setdefault("instance_type", DEFAULT_INSTANCE_TYPE)
    if options.min_replicas is not None or options.max_replicas is not None:
        resources["mode"] = "autoscaling"
        if options.min_replicas is not None:
            resources["min_replicas"] = options.min_replicas
        least = resources.setdefault("min_replicas", 1)
        if options.max_replicas is not None:
            resources["max_replicas"] = options.max_replicas
        resources.setdefault("max_replicas", least)
    # Replica counts say what is meant; the mode need not be written as well.
    implied = "autoscaling" if "min_replicas" in resources or "max_replicas" in resources else "general"
    resources.setdefault("mode", implied)
    return resources


def _table(body: Record, key: str, path: Path) -> Record:
    if not isinstance(body[key], dict):
        raise UsageError(f"{path}: [{key}] must be a table.")
    return dict(body[key])
