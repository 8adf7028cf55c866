"""The two services that the join script made, where there is systemd."""

import subprocess
from pathlib import Path

_UNITS = Path("/etc/systemd/system")
_TIMEOUT_S = 60.0


def has_systemd() -> bool:
    return Path("/run/systemd/system").exists()


def remove_services() -> None:
    """Safe to repeat."""
    if not has_systemd():
        return
    for name in ("moorage-node", "moorage-tunnel"):
        unit = _UNITS / f"{name}.service"
        if unit.exists():
            subprocess.run(["systemctl", "disable", "--now", name], timeout=_TIMEOUT_S, check=True)
            unit.unlink()
