"""What an upgrade asks of systemd: the one place where it does."""

import subprocess
from pathlib import Path
from typing import Protocol

from moorage.entrypoints.service.steps import systemctl
from moorage.kit.errors import SetupError

_LIMIT_S = 60.0


class ServiceManager(Protocol):
    def restart(self, unit: str) -> None:
        """Returns when what ran has ended."""
        ...

    def reload(self, unit: str) -> None:
        """Of `moorage.service`, which then is the version that the link leads to, in the same process."""
        ...

    def main_pid(self, unit: str) -> int:
        """0: nothing runs."""
        ...

    def take_units(self, environment: Path) -> None:
        """Those of this version, from the next start of each."""
        ...


class Systemd:
    def restart(self, unit: str) -> None:
        # It may be in the pause after many failures, or have failed altogether.
        systemctl(("reset-failed", unit))
        systemctl(("restart", unit))

    def reload(self, unit: str) -> None:
        systemctl(("reload-or-restart", unit))

    def main_pid(self, unit: str) -> int:
        return int(systemctl(("show", "--property=MainPID", "--value", unit)).strip() or 0)

    def take_units(self, environment: Path) -> None:
        done = subprocess.run(
            [str(environment / "bin/moor"), "units"], capture_output=True, text=True, timeout=_LIMIT_S, check=False
        )  # fmt: skip
        if done.returncode != 0:
            raise SetupError(f"The new version could not write its units: {done.stderr.strip()[-500:]}")
