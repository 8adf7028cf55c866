"""A client of HAProxy's runtime API: a worker's stats socket and the master's socket.

Commands are built here from values that validated themselves (`table`, `layout`), and looked at once more
before they leave. Each call opens its own connection, has a timeout and raises with HAProxy's own words.
"""

import asyncio
import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from moorage.gateway.config import GatewayConfig
from moorage.gateway.endpoint_rules import ENDPOINT_FRONTEND
from moorage.gateway.layout import PlacedServer, ServerKey, ServerState
from moorage.gateway.render import (
    NEVER_DOWN,
    server_arguments,
    slot_name,
    slot_number,
)
from moorage.gateway.table import Server
from moorage.gateway.usage import SlotCounters
from moorage.kit.errors import MoorageError
from moorage.kit.ids import ReplicaId

# HAProxy reads a line of commands, payload included, into one buffer of 16 kB.
_BATCH_BYTES = 12_000
_COMMAND = re.compile(r"[A-Za-z0-9 _/.:@!?=&%~+,\[\]*-]+")
_DONE = ("New server registered.", "Server deleted.")
_ADMIN_MAINTENANCE = 0x01
_ADMIN_DRAIN = 0x08
_CHECK_CONFIGURED = 0x02
_HEALTH_AT_FIRST = 1
_STAT_FRONTENDS, _STAT_BACKENDS, _STAT_SERVERS = 1, 2, 4


class HaproxyError(MoorageError):
    """HAProxy could not be asked, or refused a command."""

    code = "haproxy_error"


@dataclass(frozen=True)
class Workers:
    current_pid: int
    old_pids: tuple[int, ...]
    """Finishing what they had when a reload replaced them."""


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


@dataclass(frozen=True)
class Socket:
    """One line of commands out, one answer back."""

    path: Path
    timeout_s: float = 10.0

    async def ask(self, line: str) -> str:
        try:
            async with asyncio.timeout(self.timeout_s):
                reader, writer = await asyncio.open_unix_connection(str(self.path))
                try:
                    writer.write(line.encode("ascii") + b"\n")
                    writer.write_eof()
                    answer = await reader.read()
                finally:
                    writer.close()
        except (OSError, TimeoutError) as exc:
            raise HaproxyError(f"HAProxy's socket {self.path} does not answer") from exc
        return answer.decode("utf-8", "replace")


