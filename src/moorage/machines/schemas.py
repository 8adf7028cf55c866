"""Machines, as the operator sees them and as they speak themselves."""

import re
from datetime import date, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from moorage.engines.remote.codec import cleaned
from moorage.kit.moments import Moment
from moorage.machines.reliability import Tier
from moorage.machines.states import MachineState, Speaker, TunnelState
from moorage.machines.tokens import is_credential, is_machine_secret
from moorage.tunnel.keys import is_public_key

_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?")
NAME_RULE = (
    "must be 1 to 63 small letters, digits, dots or hyphens, beginning and ending with a letter or digit"
)


def _machine_name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError(NAME_RULE)
    return text


MachineName = Annotated[str, Field(max_length=63), AfterValidator(_machine_name)]


def _one_line(text: str) -> str:
    """Of what can be seen: it ends up on the operator's terminal."""
    return " ".join(cleaned(text).split())


Claim = Annotated[str, Field(max_length=200), AfterValidator(_one_line)]


def _public_key(text: str) -> str:
    if not is_public_key(text):
        raise ValueError("must be a WireGuard public key")
    return text


def _credential(text: str) -> str:
    if not is_credential(text):
        raise ValueError("must be a credential that a machine made")
    return text


def _secret(text: str) -> str:
    if not is_machine_secret(text):
        raise ValueError("must be a secret that a machine made")
    return text


GpuUuid = Annotated[str, Field(max_length=64, pattern=r"^[A-Za-z0-9-]{8,64}$")]
PublicKey = Annotated[str, Field(max_length=44), AfterValidator(_public_key)]


class MachineWish(BaseModel):
    model_config = ConfigDict(extra="forbid")

    infrastructure: Literal["operator"] = "operator"
    name: MachineName | None = None
    """Null: its host name."""


class LentMachineWish(BaseModel):
    model_config = ConfigDict(extra="forbid")

    infrastructure: Literal["community"] = "community"
    name: MachineName | None = None
    """Null: its host name. The operator and the owner see it, and nobody else."""


class Pause(BaseModel):
    model_config = ConfigDict(extra="forbid")

    until: Moment | None = None
    """When the pause ends by itself. Null: when somebody resumes it."""


class Ban(BaseModel):
    model_config = ConfigDict(extra="forbid")

    reason: Claim | None = None
    """Shown to its owner."""


class MachineAdded(BaseModel):
    id: str
    token: str
    """Shown once. It lets one machine in, within 30 minutes."""
    command: str
    """The command to run on that machine."""
    expires_at: datetime


class MachineDay(BaseModel):
    """Of UTC, in seconds. The rest of the day nobody counted on the machine."""

    day: date
    there_s: int
    away_s: int
    """Time paused or drained, which costs no reliability."""
    lost_s: int
    """Time without an answer, which counts tenfold."""


class MachineRead(BaseModel):
    id: str
    name: str | None
    infrastructure: str
    state: MachineState
    state_since: datetime
    returns_as: MachineState | None
    """The state of a lost machine once it answers again."""
    message: str | None
    stopped_by: Speaker | None
    """Who paused or drains it. Null: nobody. The lender can only take back their own pause or drain."""
    paused_until: datetime | None
    empty_by: datetime | None
    """When it must be empty, because its owner wants it back."""
    owner_organization_id: str | None
    """The organization that lends it. Null: the operator's own."""
    tier: Tier | None
    """For a lent machine: how far it is trusted."""
    reliability: float | None
    days: list[MachineDay] | None
    """For a lent machine: its last 30 days, oldest first, from which its reliability follows."""
    proven_at: datetime | None
    """For a lent machine: when it last proved what it claims."""
    proof_failure: str | None
    """Why its last proof failed. Null if it did not."""
    proof_due_at: datetime | None
    """When it must prove it again. Only the operator sees this, because proofs come unannounced."""
    runtime: str | None
    """The sandbox that containers run in. Null: none besides the container itself."""
    gpu_handover: str
    address: str | None
    """In the tunnel."""
    gpus: list[str]
    """The models that it named when it joined."""
    facts: dict[str, Any]
    replicas: int
    created_at: datetime
    joins_until: datetime | None
    """When its join command expires or expired. Null once a machine used it."""
    joined_at: datetime | None
    seen_at: datetime | None


class TunnelRead(BaseModel):
    """The installation's end of the tunnel. While it is not open, no machine can join or answer."""

    state: TunnelState
    message: str


class Facts(BaseModel):
    """What a machine says about itself: shown, and believed of nothing that matters."""

    model_config = ConfigDict(extra="forbid")

    architecture: Claim
    kernel: Claim
    system: Claim
    cpus: int = Field(ge=1, le=65536)
    memory_bytes: int = Field(ge=1, le=2**60)
    disk_free_bytes: int = Field(ge=0, le=2**70)
    gpus: list[Claim] = Field(default_factory=list, max_length=64)
    gpu_uuids: list[GpuUuid] = Field(default_factory=list, max_length=64)
    docker: Claim | None = None
    runtime: Literal["runsc"] | None = None
    """The sandbox that a container was started in, in a trial."""


class Join(BaseModel):
    model_config = ConfigDict(extra="forbid")

    token: str = Field(max_length=100, repr=False)
    hostname: MachineName
    public_key: PublicKey
    credential: Annotated[str, Field(max_length=100, repr=False), AfterValidator(_credential)]
    """What Moorage presents to this machine from now on."""
    secret: Annotated[str, Field(max_length=100, repr=False), AfterValidator(_secret)]
    """By which Moorage knows this machine from now on."""
    facts: Facts


class HubRead(BaseModel):
    id: str
    address: str
    public_key: str
    endpoint: str


class Membership(BaseModel):
    """What a machine needs to know. Nothing of it is secret."""

    id: str
    name: str
    state: MachineState
    message: str | None
    installation_id: str
    address: str
    port: int
    door_port: int
    """Of each hub, in the tunnel: the pull proxy."""
    replica_ports: tuple[int, int]
    infrastructure: Literal["operator", "community"]
    """`community`: it is lent, and runs containers in a sandbox alone."""
    allow_runc: bool
    """What uses a GPU may run outside of it, where the sandbox hands none over."""
    hubs: list[HubRead]


class NewKey(BaseModel):
    model_config = ConfigDict(extra="forbid")

    public_key: PublicKey
