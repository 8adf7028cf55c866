"""Containers as the API speaks of them. Shapes and bounds here; what is right about them in `spec.py`."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from moorage.containers.spec import (
    DEFAULT_HEALTH_TIMEOUT_S,
    LARGEST_CACHE_GIB,
    LONGEST_IDLENESS_S,
    MOST_REPLICAS,
    SHORTEST_IDLENESS_S,
    USUAL_IDLE_TIMEOUT_S,
    USUAL_MAX_BODY_BYTES,
    USUAL_REQUEST_TIMEOUT_S,
    ApiPath,
    RegistryProvider,
    is_encodable,
)
from moorage.containers.states import ContainerState
from moorage.machines.reliability import Tier

MOST_SETTINGS_BYTES = 2 * 2**20
"""Of a body: the largest environment that is allowed, with every character written as a six-byte escape, and some room."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


def _storable(text: str) -> str:
    if "\x00" in text or not is_encodable(text):
        raise ValueError("must not contain NUL or half a surrogate pair")
    return text


Text = Annotated[str, AfterValidator(_storable)]
"""Free text that is kept: JSON can carry characters that Postgres cannot."""


class RegistryWrite(_Strict):
    provider: RegistryProvider = RegistryProvider.DOCKER_HUB
    username: Text | None = Field(default=None, min_length=1, max_length=256)
    password: Text | None = Field(default=None, min_length=1, max_length=16384)


class GeneralResources(_Strict):
    mode: Literal["general"] = "general"
    instance_type: Text = Field(max_length=63)


class AutoscalingResources(_Strict):
    mode: Literal["autoscaling"]
    instance_type: Text = Field(max_length=63)
    min_replicas: int = Field(ge=1, le=MOST_REPLICAS)
    max_replicas: int = Field(ge=1, le=MOST_REPLICAS)
    target_concurrency: int = Field(default=4, ge=1, le=1000)
    scale_down_delay_s: int = Field(default=300, ge=0, le=86400)


Resources = Annotated[GeneralResources | AutoscalingResources, Field(discriminator="mode")]


class HealthCheck(_Strict):
    path: str | None = Field(default=None, max_length=200)
    timeout_s: int = Field(default=DEFAULT_HEALTH_TIMEOUT_S, ge=10, le=3600)


class EndpointLimits(_Strict):
    max_body_bytes: int = Field(default=USUAL_MAX_BODY_BYTES, ge=1, le=100_000_000_000)
    """A longer announced body is refused with 413. A body of unannounced length is not measured."""
    request_timeout_s: int = Field(default=USUAL_REQUEST_TIMEOUT_S, ge=1, le=86400)
    """How long the container may send nothing, before or within its answer. An active stream has no limit."""
    idle_timeout_s: int = Field(default=USUAL_IDLE_TIMEOUT_S, ge=1, le=86400)
    """How long both sides of a WebSocket may send nothing."""
    max_concurrency: int = Field(default=100, ge=1, le=100_000)
    """Requests that one replica works on at a time. More wait in the queue."""
    retry_unanswered: bool = False
    """Whether to send a request to another replica if its connection broke without an answer. It may then run
    twice."""


class CacheSettings(_Strict):
    """Space on each of its machines for weights and compiled kernels, so that later starts find them."""

    size_gib: int = Field(ge=1, le=LARGEST_CACHE_GIB)


