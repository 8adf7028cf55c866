"""What the gateway should serve, as plain values.

Ids, addresses and health paths end up in HAProxy's configuration, its maps and its command line, where
a space, a quote, a newline, `;` or `<<` would change the meaning. Every type here refuses such a value when
it is made, so whatever holds one of them needs no escaping: there is no other way into `render` and `haproxy`.
"""

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from moorage.containers.spec import (
    USUAL_IDLE_TIMEOUT_S,
    USUAL_MAX_BODY_BYTES,
    USUAL_REQUEST_TIMEOUT_S,
)
from moorage.kit.ids import ContainerId, ProjectId, ReplicaId

ID_LENGTH = 24
"""Of all ids here. The configuration strips `/c/<container id>` by length and cuts the values of its maps by it, which is
why ids of another length are refused."""

MAX_CONCURRENCY_LIMIT = 100_000
MAX_BODY_BYTES = 100_000_000_000
MAX_TIMEOUT_S = 86_400
MAX_REQUESTS_PER_MINUTE = 6_000_000
MOST_CANARY_PERCENT = 50

_CONTAINER_ID = re.compile(r"ctr_[a-z2-7]{20}")
_PROJECT_ID = re.compile(r"prj_[a-z2-7]{20}")
_REPLICA_ID = re.compile(r"rep_[a-z2-7]{20}")
_ORGANIZATION_ID = re.compile(r"org_[a-z2-7]{20}")
_KEY_ID = re.compile(r"key_[a-z2-7]{20}")
_SHA256_HEX = re.compile(r"[0-9a-f]{64}")
_HEALTH_PATH = re.compile(r"/[A-Za-z0-9/_.~%?=&+:@,-]{0,199}")
_CERTIFICATES = re.compile(
    r"(-----BEGIN CERTIFICATE-----\n([A-Za-z0-9+/=]{1,76}\n){1,100}-----END CERTIFICATE-----\n){0,20}"
)
_ADDRESS = re.compile(r"[0-9a-f.:]{2,45}")


@dataclass(frozen=True)
class Server:
    """One replica's address. It is in the table only after our own probe of it has passed."""

    replica_id: ReplicaId
    host: str
    port: int
    draining: bool = False
    """No new requests; those in flight may finish."""
    has_door: bool = False
    """What is at that address must prove on each connection that it is this replica (`engines/doors.py`)."""
    on_trial: bool = False
    """Of a canary: it gets the requests that are picked for it, and no others."""

    def __post_init__(self) -> None:
        _match(_REPLICA_ID, self.replica_id, "a replica id")
        for value in (self.has_door, self.on_trial):
            if not isinstance(value, bool):
                raise TypeError(f"{value!r} is neither true nor false")
        check_address(self.host, self.port)


@dataclass(frozen=True)
class TrafficLimits:
    """Of the requests to one container."""

    max_body_bytes: int = USUAL_MAX_BODY_BYTES
    request_timeout_s: int = USUAL_REQUEST_TIMEOUT_S
    """How long the container may say nothing, before its answer or within it; a stream that talks has no limit."""
    idle_timeout_s: int = USUAL_IDLE_TIMEOUT_S
    """How long both sides of a WebSocket may say nothing."""
    retry_unanswered: bool = False
    """Whether a request whose connection broke without an answer is sent to another replica: it may then run twice."""

    def __post_init__(self) -> None:
        _check_between(self.max_body_bytes, 1, MAX_BODY_BYTES)
        _check_between(self.request_timeout_s, 1, MAX_TIMEOUT_S)
        _check_between(self.idle_timeout_s, 1, MAX_TIMEOUT_S)
        if not isinstance(self.retry_unanswered, bool):
            raise TypeError(f"{self.retry_unanswered!r} is neither true nor false")


@dataclass(frozen=True)
class Canary:
    """Who gets which share of a container's requests, as long as there is somebody else to get the others."""

    percent: int
    replicas: tuple[ReplicaId, ...]

    def __post_init__(self) -> None:
        _check_between(self.percent, 1, MOST_CANARY_PERCENT)
        for replica_id in self.replicas:
            _match(_REPLICA_ID, replica_id, "a replica id")
        if not self.replicas:
            raise ValueError("a canary has replicas")


