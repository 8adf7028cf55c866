"""A container's settings, and what is right about them. Pure.

Everything here raises `ValueError` with a sentence that says what to write instead; the edge puts the name
of the field in front of it.
"""

import re
import shlex
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

DEFAULT_PORT = 8000
DEFAULT_HEALTH_TIMEOUT_S = 300
SHORTEST_IDLENESS_S, LONGEST_IDLENESS_S = 10, 86_400
"""After which a container may sleep: not before all gateways have had the time to say that nothing is asked of it."""
LARGEST_CACHE_GIB = 4096
"""That anybody can ask for; the operator may set less (`largest_cache_gib`)."""
MAX_REPLICAS = 30
"""Of one container, unless the operator has raised its project's limit."""
MOST_REPLICAS = 1000
"""That anybody can ask for."""


class RegistryProvider(StrEnum):
    DOCKER_HUB = "docker-hub"
    GITHUB = "github"
    GITLAB = "gitlab"
    QUAY = "quay"
    GOOGLE = "google"
    AWS = "aws"
    AZURE = "azure"
    NVIDIA = "nvidia"
    OTHER = "other"
    LOCAL = "local"


class ResourceMode(StrEnum):
    GENERAL = "general"
    AUTOSCALING = "autoscaling"


class ApiPath(StrEnum):
    """Where the container's own server has its API. The promised address, `/api/v1`, reaches it in either case."""

    API_V1 = "/api/v1"
    V1 = "/v1"
    """As vLLM, SGLang, TGI, llama.cpp and Ollama do: `/api/v1/…` is sent on as `/v1/…`, and nothing else is changed."""


# The host that an image without one gets, and what an image's own host must look like.
_PROVIDER_HOSTS: dict[RegistryProvider, tuple[str | None, str]] = {
    RegistryProvider.DOCKER_HUB: ("docker.io", r"docker\.io|index\.docker\.io|registry-1\.docker\.io"),
    RegistryProvider.GITHUB: ("ghcr.io", r"ghcr\.io"),
    RegistryProvider.GITLAB: ("registry.gitlab.com", r"registry\.gitlab\.com"),
    RegistryProvider.QUAY: ("quay.io", r"quay\.io"),
    RegistryProvider.NVIDIA: ("nvcr.io", r"nvcr\.io"),
    RegistryProvider.GOOGLE: (None, r"([a-z0-9-]+\.)?gcr\.io|[a-z0-9-]+-docker\.pkg\.dev"),
    RegistryProvider.AWS: (None, r"[0-9]{12}\.dkr\.ecr\.[a-z0-9-]+\.amazonaws\.com(\.cn)?|public\.ecr\.aws"),
    RegistryProvider.AZURE: (None, r"[a-z0-9]+\.azurecr\.(io|cn|us)"),
    RegistryProvider.OTHER: (None, r".+"),
}

_ENVIRONMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_HEALTH_PATH = re.compile(r"/[A-Za-z0-9/_.~%?=&+:@,-]{0,199}")
_LABEL = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOST = re.compile(rf"(?=.{{1,253}}(:|$)){_LABEL}(\.{_LABEL})*(:(?P<port>[0-9]{{1,5}}))?")
_REPOSITORY = re.compile(r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST = re.compile(r"sha256:[a-f0-9]{64}")


# Unless a container asks for something else. The gateway's own configuration falls back to the same.
USUAL_MAX_BODY_BYTES = 100_000_000
USUAL_REQUEST_TIMEOUT_S = 600
USUAL_IDLE_TIMEOUT_S = 3600


@dataclass(frozen=True)
class Limits:
    """What requests to the endpoint may do, and how the gateway treats them."""

    max_body_bytes: int = USUAL_MAX_BODY_BYTES
    request_timeout_s: int = USUAL_REQUEST_TIMEOUT_S
    idle_timeout_s: int = USUAL_IDLE_TIMEOUT_S
    max_concurrency: int = 100
    retry_unanswered: bool = False


@dataclass(frozen=True)
class ContainerSettings:
    """What a user sets, whole and valid; stored as JSON, secrets apart."""

    image: str
    """Complete: host, repository and tag or digest."""
    registry_provider: RegistryProvider
    registry_username: str | None
    resource_mode: ResourceMode
    instance_type: str
    min_replicas: int = 1
    max_replicas: int = 1
    target_concurrency: int = 4
    scale_down_delay_s: int = 300
    category: str | None = None
    start_command: str | None = None
    port: int | None = None
    health_path: str | None = None
    health_timeout_s: int = DEFAULT_HEALTH_TIMEOUT_S
    environment_names: tuple[str, ...] = ()
    infrastructure: str = "operator"
    accept_exposure: bool = False
    """Somebody said that owners of community machines may see what runs there; the audit log has who and when."""
    limits: Limits = field(default_factory=Limits)
    api_path: ApiPath = ApiPath.API_V1
    sleep_after_s: int | None = None
    """Of idleness; None: it never sleeps."""
    cache_gib: int | None = None
    """Room for its cache on each machine; None: it has none."""
    plain_environment: dict[str, str] = field(default_factory=dict)
    """Variables that are no secrets: they are shown, and not covered in logs. The others are in `ContainerSecrets`."""

    @property
    def cache_bytes(self) -> int | None:
        return self.cache_gib * 2**30 if self.cache_gib is not None else None

    @property
    def takes_either(self) -> bool:
        """Machines of both kinds."""
        return self.infrastructure == "any" and self.accept_exposure

    @property
    def command(self) -> tuple[str, ...] | None:
        return split_command(self.start_command) if self.start_command is not None else None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "ContainerSettings":
        return cls(
            **{
                **values,
                "registry_provider": RegistryProvider(values["registry_provider"]),
                "resource_mode": ResourceMode(values["resource_mode"]),
                "environment_names": tuple(values["environment_names"]),
                "limits": Limits(**values.get("limits", {})),
                "api_path": ApiPath(values.get("api_path", ApiPath.API_V1)),
            }
        )


@dataclass(frozen=True)
class ContainerSecrets:
    registry_password: str | None = field(default=None, repr=False)
    environment: dict[str, str] = field(default_factory=dict, repr=False)


def environment_of(settings: ContainerSettings, secrets: ContainerSecrets) -> dict[str, str]:
    """All variables, as what runs finds them."""
    return {**settings.plain_environment, **secrets.environment}


def complete_image(image: str, provider: RegistryProvider) -> str:
    """`acme/chat` at `github` → `ghcr.io/acme/chat:latest`."""
    host, repository, suffix = _split_image(image)
    if provider is RegistryProvider.LOCAL:
        if host is not None or not repository.startswith("local/") or suffix.startswith("@"):
            raise ValueError("must be a tag of the form local/name:tag for the provider 'local'")
        return repository + suffix
    default_host, allowed = _PROVIDER_HOSTS[provider]
    if host is None:
        if default_host is None:
            raise ValueError(f"must begin with the registry's host for the provider '{provider}'")
        host = default_host
    if not re.fullmatch(allowed, host):
        raise ValueError(f"is at {host}, which does not belong to the provider '{provider}'")
    if provider is RegistryProvider.DOCKER_HUB:
        host = "docker.io"
        repository = repository if "/" in repository else f"library/{repository}"
    return f"{host}/{repository}{suffix}"


def registry_host(complete: str) -> str:
    return complete.partition("/")[0]


def split_command(command: str) -> tuple[str, ...]:
    """As a shell would split it; no shell ever runs it."""
    if "\x00" in command or len(command) > 8192:
        raise ValueError("must be at most 8192 characters, without NUL")
    try:
        parts = tuple(shlex.split(command))
    except ValueError as exc:
        raise ValueError(f"cannot be split into arguments: {str(exc).lower()}") from exc
    if not parts:
        raise ValueError("must name a program; leave it out to keep the image's own")
    return parts


def checked_health_path(path: str) -> str:
    if not _HEALTH_PATH.fullmatch(path):
        raise ValueError(
            "must begin with / and hold at most 200 letters, digits and URL characters, without spaces"
        )
    return path


def checked_environment(environment: dict[str, str]) -> dict[str, str]:
    if len(environment) > 200:
        raise ValueError("must have at most 200 variables")
    if sum(len(name) + len(value) for name, value in environment.items()) > 262_144:
        raise ValueError("must be at most 256 KiB in all")
    for name, value in environment.items():
        if not _ENVIRONMENT_NAME.fullmatch(name):
            raise ValueError(
                f"{name[:60]!r} is not a name: letters, digits and underscores, not beginning with a digit"
            )
        if "\x00" in value or len(value) > 32_768 or not is_encodable(value):
            raise ValueError(
                f"the value of {name} must be at most 32768 characters, without NUL or half a surrogate pair"
            )
    if sum(len(name) + len(value.encode()) for name, value in environment.items()) > 262_144:
        raise ValueError("must be at most 256 KiB in all")
    return environment


def chosen_port(setting: int | None, exposed: tuple[int, ...]) -> int:
    """The setting, else the image's single EXPOSE, else 8000."""
    if setting is not None:
        return setting
    return exposed[0] if len(exposed) == 1 else DEFAULT_PORT


def is_encodable(text: str) -> bool:
    """JSON can carry half of a surrogate pair; a process's environment cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_host(host: str) -> bool:
    found = _HOST.fullmatch(host)
    return found is not None and (found["port"] is None or 1 <= int(found["port"]) <= 65535)


def _split_image(image: str) -> tuple[str | None, str, str]:
    name, at, digest = image.partition("@")
    if at and not _DIGEST.fullmatch(digest):
        raise ValueError("has a digest that is not sha256: and 64 hexadecimal digits")
    first, slash, rest = name.partition("/")
    has_host = bool(slash) and ("." in first or ":" in first or first == "localhost")
    host, path = (first, rest) if has_host else (None, name)
    path, colon, tag = path.partition(":")
    if host is not None and not _is_host(host):
        raise ValueError("has a registry host that is not a host name with an optional port")
    if len(image) > 500 or not _REPOSITORY.fullmatch(path) or (colon and not _TAG.fullmatch(tag)):
        raise ValueError("must look like repository:tag or host/repository:tag, in lower case")
    return host, path, f"@{digest}" if at else f":{tag or 'latest'}"