class ContainerCreate(_Strict):
    name: str = Field(max_length=200)
    category: Text | None = Field(default=None, max_length=64)
    image: str = Field(max_length=500)
    registry: RegistryWrite = RegistryWrite()
    resources: Resources
    start_command: str | None = Field(default=None, max_length=8192)
    port: int | None = Field(default=None, ge=1, le=65535)
    health_check: HealthCheck = HealthCheck()
    limits: EndpointLimits = EndpointLimits()
    env: dict[str, str] = Field(default_factory=dict)
    """Secret variables: sealed, never shown again, and masked in log lines."""
    plain_env: dict[str, str] = Field(default_factory=dict)
    """Variables that are not secret: shown to everybody who sees the container, and not masked in logs."""
    api_path: ApiPath = ApiPath.API_V1
    """The path that the container itself serves. With `/v1`, requests to `/api/v1/…` reach it as `/v1/…`."""
    infrastructure: Literal["operator", "community", "any"] = "operator"
    """Whose machines to use. With `any`, each replica takes the cheaper of two types of the same size that has
    room."""
    accept_exposure: bool = False
    """Must be true for `community` and `any`: the owner of a machine can read the memory of what runs there,
    including prompts, weights and environment."""
    sleep_after_s: int | None = Field(default=None, ge=SHORTEST_IDLENESS_S, le=LONGEST_IDLENESS_S)
    """Seconds without a request after which it sleeps, with no replicas and no further hours. The next request wakes
    it and waits. Null: never."""
    cache: CacheSettings | None = None
    """Shared by its replicas on a machine and by later starts there, and by nobody else. Null: no cache; an existing
    one is deleted."""


class SettingsPatch(_Strict):
    """Fields that you do not send stay as they are. `env` and `plain_env` are merged, and null deletes a variable. A
    variable sent in one is removed from the other, so a secret becomes plain only with its value."""

    category: Text | None = Field(default=None, max_length=64)
    image: str = Field(default="", max_length=500)
    registry: RegistryWrite = RegistryWrite()
    resources: Resources = GeneralResources(instance_type="")
    start_command: str | None = Field(default=None, max_length=8192)
    port: int | None = Field(default=None, ge=1, le=65535)
    health_check: HealthCheck = HealthCheck()
    limits: EndpointLimits = EndpointLimits()
    env: dict[str, str | None] = Field(default_factory=dict)
    plain_env: dict[str, str | None] = Field(default_factory=dict)
    api_path: ApiPath = ApiPath.API_V1
    infrastructure: Literal["operator", "community", "any"] = "operator"
    accept_exposure: bool = False
    sleep_after_s: int | None = Field(default=None, ge=SHORTEST_IDLENESS_S, le=LONGEST_IDLENESS_S)
    cache: CacheSettings | None = None


class ContainerPatch(SettingsPatch):
    name: str = Field(default="", max_length=200)


class PreflightRequest(_Strict):
    image: str = Field(max_length=500)
    registry: RegistryWrite = RegistryWrite()
    port: int | None = Field(default=None, ge=1, le=65535)


class SettingsProposal(BaseModel):
    """Settings that a known model server needs. Somebody must accept them."""

    server: str
    api_path: ApiPath
    port: int
    health_path: str
    message: str


class ProposalResult(BaseModel):
    proposal: SettingsProposal | None
    """Null if nothing is known about the image."""


class PreflightResult(BaseModel):
    """What a deployment of this image would find. `ok` false carries the reason a container would fail with."""

    ok: bool
    reason: str | None = None
    message: str
    image: str
    digest: str | None = None
    platforms: list[str] = []
    size_bytes: int | None = None
    exposed_ports: list[int] = []
    port: int | None = None
    """The port that the container would be expected to listen on."""
    entrypoint: list[str] | None = None
    """The image's own ENTRYPOINT, which a start command replaces together with its CMD. Empty if it has none. Null if
    Moorage has not looked into the image, or if it is not text."""
    warnings: list[str] = []
    proposal: SettingsProposal | None = None


class RegistryRead(BaseModel):
    provider: RegistryProvider
    username: str | None
    has_password: bool


class ReplicaCounts(BaseModel):
    desired: int
    ready: int


class RestartRequest(_Strict):
    avoid_current_nodes: bool = False
    """Start on machines other than those where its replicas are, or were last."""


