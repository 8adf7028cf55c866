"""A diagnosis as the API speaks of it."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel

from moorage.engines.diagnosis import Outcome


class NameFinding(BaseModel):
    name: str
    addresses: list[str]
    failure: str | None


class AttemptFinding(BaseModel):
    address: str
    port: int
    outcome: Outcome


class SocketFinding(BaseModel):
    address: str
    port: int


class Findings(BaseModel):
    resolvers: list[str]
    """Asked by the replica's programs."""
    upstream_resolvers: list[str]
    """Asked by the engine's resolver in turn."""
    names: list[NameFinding]
    outbound: list[AttemptFinding]
    """Public addresses; these should answer."""
    forbidden: list[AttemptFinding]
    """Private, link-local and the machine's own: kept from containers on purpose, so these should not."""
    listening: list[SocketFinding]
    egress: str
    """What a container may reach, in one sentence."""


class Diagnosis(BaseModel):
    state: Literal["never_asked", "asked", "done", "failed"]
    asked_at: datetime | None = None
    asked_by: str | None = None
    finished_at: datetime | None = None
    replica_id: str | None = None
    """From inside this one."""
    node: str | None = None
    message: str | None = None
    findings: Findings | None = None
