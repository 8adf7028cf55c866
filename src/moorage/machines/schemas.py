"""Machines, as the operator sees them and as they speak themselves."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from moorage.engines.remote.codec import cleaned
from moorage.machines.states import MachineState, TunnelState
from moorage.machines.tokens import is_credential, is_machine_secret
from moorage.tunnel.keys import is_public_key

MachineName = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$")]


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


PublicKey = Annotated[str, Field(max_length=44), AfterValidator(_public_key)]


class MachineWish(BaseModel):
    model_config = ConfigDict(extra="forbid")

    infrastructure: Literal["operator"] = "operator"
    name: MachineName | None = None
    """Null: its host name."""


class MachineAdded(BaseModel):
    id: str
    token: str
    """Shown once. It lets one machine in, within 30 minutes."""
    command: str
    """To be run on that machine."""
    expires_at: datetime


class MachineRead(BaseModel):
    id: str
    name: str | None
    infrastructure: str
    state: MachineState
    state_since: datetime
    returns_as: MachineState | None
    """What a lost one is when it answers again."""
    message: str | None
    address: str | None
    """In the tunnel."""
    gpus: list[str]
    """Models, as it said when it joined."""
    facts: dict[str, Any]
    replicas: int
    created_at: datetime
    joins_until: datetime | None
    """When its command runs out, or ran out; null once a machine used it."""
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
    docker: Claim | None = None


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
    hubs: list[HubRead]


class NewKey(BaseModel):
    model_config = ConfigDict(extra="forbid")

    public_key: PublicKey
