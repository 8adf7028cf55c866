"""What HAProxy's tables of servers and counters say. Pure."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from moorage.gateway.endpoint_rules import ENDPOINT_FRONTEND
from moorage.gateway.layout import PlacedServer, ServerKey, ServerState
from moorage.gateway.render import NEVER_DOWN, slot_number
from moorage.gateway.runtime_socket import HaproxyError
from moorage.gateway.table import Server
from moorage.gateway.usage import SlotCounters
from moorage.kit.ids import ReplicaId

FRONTENDS, BACKENDS, SERVERS = 1, 2, 4
"""What `show stat` shall speak of; they add up."""
WHOLE_SLOT = "BACKEND"
"""How it names the slot itself among its servers."""
_ADMIN_MAINTENANCE = 0x01
_ADMIN_DRAIN = 0x08
_CHECK_CONFIGURED = 0x02
_HEALTH_AT_FIRST = 1

Row = Mapping[str, str]


@dataclass(frozen=True)
class Load:
    """What one worker is busy with."""

    servers: Mapping[ServerKey, int]
    """Requests in flight; those that wait for this one server included."""
    slots: Mapping[int, int]
    """Requests, queued ones included."""
    silent_clients: int
    """Connections to the endpoints without a request yet, or between two."""


@dataclass(frozen=True)
class CheckedServer:
    """A server with a health check."""

    key: ServerKey
    failures: int
    """In a row, up to now."""
    rests: bool
    """Gets no new requests for now."""
    trusted: bool = True
    """Not so: HAProxy takes it out, or has done so, at the first failed check, as it does with servers that it has
    from its files."""


def stat_rows(answer: str) -> list[Row]:
    lines = [line for line in answer.splitlines() if line]
    if not lines or not lines[0].startswith("# "):
        raise HaproxyError(f"show stat: {answer[:200]!r}")
    return list(csv.DictReader([lines[0].removeprefix("# "), *lines[1:]]))


def server_state_rows(answer: str) -> Iterator[Row]:
    lines = answer.splitlines()
    header = next((line for line in lines if line.startswith("# ")), None)
    if header is None:
        raise HaproxyError(f"show servers state: {answer[:200]!r}")
    names = header.removeprefix("# ").split()
    for line in lines[lines.index(header) + 1 :]:
        if line:
            yield dict(zip(names, line.split(), strict=False))


def placed_servers(states: Iterator[Row], stats: Sequence[Row]) -> dict[ServerKey, PlacedServer]:
    by_name = {(row["pxname"], row["svname"]): row for row in stats}
    found: dict[ServerKey, PlacedServer] = {}
    for row in states:
        slot = slot_number(row["be_name"])
        stat = by_name.get((row["be_name"], row["srv_name"]))
        if slot is None or stat is None:
            continue
        checked = bool(int(row["srv_check_state"]) & _CHECK_CONFIGURED)
        placed = PlacedServer(
            slot,
            Server(
                ReplicaId(row["srv_name"]),
                row["srv_addr"],
                int(row["srv_port"]),
                has_door=row["srv_use_ssl"] == "1",
                # One that is checked may only rest (`liveness`); of any other nothing else takes the weight away.
                on_trial=row["srv_uweight"] == "0" and not checked,
            ),
            int(stat["slim"]),
            checked,
            _state_of(int(row["srv_admin_state"])),
        )
        found[placed.key] = placed
    return found


def checked_servers(states: Iterator[Row]) -> list[CheckedServer]:
    """Health as HAProxy counts it: from NEVER_DOWN one less for each failed check, and back at a good one."""
    found = []
    for row in states:
        slot = slot_number(row["be_name"])
        if slot is not None and int(row["srv_check_state"]) & _CHECK_CONFIGURED:
            health = int(row["srv_check_health"])
            trusted = health > _HEALTH_AT_FIRST
            failures = max(0, NEVER_DOWN - health) if trusted else 0
            key = (slot, ReplicaId(row["srv_name"]))
            found.append(CheckedServer(key, failures, row["srv_uweight"] == "0", trusted))
    return found


def load_of(rows: Sequence[Row]) -> Load:
    servers: dict[ServerKey, int] = {}
    slots: dict[int, int] = {}
    clients = 0
    for row in rows:
        slot = slot_number(row["pxname"])
        if row["svname"] == "FRONTEND":
            clients += int(row["scur"]) if row["pxname"] == ENDPOINT_FRONTEND else 0
        elif slot is not None and row["svname"] == WHOLE_SLOT:
            # It counts those that wait already, a server does not.
            slots[slot] = int(row["scur"])
        elif slot is not None:
            servers[slot, ReplicaId(row["svname"])] = int(row["scur"]) + int(row["qcur"])
    return Load(servers, slots, max(0, clients - sum(slots.values())))


def parse_slot_counters(answer: str) -> dict[int, SlotCounters]:
    """By hand: for a thousand slots every second, a dictionary of ninety columns each would be too much."""
    lines = answer.splitlines()
    header = next((line for line in lines if line.startswith("# ")), None)
    if header is None:
        raise HaproxyError(f"show stat: {answer[:200]!r}")
    names = header.removeprefix("# ").split(",")
    wanted = [names.index(name) for name in ("scur", "qcur", "req_tot", "hrsp_5xx", "rtime")]
    found = {}
    for line in lines:
        slot = slot_number(line.partition(",")[0])
        if slot is not None:
            values = line.split(",")
            found[slot] = SlotCounters(*(int(values[index] or 0) for index in wanted))
    return found


def _state_of(admin_state: int) -> ServerState:
    if admin_state & _ADMIN_MAINTENANCE:
        return ServerState.MAINTENANCE
    return ServerState.DRAIN if admin_state & _ADMIN_DRAIN else ServerState.READY