@dataclass(frozen=True)
class Route:
    """A container's endpoint. With no servers it answers 503; an id without a route is 404."""

    container_id: ContainerId
    project_id: ProjectId
    servers: tuple[Server, ...] = ()
    health_path: str | None = None
    max_concurrency: int = 100
    """Requests that one replica works on at a time; more wait in the container's queue."""
    limits: TrafficLimits = field(default_factory=TrafficLimits)
    serves_v1: bool = False
    """Its server has its API at `/v1`: `/api/v1/…` is sent on as `/v1/…`."""
    asleep: bool = False
    """While none of its servers takes requests, they are held, and wake it."""
    canary_percent: int = 0
    """Of its requests, for the servers on trial."""

    def __post_init__(self) -> None:
        check_container_id(self.container_id)
        _check_between(self.canary_percent, 0, MOST_CANARY_PERCENT)
        check_project_id(self.project_id)
        if self.health_path is not None:
            check_health_path(self.health_path)
        check_max_concurrency(self.max_concurrency)
        if len({server.replica_id for server in self.servers}) != len(self.servers):
            raise ValueError(f"{self.container_id} names the same replica twice")


@dataclass(frozen=True)
class KeyEntry:
    key_hash_hex: str
    project_id: ProjectId
    expires_at_epoch_s: int = 0
    """0 means never."""
    key_id: str = ""
    """For the records of its requests, and to count them."""
    organization_id: str = ""
    requests_per_minute: int = 0
    """A limit of its own, below what every key may ask for; 0: none."""

    def __post_init__(self) -> None:
        _match(_SHA256_HEX, self.key_hash_hex, "a SHA-256 in lower-case hex")
        check_project_id(self.project_id)
        if self.key_id:
            _match(_KEY_ID, self.key_id, "a key id")
        if self.organization_id:
            _match(_ORGANIZATION_ID, self.organization_id, "an organization id")
        if not _is_integer(self.expires_at_epoch_s) or not 0 <= self.expires_at_epoch_s < 2**53:
            raise ValueError(f"{self.expires_at_epoch_s!r} is not a time in seconds")
        _check_between(self.requests_per_minute, 0, MAX_REQUESTS_PER_MINUTE)
        if bool(self.key_id) != bool(self.organization_id) or (self.requests_per_minute and not self.key_id):
            raise ValueError("a key that is counted names itself and its organization")


@dataclass(frozen=True)
class GatewayTable:
    routes: Mapping[ContainerId, Route] = field(default_factory=dict)
    keys: Mapping[str, KeyEntry] = field(default_factory=dict)
    door_authorities: str = ""
    """Certificates that doors are signed by, as PEM; none where there are no doors."""

    def __post_init__(self) -> None:
        check_certificates(self.door_authorities)
        if any(container_id != route.container_id for container_id, route in self.routes.items()):
            raise ValueError("a route stands below another container's id")
        if any(key_hash != entry.key_hash_hex for key_hash, entry in self.keys.items()):
            raise ValueError("a key stands below another key's hash")
        replica_ids = [server.replica_id for route in self.routes.values() for server in route.servers]
        if len(set(replica_ids)) != len(replica_ids):
            raise ValueError("a replica belongs to two containers")
        if not self.door_authorities and any(
            server.has_door for route in self.routes.values() for server in route.servers
        ):
            raise ValueError("a replica has a door, and nothing signs for doors")


def check_container_id(value: str) -> ContainerId:
    return ContainerId(_match(_CONTAINER_ID, value, "a container id"))


def check_project_id(value: str) -> ProjectId:
    return ProjectId(_match(_PROJECT_ID, value, "a project id"))


def check_health_path(value: str) -> str:
    return _match(_HEALTH_PATH, value, "a health check path")


def check_max_concurrency(value: int) -> int:
    return _check_between(value, 1, MAX_CONCURRENCY_LIMIT)


def check_certificates(value: str) -> str:
    return _match(_CERTIFICATES, value, "certificates in PEM")


def check_address(host: str, port: int) -> None:
    # Literal addresses only: a name would be resolved again at a moment of HAProxy's choosing, to
    # whatever its owner likes by then. The pattern excludes scope ids (`fe80::1%eth0`), which ipaddress takes.
    _match(_ADDRESS, host, "a literal IP address")
    if str(ipaddress.ip_address(host)) != host:
        raise ValueError(f"{host!r} is not an address in its usual spelling, in which HAProxy shows it")
    if not _is_integer(port) or not 1 <= port <= 65535:
        raise ValueError(f"{port!r} is not a port")


def _match(pattern: re.Pattern[str], value: str, what: str) -> str:
    # fullmatch, because `$` would let a trailing newline through.
    if not isinstance(value, str) or pattern.fullmatch(value) is None:
        raise ValueError(f"{value!r} is not {what}")
    return value


def _check_between(value: int, least: int, most: int) -> int:
    if not _is_integer(value) or not least <= value <= most:
        raise ValueError(f"{value!r} is not a limit between {least} and {most}")
    return value


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


USUAL_LIMITS = TrafficLimits()
