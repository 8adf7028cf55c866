"""Where an installed Moorage is. Pure.

Each version is a folder with an environment of its own, and one link says which of them runs: to go to another version is to move
the link and to start the roles again (docs/decisions/0084).
"""

from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/opt/moorage")
VERSIONS = ROOT / "versions"
CURRENT = ROOT / "current"
"""A link to the environment that the units run."""
COMMAND = CURRENT / "bin/moor"
COMMAND_ON_PATH = Path("/usr/local/bin/moor")
PACKAGED_COMMAND = Path("/usr/bin/moor")
"""A `.deb` brings it."""

CONFIG_FOLDER = Path("/etc/moorage")
CONFIG = CONFIG_FOLDER / "moorage.toml"
RECOVERY_KEY = CONFIG_FOLDER / "recovery-key"
HOME = Path("/var/lib/moorage")
CONFIG_IN_HOME = HOME / "moorage.toml"
"""A link to the file, so that `moor` finds the same settings as the service."""
ROLES_ENVIRONMENT = HOME / "run/roles.env"
"""What the roles have to know of this machine, found out at each start."""
BACKUPS = Path("/var/backups/moorage")

UNITS = Path("/etc/systemd/system")
STARTS_AT_BOOT = UNITS / "multi-user.target.wants/moorage.service"
"""There while the service is installed."""
PACKAGED_UNITS = Path("/usr/lib/systemd/system")
"""Where a `.deb` brings them; a file of the same name in `UNITS` is taken instead."""


@dataclass(frozen=True)
class Installation:
    """What an upgrade touches."""

    root: Path = ROOT
    home: Path = HOME
    config: Path = CONFIG

    @property
    def versions(self) -> Path:
        return self.root / VERSIONS.name

    @property
    def current(self) -> Path:
        return self.root / CURRENT.name

    @property
    def way_back(self) -> Path:
        """A link to the version before. To put it into the place of `current` takes no room on a disk that is full."""
        return self.root / ".current-before"

    @property
    def journal(self) -> Path:
        """There while an upgrade is under way, or was when its process ended."""
        return self.root / "upgrade.json"

    @property
    def lock(self) -> Path:
        return self.root / "upgrade.lock"