class Worker:
    """The runtime API of one worker: the current one by its own socket, an old one through the master."""

    def __init__(self, socket: Socket, *, pid_behind_master: int | None = None) -> None:
        self._socket = socket
        self._prefix = "" if pid_behind_master is None else f"@!{pid_behind_master} "

    async def ask(self, command: str) -> str:
        return await self._socket.ask(self._prefix + _checked(command))

    async def pid(self) -> int:
        return int((await self.info())["Pid"])

    async def info(self) -> dict[str, str]:
        answer = await self.ask("show info")
        info = {name: value for name, _, value in (line.partition(": ") for line in answer.splitlines())}
        if "Pid" not in info:
            raise HaproxyError(f"HAProxy did not name its process: {answer[:200]!r}")
        return info

    async def change(self, commands: Sequence[str], *, tolerate: tuple[str, ...] = ()) -> None:
        """Run commands that say nothing when they succeed, as many on a line as fit."""
        for batch in _batches(commands, separator="; "):
            separate = [self._prefix + _checked(command) for command in batch]
            _raise_on_complaint(await self._socket.ask("; ".join(separate)), "; ".join(batch), tolerate)

    async def servers(self) -> dict[ServerKey, PlacedServer]:
        stats = {(row["pxname"], row["svname"]): row for row in await self._stat(_STAT_SERVERS)}
        found: dict[ServerKey, PlacedServer] = {}
        for row in _server_state_rows(await self.ask("show servers state")):
            slot = slot_number(row["be_name"])
            stat = stats.get((row["be_name"], row["srv_name"]))
            if slot is None or stat is None:
                continue
            placed = PlacedServer(
                slot,
                Server(ReplicaId(row["srv_name"]), row["srv_addr"], int(row["srv_port"])),
                int(stat["slim"]),
                bool(int(row["srv_check_state"]) & _CHECK_CONFIGURED),
                _state_of(int(row["srv_admin_state"])),
            )
            found[placed.key] = placed
        return found

    async def checked_servers(self) -> list[CheckedServer]:
        """Health as HAProxy counts it: from NEVER_DOWN one less for each failed check, and back at a good one."""
        found = []
        for row in _server_state_rows(await self.ask("show servers state")):
            slot = slot_number(row["be_name"])
            if slot is not None and int(row["srv_check_state"]) & _CHECK_CONFIGURED:
                health = int(row["srv_check_health"])
                trusted = health > _HEALTH_AT_FIRST
                failures = max(0, NEVER_DOWN - health) if trusted else 0
                key = (slot, ReplicaId(row["srv_name"]))
                found.append(CheckedServer(key, failures, row["srv_uweight"] == "0", trusted))
        return found

    async def slot_stat(self, slot: int) -> list[dict[str, str]]:
        """Of its servers."""
        return await self._stat(_STAT_SERVERS, slot_name(slot))

    async def load(self) -> Load:
        """All of one moment, in one command."""
        rows = await self._stat(_STAT_FRONTENDS | _STAT_BACKENDS | _STAT_SERVERS)
        servers: dict[ServerKey, int] = {}
        slots: dict[int, int] = {}
        clients = 0
        for row in rows:
            slot = slot_number(row["pxname"])
            if row["svname"] == "FRONTEND":
                clients += int(row["scur"]) if row["pxname"] == ENDPOINT_FRONTEND else 0
            elif slot is not None and row["svname"] == "BACKEND":
                slots[slot] = int(row["scur"])
            elif slot is not None:
                servers[slot, ReplicaId(row["svname"])] = int(row["scur"]) + int(row["qcur"])
        return Load(servers, slots, max(0, clients - sum(slots.values())))

    async def counters(self, slots: Iterable[int] | None = None) -> dict[int, SlotCounters]:
        """Of all slots, or of some."""
        if slots is None:
            return parse_slot_counters(await self.ask(f"show stat -1 {_STAT_BACKENDS} -1"))
        found: dict[int, SlotCounters] = {}
        for slot in slots:
            found |= parse_slot_counters(await self.ask(f"show stat {slot_name(slot)} {_STAT_BACKENDS} -1"))
        return found

    async def endpoint_requests(self) -> tuple[int, int]:
        """How many there were at all, and how many connections there are: whether it is worth to look closer."""
        answer = await self.ask(f"show stat {ENDPOINT_FRONTEND} {_STAT_FRONTENDS} -1")
        row = next(csv.DictReader(line.removeprefix("# ") for line in answer.splitlines() if line), None)
        if row is None or not row.get("req_tot"):
            raise HaproxyError(f"show stat of the endpoints: {answer[:200]!r}")
        return int(row["req_tot"]), int(row["scur"])

    async def end_requests(self, key: ServerKey) -> int:
        """Cut what this server has in flight, session by session: also a worker that is stopping does that."""
        slot, replica_id = key
        mine = f" be={slot_name(slot)} srv={replica_id} "
        sessions = (await self.ask("show sess")).splitlines()
        commands = [f"shutdown session {line.split(':')[0]}" for line in sessions if mine in line]
        # One that ended by itself meanwhile is what was wanted.
        await self.change(commands, tolerate=("No such session",))
        return len(commands)

    async def map_entries(self, path: str) -> dict[str, str]:
        entries = {}
        for line in (await self.ask(f"show map {path}")).splitlines():
            parts = line.split(" ", 2)
            # An entry begins with its address; anything else is a complaint, of a worker that has just ended perhaps.
            if len(parts) == 3 and parts[0].startswith("0x"):
                entries[parts[1]] = parts[2]
            elif line:
                raise HaproxyError(f"show map {path}: {line}")
        return entries

    async def replace_map(self, path: str, entries: Mapping[str, str]) -> None:
        """All at once: until the commit requests see the old map, after it the new one."""
        answer = await self.ask(f"prepare map {path}")
        version = re.search(r"created: (\d+)", answer)
        if version is None:
            raise HaproxyError(f"prepare map {path}: {answer.strip()}")
        await self._add_lines(f"@{version[1]} {path}", entries)
        await self.change([f"commit map @{version[1]} {path}"])

    async def add_map_entries(self, path: str, entries: Mapping[str, str]) -> None:
        """Only for keys that are not in it: HAProxy would keep both, and the older one would win."""
        await self._add_lines(path, entries)

    async def _add_lines(self, target: str, entries: Mapping[str, str]) -> None:
        lines = [_checked(f"{key} {value}") for key, value in entries.items()]
        for batch in _batches(lines, separator="\n"):
            head = f"{self._prefix}add map {_checked(target)} <<\n"
            _raise_on_complaint(
                await self._socket.ask(head + "\n".join(batch) + "\n"),
                f"add map {target} ({len(batch)} lines)",
            )

    async def _stat(self, kind: int, backend: str = "-1") -> list[dict[str, str]]:
        answer = await self.ask(f"show stat {backend} {kind} -1")
        lines = [line for line in answer.splitlines() if line]
        if not lines or not lines[0].startswith("# "):
            raise HaproxyError(f"show stat: {answer[:200]!r}")
        return list(csv.DictReader([lines[0].removeprefix("# "), *lines[1:]]))


