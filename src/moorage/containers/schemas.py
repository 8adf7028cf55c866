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
    """A body that announces more is refused with 413. One whose length is not announced is not measured."""
    request_timeout_s: int = Field(default=USUAL_REQUEST_TIMEOUT_S, ge=1, le=86400)
    """How long the container may say nothing, before its answer or within it. A stream that talks has no limit."""
    idle_timeout_s: int = Field(default=USUAL_IDLE_TIMEOUT_S, ge=1, le=86400)
    """How long both sides of a WebSocket may say nothing."""
    max_concurrency: int = Field(default=100, ge=1, le=100_000)
    """Requests that one replica works on at a time; more wait in the queue."""
    retry_unanswered: bool = False
    """Send a request whose connection broke without an answer to another replica. It may then run twice."""


class CacheSettings(_Strict):
    """Room on each of its machines for weights and compiled kernels, which later starts find there."""

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
    """Secret variables: sealed, never shown again, and covered where a log line contains a value."""
    plain_env: dict[str, str] = Field(default_factory=dict)
    """Variables that are no secrets: shown to everybody who sees the container, and not covered in logs."""
    api_path: ApiPath = ApiPath.API_V1
    """What the container itself serves. Only with `/v1` is `/api/v1/…` sent on as `/v1/…`."""
    infrastructure: Literal["operator", "community", "any"] = "operator"
    """Whose machines. With `any`, each replica takes the cheaper one of two types with the same sizes that has room."""
    accept_exposure: bool = False
    """Needed for `community` and `any`: whoever owns a machine can read the memory of what runs there, prompts, weights and
    environment included."""
    sleep_after_s: int | None = Field(default=None, ge=SHORTEST_IDLENESS_S, le=LONGEST_IDLENESS_S)
    """Without a request for so long it sleeps: no replicas, no further hours. The next request wakes it, and waits. Null: never."""
    cache: CacheSettings | None = None
    """Shared by its replicas on a machine and by later starts there, and by nobody else. Null: none, and what there was is deleted."""


class SettingsPatch(_Strict):
    """What is not sent stays as it is. `env` and `plain_env` merge, and null deletes a variable. One that is sent in the one is taken
    out of the other, so a secret becomes plain only with its value."""

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
    """What a known model server wants; somebody has to say yes."""

    server: str
    api_path: ApiPath
    port: int
    health_path: str
    message: str


class ProposalResult(BaseModel):
    proposal: SettingsProposal | None
    """Null for an image of which nothing is known."""


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
    """Where the container would be expected to listen."""
    entrypoint: list[str] | None = None
    """The image's own ENTRYPOINT, which a start command replaces together with its CMD; empty where it has none. Null where
    Moorage has not looked into the image, or it is no text."""
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
    """Start on other machines than those where its replicas are, or were last."""


class FixRead(_Strict):
    """A change of one setting that would likely fix a failed container."""

    field: str
    before: int | str = Field(alias="from")
    after: int | str = Field(alias="to")


class TrialFailure(BaseModel):
    """Why settings that were applied were given up for those from before."""

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
    """Both versions serve, or may."""
    watch_s: float
    """How long they do, once the new one is healthy."""
    share: int | None = None
    """Of a canary: how many of a hundred requests it gets."""
    promote_after_s: float | None = None
    """Of a canary: when it takes over by itself; null where somebody decides."""
    serving_since: datetime | None = None
    """Of a canary: when its first replica was at the endpoint."""
    error_bound_percent: float | None = None
    """Of a canary: with more errors than that, beyond those of the version beside it, it is dropped."""
    ends_at: datetime | None = None
    """Of a canary: undecided by then, it is dropped."""


class Container(BaseModel):
    id: str
    project_id: str
    name: str
    state: ContainerState
    state_since: datetime
    reason: str | None
    message: str | None
    fix: FixRead | None
    """What `POST …/fix` would change; null where no setting would fix it."""
    endpoint_url: str
    replicas: ReplicaCounts
    progress: dict[str, Any] | None
    """Of its start; while it is RUNNING, of the next replica's. What is in it: docs/caches.md."""
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
    """Of idleness; null: it never sleeps."""
    asleep: bool
    """RUNNING without replicas: requests are held, and wake it. Until the first replica is at the endpoint again."""
    asleep_since: datetime | None
    """Null once it has been woken."""
    woken_at: datetime | None
    """While it wakes: since when."""
    cache: CacheSettings | None
    price_per_hour_microusd: int
    """Of one replica; where it takes either kind of machine, the dearer one's, which is what is held."""
    least_price_per_hour_microusd: int
    """The same, unless it takes either kind: then the cheaper one's."""
    draft: DraftSummary | None
    """New settings that wait, are being applied, or were given up; `GET …/draft` shows them."""
    version: int
    """Of its settings; `GET …/versions` has them all."""
    rollout: RolloutRead | None


class LentMachine(BaseModel):
    """What tenants may know of a machine that an organization lends: neither whose it is, nor what it is called."""

    gpus: list[str]
    """The models that the replica holds, as the machine has proven them."""
    tier: Tier
    reliability: float
    """By its last 30 days: 1 is never lost."""


class Replica(BaseModel):
    id: str
    slot: int
    generation: int
    version: int
    state: str
    node: str
    """The machine; one that an organization lends by its id."""
    community: LentMachine | None = None
    """Of a live one that runs on a machine that somebody lends; null: on the operator's own."""
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
