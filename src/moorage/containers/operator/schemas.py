"""Machines and the catalogue, as the operator sees them."""

from datetime import datetime
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from moorage.catalog.repository import Intake
from moorage.containers.schemas import Text
from moorage.engines.base import GpuHandover

_LARGEST = 2**50


class GpuRead(BaseModel):
    device_id: str
    model: str
    memory_bytes: int | None
    """Null: it does not tell, because it computes in the machine's memory."""
    in_use: bool
    unusable_because: str | None
    """Why nothing may be started on it."""


class Amounts(BaseModel):
    cpu_millis: int
    memory_bytes: int
    gpus: int


class HostFindingRead(BaseModel):
    """Something that is wrong with a machine, and the command that helps, to be run there."""

    code: str
    message: str
    command: str
    broken: bool
    """True: something does not work. False: it works, and may stop working."""


class NodeRead(BaseModel):
    name: str
    engine: str
    state: Literal["ready", "silent", "cordoned", "draining"]
    """Silent: its engine does not answer, or has not described it for a while. Cordoned: nothing new starts there.
    Draining: what runs there moves elsewhere."""
    intake: Intake
    """What the operator lets it do. One that is open may be cordoned all the same: its engine says why in health."""
    replicas: int
    """That have not ended there."""
    seen_s_ago: float
    infrastructure: str
    architecture: str
    gpu_driver: str | None
    cuda_version: str | None
    """The newest that the driver runs."""
    gpus: list[GpuRead]
    gpu_handover: GpuHandover
    """How its GPUs get into containers."""
    message: str | None
    """Why that way, or what is missing; null where there is no GPU."""
    findings: list[HostFindingRead]
    total: Amounts
    promised: Amounts
    """To replicas. CPU is promised `cpu_overcommit` times over, memory and GPUs once."""
    free: Amounts
    """What may still be promised."""
    cpu_overcommit: float


class NodeIntake(BaseModel):
    intake: Intake
    """What a machine may do: `open`, `cordoned` (nothing new starts there) or `draining` (what runs there moves elsewhere
    as well, a few at a time, each once another serves in its place)."""


class DoubtRead(BaseModel):
    """Most replicas of a machine are missing at once: its engine may be wrong about them."""

    node: str
    since: datetime
    missing: int
    expected: int
    """So many replicas should be there."""
    gone_at: datetime | None
    """When the operator said that they are gone."""


class InstanceTypeProposal(BaseModel):
    """An instance type for a GPU that is there and that nothing offers; its fields are those of a new one."""

    name: str
    gpu_model: str
    gpu_count: int
    vcpu_millis: int
    memory_bytes: int
    disk_bytes: int
    price_per_hour_microusd: int | None
    """Null: set one."""
    infrastructure: str
    because: str


class InstanceTypeWrite(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,62}$")
    gpu_model: Text | None = Field(default=None, min_length=1, max_length=100)
    """As NVIDIA's driver names it, e.g. `NVIDIA L4`: what machines report."""
    gpu_count: int = Field(default=0, ge=0, le=64)
    vcpu_millis: int = Field(ge=250, le=1_000_000)
    memory_bytes: int = Field(ge=2**20, le=_LARGEST)
    disk_bytes: int = Field(default=10 * 2**30, ge=2**20, le=_LARGEST)
    price_per_hour_microusd: int = Field(ge=1, le=10**12)
    infrastructure: Literal["operator", "community"] = "operator"
    enabled: bool = True

    @model_validator(mode="after")
    def _gpus_have_a_model(self) -> Self:
        if (self.gpu_model is None) != (self.gpu_count == 0):
            raise ValueError("gpu_model and gpu_count must be given together")
        return self


class InstanceTypePatch(BaseModel):
    """What is not sent stays as it is. Sizes cannot change: replicas that run were promised them."""

    model_config = ConfigDict(extra="forbid")

    price_per_hour_microusd: int | None = Field(default=None, ge=1, le=10**12)
    """For hours that are bought from now on."""
    enabled: bool | None = None
    """False: not offered for new settings any more; what uses it goes on."""
