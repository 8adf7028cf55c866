"""Models and templates as the API speaks of them."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from moorage.containers.schemas import CacheSettings, Resources, Text
from moorage.containers.spec import LONGEST_IDLENESS_S, SHORTEST_IDLENESS_S, ApiPath, RegistryProvider
from moorage.models.planning import LEAST_CONTEXT, MOST_CONTEXT
from moorage.models.reference import LONGEST_REFERENCE

HubToken = Annotated[str, Field(min_length=1, max_length=500, pattern=r"^[!-~]+$")]


class ModelWish(BaseModel):
    model_config = ConfigDict(extra="forbid")

    model: str = Field(max_length=LONGEST_REFERENCE, examples=["hf:Qwen/Qwen2.5-7B-Instruct"])
    """`hf:ORGANIZATION/NAME`, with `@REVISION` for a certain branch, tag or commit; or the address of its page at the hub, or of one of
    its GGUF files."""
    template: str | None = Field(default=None, max_length=40)
    """Of `GET /templates`; by default the first that serves the model."""
    context_tokens: int | None = Field(default=None, ge=LEAST_CONTEXT, le=MOST_CONTEXT)
    """That one request may have, prompt and answer together."""
    requests_at_once: int | None = Field(default=None, ge=1, le=1024)
    """That one replica works on with their whole context."""
    file: Text | None = Field(default=None, min_length=1, max_length=250)
    """Of a repository of GGUF files: its name, or its quantisation such as `Q4_K_M`."""
    hub_token: HubToken | None = None
    """For a private or gated model. It goes to the hub and, when deployed, into the container; it never comes back."""
    infrastructure: Literal["operator", "community", "any"] = "operator"
    """Whose machines it may run on. Who owns a community machine can read what runs there, so nothing is put on one unasked."""


class ModelDeploy(ModelWish):
    name: str | None = Field(default=None, max_length=200)
    """By default the model's."""
    category: Text | None = Field(default=None, max_length=64)
    resources: Resources | None = None
    """By default one replica on the cheapest instance type that fits."""
    env: dict[str, str] = Field(default_factory=dict)
    """Beside what the template sets, and before it where both name a variable."""
    sleep_after_s: int | None = Field(default=None, ge=SHORTEST_IDLENESS_S, le=LONGEST_IDLENESS_S)
    """So long without a request, and it sleeps and costs nothing; None: never."""
    accept_exposure: bool = False
    """With the infrastructure `community` or `any`: that whoever owns the machine can read what runs there is known, and may be."""
    cache: CacheSettings | None = None
    """By default one in which its weights, and what is compiled of them, have room; null: none."""


class MemoryRead(BaseModel):
    """In bytes, on each GPU, or of the replica where there is none."""

    weights_bytes: int
    context_bytes: int
    server_bytes: int
    total_bytes: int


class ServerSettingsRead(BaseModel):
    """As `POST …/containers` takes them."""

    image: str
    provider: RegistryProvider
    start_command: str
    port: int
    health_path: str
    health_timeout_s: int
    api_path: ApiPath
    env: dict[str, str]


class StartRead(BaseModel):
    """How long it takes until the first answer, as earlier starts here took; null: nobody has measured that yet."""

    image_bytes_per_s: int | None
    """At which images come to such machines, unpacked; layers that are there take no time."""
    download_s: int | None
    """For the weights, into an empty cache."""
    load_s: int | None
    """From the last byte until it answers, compiling included: of this server with weights of this size on this instance type."""
    again_s: int | None
    """For all of a later start on a machine that has its cache."""
    own: bool
    """False where a rate is that of other organizations on the same infrastructure, because this one has none yet."""


class FitRead(BaseModel):
    instance_type: str
    gpu_model: str | None
    gpu_count: int
    price_per_hour_microusd: int
    infrastructure: str
    fits: bool
    reason: str | None
    """A sentence, where it does not fit."""
    obstacle: str | None
    """Of that, what no other context changes, as a clause: `Tesla T4 has no BF16`."""
    memory: MemoryRead | None
    total_bytes: int | None
    """Of each GPU, or of the replica."""
    usable_bytes: int | None
    """Of those, what a server can have."""
    free_bytes: int | None
    """What is left; negative where so much is missing."""
    longest_context_tokens: int | None
    """With which it would fit, where a shorter context helps."""
    available: bool
    free: int
    """How many replicas could start now."""
    capacity: int
    """How many there could be if nothing else ran."""
    settings: ServerSettingsRead | None
    """On this type, where it fits."""
    start: StartRead | None
    """On this type, where it fits."""


class TemplateSummary(BaseModel):
    name: str
    title: str
    summary: str


class ModelRead(BaseModel):
    id: str
    """As it is asked for."""
    repository: str
    revision: str
    commit: str | None
    kind: str
    format: str
    architecture: str | None
    precision: str
    parameters: int | None
    active_parameters: int | None
    """What one token passes through, of a mixture of experts."""
    counted_by: str
    """`hub`, `configuration` or `files`: what the size of the weights follows from."""
    license: str | None
    gated: bool
    private: bool
    files: int
    download_bytes: int
    gguf_files: list[str]
    """The quantisations there are, the 50 smallest."""


class ModelPlanRead(BaseModel):
    """`ok` false carries a reason and a sentence, and nothing else."""

    ok: bool
    reason: str | None = None
    message: str
    model: ModelRead | None = None
    template: TemplateSummary | None = None
    other_templates: list[TemplateSummary] = []
    context_tokens: int | None = None
    longest_context_tokens: int | None = None
    requests_at_once: int | None = None
    context_bytes_per_request: int | None = None
    memory: MemoryRead | None = None
    """On one GPU."""
    instance_types: list[FitRead] = []
    """Cheap ones first, of every infrastructure."""
    instance_type: str | None = None
    """The cheapest that fits, of the infrastructure that was asked for: of those that have room now, or else of those that a machine
    here has. Null where it fits on none, or no machine has one; `reason` then says which."""
    settings: ServerSettingsRead | None = None
    """For that type."""
    cache: CacheSettings | None = None
    """That `deploy` gives it where nothing is said; null: none."""


class TemplateRead(BaseModel):
    name: str
    title: str
    summary: str
    kinds: list[str]
    formats: list[str]
    precisions: list[str]
    runs_without_gpu: bool
    images: list[str]
    port: int
    health_path: str
    api_path: ApiPath
    example: str
    memory_bytes: int
    """What it takes itself, beside a model."""
    instance_type: str | None
    """The cheapest that it runs on and that a machine here has; whether a model fits there is the model's matter."""
    price_per_hour_microusd: int | None