class Master:
    """The master's own socket: which workers there are, and the reload."""

    def __init__(self, path: Path, *, reload_timeout_s: float = 60.0) -> None:
        self._socket = Socket(path)
        self._reload_socket = Socket(path, reload_timeout_s)

    async def workers(self) -> Workers:
        answer = await self._socket.ask("show proc")
        current: list[int] = []
        old: list[int] = []
        section: list[int] | None = None
        for line in answer.splitlines():
            if line.startswith("#"):
                section = {"# workers": current, "# old workers": old}.get(line.strip())
            elif section is not None and line.split()[1:2] == ["worker"]:
                section.append(int(line.split()[0]))
        if len(current) != 1:
            raise HaproxyError(f"HAProxy has {len(current)} current workers: {answer.strip()!r}")
        return Workers(current[0], tuple(old))

    def old_worker(self, pid: int) -> Worker:
        return Worker(self._socket, pid_behind_master=pid)

    async def reload(self) -> None:
        """Replace the worker by one with the files' state. When they are wrong, the old one goes on."""
        answer = await self._reload_socket.ask("reload")
        if not answer.startswith("Success=1"):
            raise HaproxyError(f"HAProxy refused to reload: {_alerts(answer)}")


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


def add_server(config: GatewayConfig, placed: PlacedServer) -> str:
    """It is born in maintenance; `make_ready` lets requests in."""
    return f"add server {_name(placed.key)} {server_arguments(config, placed)}"


def make_ready(placed: PlacedServer) -> list[str]:
    ready = f"set server {_name(placed.key)} state ready"
    # To become ready makes HAProxy forget what it thought of the server's health, so trust comes last.
    return [f"enable health {_name(placed.key)}", ready, trust(placed.key)] if placed.checked else [ready]


def drain(key: ServerKey) -> str:
    return f"set server {_name(key)} state drain"


def trust(key: ServerKey) -> str:
    """It passed our own probe before it came here: as if its checks had been good so far."""
    return f"set server {_name(key)} health up"


def let_rest(key: ServerKey) -> str:
    """It stays ready and is checked on, but gets no new requests."""
    return f"set weight {_name(key)} 0"


def let_in(key: ServerKey) -> str:
    return f"set weight {_name(key)} 100%"


def put_into_maintenance(key: ServerKey) -> str:
    return f"set server {_name(key)} state maint"


def stop_server(key: ServerKey) -> list[str]:
    """No new request, and whatever it still has is cut."""
    return [put_into_maintenance(key), f"shutdown sessions server {_name(key)}"]


def delete_server(key: ServerKey) -> str:
    return f"del server {_name(key)}"


def limit_server(placed: PlacedServer) -> str:
    return f"set maxconn server {_name(placed.key)} {placed.max_concurrency}"


KEY_NOT_FOUND = "Key not found."


def set_map(path: str, key: str, value: str) -> str:
    return f"set map {path} {key} {value}"


def delete_from_map(path: str, key: str) -> str:
    return f"del map {path} {key}"


def _name(key: ServerKey) -> str:
    slot, replica_id = key
    return f"{slot_name(slot)}/{replica_id}"


def _checked(command: str) -> str:
    # The last gate: one line, one command, no payload marker, no escapes, whatever the callers did.
    if _COMMAND.fullmatch(command) is None:
        raise ValueError(f"{command!r} is not a single runtime command")
    return command


def _batches(items: Sequence[str], *, separator: str) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for item in items:
        # Through the master each command carries a prefix of at most 12 bytes.
        item_size = len(item) + len(separator) + 12
        if batch and size + item_size > _BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += item_size
    if batch:
        yield batch


def _raise_on_complaint(answer: str, sent: str, tolerate: tuple[str, ...] = ()) -> None:
    complaints = [line for line in answer.splitlines() if line and not line.startswith(_DONE + tolerate)]
    if complaints:
        raise HaproxyError(f"HAProxy answered {' / '.join(complaints)[:500]!r} to {sent[:500]!r}")


def _server_state_rows(answer: str) -> Iterator[dict[str, str]]:
    lines = answer.splitlines()
    header = next((line for line in lines if line.startswith("# ")), None)
    if header is None:
        raise HaproxyError(f"show servers state: {answer[:200]!r}")
    names = header.removeprefix("# ").split()
    for line in lines[lines.index(header) + 1 :]:
        if line:
            yield dict(zip(names, line.split(), strict=False))


def _state_of(admin_state: int) -> ServerState:
    if admin_state & _ADMIN_MAINTENANCE:
        return ServerState.MAINTENANCE
    return ServerState.DRAIN if admin_state & _ADMIN_DRAIN else ServerState.READY


def _alerts(text: str) -> str:
    return haproxy_complaints(text.splitlines()) or text.strip()[:500]


def haproxy_complaints(lines: Iterable[str]) -> str:
    """The alerts among HAProxy's messages, without their prefix."""
    alerts = [line.partition(" : ")[2] for line in lines if line.startswith("[ALERT]")]
    return "; ".join(alerts)[:1000]
