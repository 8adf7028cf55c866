"""Where the control groups of a process are, in both versions of them."""

from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")


def memberships_of(pid: int, engine_id: str, proc: Path) -> str | None:
    """`/proc/<pid>/cgroup`; None where the process ended, or the number means somebody else here."""
    try:
        memberships = (proc / str(pid) / "cgroup").read_text()
    except OSError:
        return None
    return memberships if engine_id in memberships else None


def folder_of(controller: str, memberships: str, cgroups: Path) -> Path | None:
    """`7:pids:/docker/<id>` is a hierarchy of its own (version 1), `0::/docker/<id>` the only one (version 2). A machine
    may have both; a controller is in one of them."""
    unified = None
    for line in memberships.splitlines():
        number, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            return cgroups / controller / path.lstrip("/")
        if number == "0" and not controllers:
            unified = cgroups / path.lstrip("/")
    return unified
