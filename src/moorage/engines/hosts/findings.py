"""How findings are written: `broken("disk_full", "The disk …", "docker image prune")`. Pure."""

from moorage.engines.base import HostFinding


def broken(code: str, message: str, command: str) -> HostFinding:
    """Something does not work."""
    return HostFinding(code, message, command, broken=True)


def risky(code: str, message: str, command: str) -> HostFinding:
    """It works, and may stop working."""
    return HostFinding(code, message, command, broken=False)
