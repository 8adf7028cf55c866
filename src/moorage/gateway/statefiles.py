"""The state that HAProxy starts from, on disk: one folder per version, and a link to the current one.

Routes name slots and the configuration says which servers are in a slot, so a route of one version with the
servers of another could lead to another tenant. Swapping a link changes all files in one step.
"""

import os
import shutil
from pathlib import Path

import structlog

from moorage.gateway.endpoint_rules import CANARIES_MAP, HEALTH_MAP, KEYS_MAP, ROUTES_MAP
from moorage.gateway.layout import Layout, PlacedServer, ServerKey, ServerState
from moorage.gateway.map_values import keys_from, routes_from
from moorage.gateway.rate_rules import LIMITS_MAP
from moorage.gateway.render import AUTHORITIES_FILE, SERVERS_LIST, limit_divisor_from, slot_number
from moorage.gateway.table import Server, check_certificates
from moorage.kit.ids import ReplicaId

log = structlog.get_logger()

_VERSION_PREFIX = "state-"


class StateFiles:
    def __init__(self, current: Path) -> None:
        self._current = current
        self._folder = current.parent
        self._written: dict[str, str] = {}

    def write(self, files: dict[str, str]) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        previous = self._folder / os.readlink(self._current) if self._current.is_symlink() else None
        version = self._folder / f"{_VERSION_PREFIX}{self._next_number()}"
        version.mkdir(mode=0o700)
        for name, text in files.items():
            # A hundred thousand keys are not written again because a route changed.
            if previous is not None and self._written.get(name) == text and (previous / name).exists():
                os.link(previous / name, version / name)
            else:
                _write(version / name, text)
        link = self._folder / f"{self._current.name}.new"
        link.unlink(missing_ok=True)
        link.symlink_to(version.name)
        link.replace(self._current)
        self._written = dict(files)
        for old in self._versions():
            if old != version:
                shutil.rmtree(old)

    def written(self, name: str) -> str | None:
        """What this process wrote last, if it did."""
        return self._written.get(name)

    def read(self, slots: int) -> Layout | None:
        """The servers, routes and keys last written; None when there is nothing yet."""
        if not self._current.is_symlink():
            return None
        try:
            servers = _servers_from(self._lines(SERVERS_LIST))
            routes = routes_from(dict(self._pairs(ROUTES_MAP)), self._unless_absent(CANARIES_MAP))
            health_paths = health_paths_from(dict(self._pairs(HEALTH_MAP)))
            keys = keys_from(dict(self._pairs(KEYS_MAP)))
            authorities = check_certificates(self.authorities())
            divisor = limit_divisor_from(self._unless_absent(LIMITS_MAP))
        except (OSError, ValueError) as exc:
            # What a power cut left half-written is worth nothing; Postgres has it all.
            log.warning("gateway_files_unreadable", error=repr(exc))
            return None
        used = {slot for slot, _ in servers} | {placed.slot or 1 for placed in routes.values()}
        while max(used, default=1) > slots:
            slots *= 2
        return Layout(slots, routes, servers, health_paths, keys, authorities, divisor)

    def authorities(self) -> str:
        """Of doors, as written last; none in files of a version without doors."""
        path = self._current / AUTHORITIES_FILE
        return path.read_text() if path.exists() else ""

    def _unless_absent(self, name: str) -> dict[str, str]:
        """Nothing in files of a version without it."""
        return dict(self._pairs(name)) if (self._current / name).exists() else {}

    def _lines(self, name: str) -> list[str]:
        return (self._current / name).read_text().splitlines()

    def _pairs(self, name: str) -> list[tuple[str, str]]:
        return [(key, value) for key, _, value in (line.partition(" ") for line in self._lines(name))]

    def _versions(self) -> list[Path]:
        return [path for path in self._folder.glob(f"{_VERSION_PREFIX}*") if path.is_dir()]

    def _next_number(self) -> int:
        numbers = [path.name.removeprefix(_VERSION_PREFIX) for path in self._versions()]
        return max((int(number) for number in numbers if number.isdigit()), default=0) + 1


def health_paths_from(entries: dict[str, str]) -> dict[int, str]:
    numbered = {slot_number(name): path for name, path in entries.items()}
    return {slot: path for slot, path in numbered.items() if slot is not None}


def _servers_from(lines: list[str]) -> dict[ServerKey, PlacedServer]:
    servers = {}
    for line in lines:
        # Files of a version without doors, or without canaries, have a word or two less.
        slot, replica_id, host, port, limit, checked, *rest = line.split(" ")
        server = Server(
            ReplicaId(replica_id), host, int(port), has_door="door" in rest, on_trial="canary" in rest
        )
        placed = PlacedServer(int(slot), server, int(limit), checked == "checked", ServerState.READY)
        servers[placed.key] = placed
    return servers


def _write(path: Path, text: str) -> None:
    # Without fsync, on purpose: it would hold up every change, and what it guards against, a machine that loses
    # power, ends the containers that the files speak of as well. The next start asks Postgres.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
