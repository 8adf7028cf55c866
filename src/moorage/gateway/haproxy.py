"""A client of HAProxy's runtime API: a worker's stats socket and the master's socket."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from moorage.gateway import stats
from moorage.gateway.commands import end_session
from moorage.gateway.endpoint_rules import ENDPOINT_FRONTEND
from moorage.gateway.last_words import while_it_lives
from moorage.gateway.layout import PlacedServer, ServerKey
from moorage.gateway.render import slot_name
from moorage.gateway.runtime_socket import HaproxyError, Socket, batches, checked, raise_on_complaint
from moorage.gateway.stats import CheckedServer, Load, Row
from moorage.gateway.usage import SlotCounters


@dataclass(frozen=True)
class Workers:
    current_pid: int
    old_pids: tuple[int, ...]
    """Finishing what they had when a reload replaced them."""


class Worker:
    """The runtime API of one worker: the current one by its own socket, an old one through the master."""

    def __init__(self, socket: Socket, *, pid_behind_master: int | None = None) -> None:
        self._socket = socket
        self._pid_behind_master = pid_behind_master
        self._prefix = "" if pid_behind_master is None else f"@!{pid_behind_master} "

    async def ask(self, command: str) -> str:
        return await self._answer_to(self._prefix + checked(command))

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
        for batch in batches(commands, separator="; "):
            separate = [self._prefix + checked(command) for command in batch]
            raise_on_complaint(await self._answer_to("; ".join(separate)), "; ".join(batch), tolerate)

    async def servers(self) -> dict[ServerKey, PlacedServer]:
        rows = await self._stat(stats.SERVERS)
        return stats.placed_servers(stats.server_state_rows(await self.ask("show servers state")), rows)

    async def checked_servers(self) -> list[CheckedServer]:
        return stats.checked_servers(stats.server_state_rows(await self.ask("show servers state")))

    async def slot_stat(self, slot: int) -> list[Row]:
        """Of its servers."""
        return await self._stat(stats.SERVERS, slot_name(slot))

    async def whole_slot_stat(self, slot: int) -> list[Row]:
        """Of its servers, and of all of it."""
        return await self._stat(stats.BACKENDS | stats.SERVERS, slot_name(slot))

    async def load(self, slot: int | None = None) -> Load:
        """All of one moment, in one command; of one slot, without the clients, where only that is asked for."""
        if slot is not None:
            return stats.load_of(await self._stat(stats.BACKENDS | stats.SERVERS, slot_name(slot)))
        return stats.load_of(await self._stat(stats.FRONTENDS | stats.BACKENDS | stats.SERVERS))

    async def counters(self, slots: Iterable[int] | None = None) -> dict[int, SlotCounters]:
        """Of all slots, or of some."""
        if slots is None:
            return stats.parse_slot_counters(await self.ask(f"show stat -1 {stats.BACKENDS} -1"))
        found: dict[int, SlotCounters] = {}
        for slot in slots:
            found |= stats.parse_slot_counters(
                await self.ask(f"show stat {slot_name(slot)} {stats.BACKENDS} -1")
            )
        return found

    async def endpoint_requests(self) -> tuple[int, int]:
        """How many there were at all, and how many connections there are: whether it is worth to look closer."""
        rows = await self._stat(stats.FRONTENDS, ENDPOINT_FRONTEND)
        if len(rows) != 1 or not rows[0].get("req_tot"):
            raise HaproxyError(f"show stat of the endpoints: {rows!r}")
        return int(rows[0]["req_tot"]), int(rows[0]["scur"])

    async def end_requests(self, key: ServerKey) -> int:
        """Cut what this server has in flight, session by session: also a worker that is stopping does that."""
        slot, replica_id = key
        mine = f" be={slot_name(slot)} srv={replica_id} "
        sessions = (await self.ask("show sess")).splitlines()
        commands = [end_session(line.split(":")[0]) for line in sessions if mine in line]
        # One that ended by itself meanwhile is what was wanted.
        await self.change(commands, tolerate=("No such session",))
        return len(commands)

    async def map_entries(self, path: str, *, may_be_absent: bool = False) -> dict[str, str]:
        """`may_be_absent`: a worker that an earlier version started may not have it."""
        entries: dict[str, str] = {}
        for line in (await self.ask(f"show map {path}")).splitlines():
            if may_be_absent and line.startswith("Unknown map identifier"):
                return {}
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
        lines = [checked(f"{key} {value}") for key, value in entries.items()]
        for batch in batches(lines, separator="\n"):
            head = f"{self._prefix}add map {checked(target)} <<\n"
            raise_on_complaint(
                await self._answer_to(head + "\n".join(batch) + "\n"),
                f"add map {target} ({len(batch)} lines)",
            )

    async def _answer_to(self, line: str) -> str:
        answer = self._socket.ask(line)
        old = self._pid_behind_master
        return await (answer if old is None else while_it_lives(old, answer))

    async def _stat(self, kind: int, backend: str = "-1") -> list[Row]:
        return stats.stat_rows(await self.ask(f"show stat {backend} {kind} -1"))


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


def _alerts(text: str) -> str:
    return haproxy_complaints(text.splitlines()) or text.strip()[:500]


def haproxy_complaints(lines: Iterable[str]) -> str:
    """The alerts among HAProxy's messages, without their prefix."""
    alerts = [line.partition(" : ")[2] for line in lines if line.startswith("[ALERT]")]
    return "; ".join(alerts)[:1000]
