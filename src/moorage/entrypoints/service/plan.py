"""What `moor install` and `moor uninstall` have to do on this machine, as a list of steps. Pure.

A step is in the list only where the machine is not yet as it should be, so the list of a second run is what has to be repaired.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from moorage.entrypoints.service.places import (
    BACKUPS,
    COMMAND,
    COMMAND_ON_PATH,
    CONFIG,
    CONFIG_FOLDER,
    CONFIG_IN_HOME,
    CURRENT,
    HOME,
    PACKAGED_COMMAND,
    PACKAGED_UNITS,
    RECOVERY_KEY,
    ROOT,
    UNITS,
    VERSIONS,
)
from moorage.entrypoints.service.units import MARK, ROLE_UNITS, SERVICE, TIMER
from moorage.kit.errors import SetupError

USER = "moorage"
FOLDERS: Mapping[Path, int] = {ROOT: 0o755, CONFIG_FOLDER: 0o755, HOME: 0o711, BACKUPS: 0o700}
TO_ENABLE = (SERVICE, *ROLE_UNITS, TIMER)
ENGINE_PACKAGES = ("docker.io", "iptables")


@dataclass(frozen=True)
class Machine:
    """What was found."""

    is_root: bool = True
    runs_systemd: bool = True
    """Else it is set up for the next boot."""
    environment: Path = VERSIONS / "0"
    """Where this Moorage runs from."""
    has_command: bool = True
    """`bin/moor` is there."""
    strangers: tuple[Path, ...] = ()
    """Folders on the way there that others than root may write to."""
    has_user: bool = False
    folders: Mapping[Path, int] = field(default_factory=dict)
    """Of those we make: its permissions, where it is one."""
    texts: Mapping[Path, str] = field(default_factory=dict)
    """What is in the files that we write, where they are there."""
    links: Mapping[Path, Path] = field(default_factory=dict)
    """Where ours lead, where they are links."""
    other_files: frozenset[Path] = frozenset()
    """Ours that should be links and are files, or may not be touched: units that are links, as a masked one is, among them."""
    enabled: frozenset[str] = frozenset()
    active: frozenset[str] = frozenset()
    has_engine: bool = False
    runs_up: bool = False
    """`moor up` holds the data folder."""


@dataclass(frozen=True)
class Step:
    says: str


@dataclass(frozen=True)
class MakeUser(Step):
    name: str


@dataclass(frozen=True)
class MakeFolder(Step):
    path: Path
    mode: int


@dataclass(frozen=True)
class WriteFile(Step):
    path: Path
    text: str
    mode: int = 0o644


@dataclass(frozen=True)
class MakeSettings(Step):
    """With a new recovery key, whose public half is in them."""

    path: Path
    key: Path


@dataclass(frozen=True)
class Move(Step):
    source: Path
    target: Path


@dataclass(frozen=True)
class Link(Step):
    path: Path
    target: Path


@dataclass(frozen=True)
class Remove(Step):
    path: Path


@dataclass(frozen=True)
class RemoveData(Step):
    """A folder that may be a link to one on another disk, or such a disk itself."""

    path: Path


@dataclass(frozen=True)
class InstallPackages(Step):
    names: tuple[str, ...]


@dataclass(frozen=True)
class Call(Step):
    """Of systemctl."""

    arguments: tuple[str, ...]


@dataclass(frozen=True)
class StopEverything(Step):
    """What runs outside the units: replicas, HAProxy, the database."""

    remove_replicas: bool


def installation(machine: Machine, units: Mapping[str, str]) -> list[Step]:
    """Raises `SetupError` where it must not begin."""
    _refuse(machine)
    steps: list[Step] = []
    if not machine.has_engine:
        steps.append(
            InstallPackages(f"Install the packages {' and '.join(ENGINE_PACKAGES)}.", ENGINE_PACKAGES)
        )
    if not machine.has_user:
        steps.append(MakeUser(f"Make the system user {USER}, for the database and HAProxy.", USER))
    for path, mode in FOLDERS.items():
        if machine.folders.get(path) != mode:
            steps.append(MakeFolder(f"Make the folder {path} ({mode:o}).", path, mode))
    steps += _settings(machine)
    moved = machine.links.get(CURRENT) != machine.environment
    if moved:
        steps.append(Link(f"Link {CURRENT} to {machine.environment}.", CURRENT, machine.environment))
    if PACKAGED_COMMAND not in machine.other_files and machine.links.get(COMMAND_ON_PATH) != COMMAND:
        steps.append(Link(f"Link {COMMAND_ON_PATH} to {COMMAND}.", COMMAND_ON_PATH, COMMAND))
    changed = unit_files(machine, units)
    steps += changed
    return [*steps, *_services(machine, restart=moved or bool(changed), reread=bool(changed))]


def removal(machine: Machine, units: Mapping[str, str], *, with_data: bool) -> list[Step]:
    if not machine.is_root:
        raise SetupError("Removing the service needs root. Run it with sudo.")
    steps: list[Step] = []
    known = [name for name in TO_ENABLE if name in machine.enabled | machine.active]
    if known:
        steps.append(Call("Stop the service and stop starting it at boot.", ("disable", "--now", *known)))
    if HOME in machine.folders:
        what = "Stop and remove users' containers." if with_data else "Stop users' containers, and keep them."
        steps.append(StopEverything(what, remove_replicas=with_data))
    written = [UNITS / name for name in units if machine.texts.get(UNITS / name, "").startswith(MARK)]
    steps += [Remove(f"Remove {path}.", path) for path in written]
    if written:
        steps.append(Call("Let systemd read its units again.", ("daemon-reload",)))
    steps += [Remove(f"Remove the link {path}.", path) for path in _own_links(machine)]
    if with_data:
        steps += [
            RemoveData(f"Remove {path}, for good.", path)
            for path in (HOME, BACKUPS)
            if path in machine.folders
        ]
        steps += [
            Remove(f"Remove {path}, for good.", path)
            for path in (RECOVERY_KEY, CONFIG)
            if path in machine.texts
        ]
    return steps


def _own_links(machine: Machine) -> Sequence[Path]:
    """A package's `moor` needs the link to the version; the package's removal takes both."""
    own = [COMMAND_ON_PATH] if machine.links.get(COMMAND_ON_PATH) == COMMAND else []
    if CURRENT in machine.links and PACKAGED_COMMAND not in machine.other_files:
        own.append(CURRENT)
    return own


def _refuse(machine: Machine) -> None:
    if not machine.is_root:
        raise SetupError("Installing a service needs root. Run it with sudo.")
    if machine.runs_up:
        raise SetupError(f"`moor up` runs on {HOME}. Stop it first: Ctrl-C in its terminal, or `moor down`.")
    if not machine.has_command:
        raise SetupError(
            f"Moorage runs from {machine.environment}, which has no bin/moor for the service to start. "
            f"Install Moorage's package, or create an environment for it (python3 -m venv {VERSIONS}/NAME), "
            "and run `moor install` from there."
        )
    if machine.strangers:
        raise SetupError(
            f"The service would run as root from {machine.environment}, but users other than root may write "
            f"to {machine.strangers[0]}. Install Moorage into a folder that only root may write to, such as "
            f"{VERSIONS}/NAME, and run `moor install` from there."
        )


def _settings(machine: Machine) -> Sequence[Step]:
    steps: list[Step] = []
    if CONFIG not in machine.texts:
        if CONFIG_IN_HOME in machine.other_files:
            steps.append(Move(f"Move {CONFIG_IN_HOME} to {CONFIG}.", CONFIG_IN_HOME, CONFIG))
        else:
            says = f"Write {CONFIG}, with every setting as a comment, and a new recovery key for backups into {RECOVERY_KEY}."
            steps.append(MakeSettings(says, CONFIG, RECOVERY_KEY))
    elif CONFIG_IN_HOME in machine.other_files:
        raise SetupError(
            f"There are two settings files, {CONFIG} and {CONFIG_IN_HOME}. Move what you want to keep into "
            f"{CONFIG}, and remove the other."
        )
    if machine.links.get(CONFIG_IN_HOME) != CONFIG:
        steps.append(Link(f"Link {CONFIG_IN_HOME} to {CONFIG}.", CONFIG_IN_HOME, CONFIG))
    return steps


def unit_files(machine: Machine, units: Mapping[str, str]) -> list[Step]:
    """Those that a package brought are left to it; a copy of ours would hide the package's next one. So are those that the operator
    wrote, or masked."""
    steps: list[Step] = []
    for name, text in units.items():
        own, packaged = UNITS / name, PACKAGED_UNITS / name
        is_ours = machine.texts.get(own, "").startswith(MARK)
        if own in machine.other_files or (machine.texts.get(own) and not is_ours):
            continue
        if machine.texts.get(packaged) == text:
            if is_ours:
                steps.append(Remove(f"Remove {own}, because the package brings its own.", own))
        elif machine.texts.get(own) != text:
            steps.append(WriteFile(f"Write {own}.", own, text))
    return steps


def _services(machine: Machine, *, restart: bool, reread: bool) -> Sequence[Step]:
    steps: list[Step] = []
    if reread and machine.runs_systemd:
        steps.append(Call("Let systemd read its units again.", ("daemon-reload",)))
    wanted = [name for name in TO_ENABLE if UNITS / name not in machine.other_files]
    if missing := [name for name in wanted if name not in machine.enabled]:
        steps.append(Call(f"Start at boot: {', '.join(missing)}.", ("enable", *missing)))
    if not machine.runs_systemd:
        return steps
    if restart and SERVICE in machine.active:
        steps.append(Call("Restart Moorage. Containers keep running.", ("restart", SERVICE)))
        return steps
    if stopped := [name for name in wanted if name not in machine.active]:
        steps.append(Call(f"Start {', '.join(stopped)}.", ("start", *stopped)))
    return steps