class FixRead(_Strict):
    """A change of one setting that would likely fix a failed container."""

    field: str
    before: int | str = Field(alias="from")
    after: int | str = Field(alias="to")


class TrialFailure(BaseModel):
    """Why applied settings were given up for the previous ones."""

    reason: str
    message: str
    fix: FixRead | None
    at: datetime


class DraftSummary(BaseModel):
    saved_at: datetime | None
    saved_by: str | None
    applying: bool
    failure: TrialFailure | None


class RolloutRead(BaseModel):
    """An update that is under way."""

    strategy: str
    version: int
    from_version: int
    begun_at: datetime
    beside: bool
    """Whether both versions serve, or may."""
    watch_s: float
    """How long both serve once the new one is healthy."""
    share: int | None = None
    """For a canary: the percentage of requests that it gets."""
    promote_after_s: float | None = None
    """For a canary: the seconds after which it takes over by itself. Null: somebody decides."""
    serving_since: datetime | None = None
    """For a canary: when its first replica was at the endpoint."""
    error_bound_percent: float | None = None
    """For a canary: the percentage of errors, beyond the other version's, above which it is dropped."""
    ends_at: datetime | None = None
    """For a canary: when it is dropped if nobody has decided."""


class Container(BaseModel):
    id: str
    project_id: str
    name: str
    state: ContainerState
    state_since: datetime
    reason: str | None
    message: str | None
    fix: FixRead | None
    """What `POST …/fix` would change. Null if no setting would fix it."""
    endpoint_url: str
    replicas: ReplicaCounts
    progress: dict[str, Any] | None
    """Progress of its start or, while it is RUNNING, of the next replica's. See docs/caches.md."""
    generation: int
    created_at: datetime
    category: str | None
    image: str
    image_digest: str | None
    registry: RegistryRead
    resources: GeneralResources | AutoscalingResources
    start_command: str | None
    port: int | None
    health_check: HealthCheck
    limits: EndpointLimits
    env: dict[str, None]
    """The names of secret variables; values are write-only."""
    plain_env: dict[str, str]
    """Variables that are no secrets."""
    api_path: ApiPath
    infrastructure: str
    accept_exposure: bool
    sleep_after_s: int | None
    """Seconds without a request after which it sleeps. Null: it never sleeps."""
    asleep: bool
    """True while it is RUNNING without replicas: requests are held and wake it. It ends when the first replica is at
    the endpoint again."""
    asleep_since: datetime | None
    """Null once it has been woken."""
    woken_at: datetime | None
    """When it was woken, while it wakes."""
    cache: CacheSettings | None
    price_per_hour_microusd: int
    """The price of one replica. If it takes either kind of machine, the dearer one's, which is what is held."""
    least_price_per_hour_microusd: int
    """The same, unless it takes either kind of machine; then the cheaper one's."""
    draft: DraftSummary | None
    """New settings that wait, are being applied or were given up. `GET …/draft` shows them."""
    version: int
    """The version of its settings. `GET …/versions` lists all versions."""
    rollout: RolloutRead | None


class LentMachine(BaseModel):
    """What tenants may know of a machine that an organization lends: neither whose it is, nor what it is called."""

    gpus: list[str]
    """The models of the replica's GPUs, as the machine has proven them."""
    tier: Tier
    reliability: float
    """From its last 30 days; 1 means never lost."""


class Replica(BaseModel):
    id: str
    slot: int
    generation: int
    version: int
    state: str
    node: str
    """The machine's name, or its id if an organization lends it."""
    community: LentMachine | None = None
    """For a live replica on a lent machine. Null on the operator's own machines."""
    created_at: datetime
    started_at: datetime | None
    ready_at: datetime | None
    ended_at: datetime | None
    exit_code: int | None
    reason: str | None
    message: str | None


class Activity(BaseModel):
    id: str
    at: datetime
    actor: str
    kind: str
    reason: str | None
    message: str | None
    details: dict[str, Any]
