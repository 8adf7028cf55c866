"""What HAProxy's maps say of a key and of a route, and how the rules take that apart. Pure.

    keys    <sha256>       <project>:<expires at>:<key>:<organization>[:<requests per minute>]
    routes  /c/<container> <project>:<container>:<slot>[:<body bytes>:<silent ms>:<idle ms>[:<canary>]:<once or retry>]

Of a container whose server has its API at `/v1`, a slash stands before the slot and not a colon. Of one that sleeps, `asleep` is the
slot: the backend of that name holds its requests, so that no request of any other pays for a rule about it.

Ids have one length and the time is padded to one, so the rules cut a value at fixed places: that costs a tenth of looking
for the n-th colon, and every request does it seven times.
"""

from collections.abc import Mapping
from types import MappingProxyType

from moorage.gateway.layout import Placement
from moorage.gateway.table import (
    ID_LENGTH,
    USUAL_LIMITS,
    Canary,
    KeyEntry,
    TrafficLimits,
    check_container_id,
    check_project_id,
)
from moorage.kit.ids import ContainerId, ReplicaId

_NEVER_EPOCH_S = 2**53
"""How the map says that a key does not expire, so that the rules need no exception; no KeyEntry can expire then."""
_EXPIRY_LENGTH = len(str(_NEVER_EPOCH_S))
_EXPIRY_AT = ID_LENGTH + 1
_KEY_AT = _EXPIRY_AT + _EXPIRY_LENGTH + 1
_ORGANIZATION_AT = _KEY_AT + ID_LENGTH + 1
_OWN_RATE_AT = _ORGANIZATION_AT + ID_LENGTH + 1
_SLOT_AT = 2 * (ID_LENGTH + 1)
_BEFORE_SLOT, _BEFORE_SLOT_V1 = ":", "/"

# Converters: what the rules append to a value to get a part of it.
PROJECT = f"bytes(0,{ID_LENGTH})"
"""Of a key and of a route alike."""
KEY_EXPIRY = f"bytes({_EXPIRY_AT},{_EXPIRY_LENGTH}),ltrim(0)"
"""Without its padding it is text, which HAProxy reads as a number; bytes alone it would not."""
KEY_ID = f"bytes({_KEY_AT},{ID_LENGTH})"
KEY_ORGANIZATION = f"bytes({_ORGANIZATION_AT},{ID_LENGTH})"
KEY_OWN_RATE = f"bytes({_OWN_RATE_AT}),ltrim(0)"
KEY_LENGTH_WITHOUT_RATE = _OWN_RATE_AT - 1
ROUTE_SLOT = f"bytes({_SLOT_AT}),field(1,:)"
ROUTE_LIMITS = f"bytes({_SLOT_AT}),field(2,:,4)"
"""Not there where they are the usual ones."""
ROUTE_SERVES_V1 = f"var(txn.route),bytes({_SLOT_AT - 1},1) -m str {_BEFORE_SLOT_V1}"
"""A condition."""
ROUTE_CANARY = "field(4,:)"
"""Of those limits: the share of a canary and how many replicas it has, where there is one."""
CANARY_MARK = "+"
RETRY = "retry"
NO_SLOT = "-"
ASLEEP = "asleep"
ROUTE_CONTAINER = f"bytes({ID_LENGTH + 1},{ID_LENGTH})"
PATH_PREFIX = "/c/"
"""Of a container's id in a path, and in the map, so that one lookup answers for both."""


def map_key_of(key_hash_hex: str) -> str:
    # HAProxy's `hex` converter writes capitals; storing them saves a conversion on every request.
    return key_hash_hex.upper()


def key_value(entry: KeyEntry) -> str:
    expires_at = entry.expires_at_epoch_s or _NEVER_EPOCH_S
    value = f"{entry.project_id}:{expires_at:0{_EXPIRY_LENGTH}}"
    if entry.key_id:
        value += f":{entry.key_id}:{entry.organization_id}"
    return f"{value}:{entry.requests_per_minute}" if entry.requests_per_minute else value


