from dataclasses import dataclass
from datetime import datetime

from moorage.telemetry.requests.moments import Moment
from moorage.telemetry.requests.phases import Phase
from moorage.telemetry.requests.record import Ending, RequestRecord


@dataclass(frozen=True)
class RequestContainer:
    id: str
    name: str
    deleted: bool


@dataclass(frozen=True)
class RequestKey:
    id: str
    name: str | None
    """Null where the key is gone; so are the next two."""
    hint: str | None
    """Its last four characters."""
    scope: str | None


@dataclass(frozen=True)
class RequestReplica:
    """Which answered, or was to."""

    id: str
    version: int | None
    """Of the container's settings. Null, with all below, where the replica is no longer known."""
    node: str | None
    instance_type: str | None
    gpu_model: str | None
    gpu_count: int | None


@dataclass(frozen=True)
class RequestWake:
    """That it waited for."""

    asleep_at: datetime
    woken_at: datetime | None
    """Null where nothing is known of it."""


@dataclass(frozen=True)
class RequestCost:
    """Hours are what is paid for, so what one request cost is its share of them."""

    price_microusd: int
    """Of the hours that were paid for its container when it ended."""
    replicas: int
    """How many those hours are for."""
    bought_at: datetime
    expires_at: datetime
    """Both of the hour of the replica that answered."""
    bought_by_wake: bool
    """By the wake that it waited for."""
    requests: int
    """That ended in that hour, so far; itself included."""
    share_microusd: int


@dataclass(frozen=True)
class RequestLines:
    """Where the lines are that its replica printed meanwhile: `GET /projects/{id}/logs?container=…&instance=…&from=…&to=…`.
    They are of everything that it did then. One is surely of this request where it contains its id, which the container got in
    `X-Request-ID`."""

    instance_id: str
    from_time: datetime
    to_time: datetime


@dataclass(frozen=True, kw_only=True)
class Request(RequestRecord):
    """All that is known of it."""

    gateway_id: str
    """Which it came through, and by whose clock its times are."""
    container: RequestContainer | None
    """Null: the key's project has no such container."""
    key: RequestKey
    replica: RequestReplica | None
    explanation: list[str]
    """What happened, in sentences."""
    held_ms: int | None
    """How long it waited for its container to wake; null where it was awake."""
    held_comments: int
    """That kept its stream open meanwhile."""
    phases: list[Phase]
    """Where its time went, in order and without a gap."""
    wake: RequestWake | None
    moments: list[Moment]
    """What Moorage did for it and when."""
    lines: RequestLines | None
    """Null where it reached no replica."""
    cost: RequestCost | None
    """Null where no hour is known that it fell into."""
    kept_days: int


@dataclass(frozen=True)
class RequestSummary:
    request_id: str
    started_at: datetime
    first_byte_ms: int | None
    total_ms: int
    held_ms: int | None
    status: int | None
    ended: Ending
    method: str | None
    path: str | None
    replica_id: str | None
    key_id: str
    key_name: str | None


@dataclass(frozen=True)
class KeyCost:
    key_id: str | None
    """Null: of these nobody knows which key they came with. They were counted by an earlier version, or with very many keys at once."""
    name: str | None
    hint: str | None
    """Its last four characters. Both are null where the key is gone."""
    requests: int
    cost_microusd: int


@dataclass(frozen=True)
class Cost:
    from_time: datetime
    to_time: datetime
    """Exclusive. An hour belongs to the time that it began in."""
    hours: int
    spent_microusd: int
    """All of `keys` and `idle_microusd` together."""
    idle_hours: int
    """In which no request ended."""
    idle_microusd: int
    requests: int
    """That ended in these hours, each once: with several replicas, one request is in the hours of all of them."""
    per_request_microusd: int | None
    """With what idle hours cost; null without requests."""
    keys: list[KeyCost]
    """The dearest first."""
