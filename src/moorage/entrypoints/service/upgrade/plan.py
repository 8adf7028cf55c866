"""Whether an upgrade may begin, and what it has to do, in its order. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from moorage.entrypoints.service.plan import Step
from moorage.entrypoints.service.units import SERVICE
from moorage.kit.errors import SetupError

ROLES: tuple[tuple[str, str], ...] = (
    ("keep", SERVICE),
    ("gateway", "moorage-gateway.service"),
    ("controller", "moorage-controller.service"),
    ("api", "moorage-api.service"),
)
"""In the order of their restarts: what the others stand on first; the API last, which writes what the others have to understand."""
_SPARE_BYTES = 512 << 20


@dataclass(frozen=True)
class Room:
    """On one file system."""

    path: Path
    free_bytes: int
    needed_bytes: int


@dataclass(frozen=True)
class Facts:
    has_service: bool
    """Installed, and its parts run."""
    runs_from: Path
    """This process."""
    current: Path
    """Where the link leads."""
    running: Version
    target: Version
    target_folder: Path
    is_there: bool
    """`target_folder` is: nothing has to be put there."""
    lacks: str | None
    """What the release needs and this machine has not."""
    rooms: Sequence[Room]
    older_is_meant: bool
    is_encrypted: bool
    """The backup, as daily ones are."""
    old_folders: Sequence[Path]
    """Of versions before the target, but for the one that runs."""


@dataclass(frozen=True)
class PutThere(Step):
    """The new version, beside the one that runs."""


@dataclass(frozen=True)
class TakeUnits(Step):
    pass


@dataclass(frozen=True)
class BackUp(Step):
    pass


@dataclass(frozen=True)
class Migrate(Step):
    pass


@dataclass(frozen=True)
class Switch(Step):
    """From here on, going back means to restart roles."""


@dataclass(frozen=True)
class Renew(Step):
    role: str
    unit: str


@dataclass(frozen=True)
class CheckHealth(Step):
    pass


@dataclass(frozen=True)
class RemoveVersion(Step):
    """Done once the new version serves."""

    folder: Path


def refuse(facts: Facts) -> None:
    """Raises `SetupError` where it must not begin."""
    if not facts.has_service:
        raise SetupError(
            "Moorage is not a service here, or part of the service does not run. `moor install` creates or "
            "repairs it. To upgrade a Moorage that `moor up` runs, stop it and start the new version."
        )
    if facts.runs_from != facts.current:
        raise SetupError(
            f"This is the `moor` of {facts.runs_from}, and the service runs {facts.current}. Run {facts.current}/bin/moor upgrade."
        )
    if facts.target == facts.running or facts.target_folder == facts.current:
        raise SetupError(f"Moorage is at {facts.running} already.")
    if facts.target < facts.running and not facts.older_is_meant:
        raise SetupError(
            f"{facts.target} is older than {facts.running}, which runs. Add --older if you want that."
        )
    if facts.lacks is not None:
        raise SetupError(f"{facts.target} does not fit this machine: {facts.lacks}")
    for room in facts.rooms:
        if room.free_bytes < room.needed_bytes + _SPARE_BYTES:
            raise SetupError(
                f"{room.path} has {_mib(room.free_bytes)} free, but an upgrade may need "
                f"{_mib(room.needed_bytes + _SPARE_BYTES)}. Make room and run this again. Nothing was "
                "changed."
            )


def upgrade(facts: Facts) -> list[Step]:
    refuse(facts)
    backup = (
        "Back up everything, encrypted."
        if facts.is_encrypted
        else "Write the database to a file, not encrypted."
    )
    put = [] if facts.is_there else [PutThere(f"Put {facts.target} into {facts.target_folder}.")]
    return [
        *put,
        TakeUnits(f"Let systemd read the units of {facts.target} for later starts."),
        BackUp(backup),
        Migrate("Extend the database's tables while everything runs."),
        Switch(f"Switch the service to {facts.target}."),
        *(Renew(f"Restart {unit}, and wait until it serves.", role, unit) for role, unit in ROLES),
        CheckHealth("Check that nothing fails that did not fail before."),
        *(RemoveVersion(f"Remove {folder}.", folder) for folder in facts.old_folders),
    ]


def _mib(size_bytes: int) -> str:
    return f"{size_bytes >> 20} MiB"