def keys_from(entries: dict[str, str]) -> dict[str, KeyEntry]:
    keys = {}
    for key_hash, value in entries.items():
        # An HAProxy that an earlier version started may not know the last three; and most keys have no limit of their own.
        project_id, expires_at, key_id, organization_id, limit = (*value.split(":"), "", "", "")[:5]
        expires_at_epoch_s = 0 if int(expires_at) == _NEVER_EPOCH_S else int(expires_at)
        entry = KeyEntry(
            key_hash.lower(),
            check_project_id(project_id),
            expires_at_epoch_s,
            key_id,
            organization_id,
            int(limit or 0),
        )
        keys[entry.key_hash_hex] = entry
    return keys


def route_key(container_id: str) -> str:
    return f"{PATH_PREFIX}{container_id}"


def route_value(container_id: str, placement: Placement) -> str:
    """The id again, because the log takes it from here: what stands in the path is the client's. Limits only where
    they are not the usual ones, which the rules know."""
    before_slot = _BEFORE_SLOT_V1 if placement.serves_v1 else _BEFORE_SLOT
    without_slot = ASLEEP if placement.asleep else NO_SLOT
    slot = without_slot if placement.slot is None else placement.slot
    value = f"{placement.project_id}:{container_id}{before_slot}{slot}"
    limits, canary = placement.limits, placement.canary
    if limits == USUAL_LIMITS and canary is None:
        return value
    retry = RETRY if limits.retry_unanswered else "once"
    request_ms, idle_ms = limits.request_timeout_s * 1000, limits.idle_timeout_s * 1000
    split = f":{canary.percent}{CANARY_MARK}{len(canary.replicas)}" if canary is not None else ""
    return f"{value}:{limits.max_body_bytes}:{request_ms}:{idle_ms}{split}:{retry}"


def leads_nowhere(value: str) -> bool:
    """To no replica: its container does not run, or sleeps."""
    return slot_of(value) in (NO_SLOT, ASLEEP)


def slot_of(value: str) -> str:
    return value[_SLOT_AT:].partition(":")[0]


def owner_of(value: str) -> tuple[str, str]:
    """The project and the container of a route."""
    return value[:ID_LENGTH], value[ID_LENGTH + 1 : _SLOT_AT - 1]


def canary_key(slot: int, number: int) -> str:
    return f"slot_{slot}.{number}"


def canary_entries(placement: Placement) -> dict[str, str]:
    """The map of canaries: each of its replicas by the slot's name and a number, from 0 on."""
    slot, canary = placement.slot, placement.canary
    if slot is None or canary is None:
        return {}
    return {canary_key(slot, number): name for number, name in enumerate(canary.replicas)}


def routes_from(
    entries: dict[str, str], canaries: Mapping[str, str] = MappingProxyType({})
) -> dict[ContainerId, Placement]:
    routes = {}
    for key, value in entries.items():
        # An HAProxy that an earlier version started may not repeat the container's id, nor have the prefix.
        parts = value.replace(_BEFORE_SLOT_V1, _BEFORE_SLOT, 1).split(":")
        project_id, *named, slot = parts[:3]
        limits = _limits_from([one for one in parts[3:] if CANARY_MARK not in one]) if named else USUAL_LIMITS
        placement = Placement(
            check_project_id(project_id),
            None if slot in (NO_SLOT, ASLEEP) else int(slot),
            limits,
            _BEFORE_SLOT_V1 in value,
            slot == ASLEEP,
            next((_canary_from(int(slot), one, canaries) for one in parts[3:] if CANARY_MARK in one), None),
        )
        routes[check_container_id(key.removeprefix(PATH_PREFIX))] = placement
    return routes


def _canary_from(slot: int, value: str, canaries: Mapping[str, str]) -> Canary | None:
    """As far as the map of canaries knows of it: who was interrupted between the two changes finds a difference."""
    percent, count = (int(one) for one in value.split(CANARY_MARK))
    names = [canaries.get(canary_key(slot, number)) for number in range(count)]
    known = tuple(ReplicaId(name) for name in names if name is not None)
    return Canary(percent, known) if known else None


def _limits_from(values: list[str]) -> TrafficLimits:
    if not values:
        return USUAL_LIMITS
    max_body_bytes, request_ms, idle_ms, retry = values
    return TrafficLimits(int(max_body_bytes), int(request_ms) // 1000, int(idle_ms) // 1000, retry == RETRY)
