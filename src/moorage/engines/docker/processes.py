"""Whether a replica met its limit of processes, read from the counter of its control group."""

from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")


def process_limit_reached_by(
    pid: int, engine_id: str, proc: Path = Path("/proc"), cgroups: Path = _CGROUPS
) -> bool:
    """False where it cannot be seen: the process ended, or the number means somebody else here."""
    try:
        memberships = (proc / str(pid) / "cgroup").read_text()
        if engine_id not in memberships:
            return False
        return any(_refusals(folder) > 0 for folder in pids_folders(memberships, cgroups))
    except OSError:
        return False


def pids_folders(memberships: str, cgroups: Path) -> list[Path]:
    """`7:pids:/docker/<id>` is a hierarchy of its own (version 1), `0::/docker/<id>` the only one (version 2)."""
    folders = []
    for line in memberships.splitlines():
        number, controllers, path = line.split(":", 2)
        if "pids" in controllers.split(","):
            folders.append(cgroups / "pids" / path.lstrip("/"))
        elif number == "0" and not controllers:
            folders.append(cgroups / path.lstrip("/"))
    return folders


def _refusals(folder: Path) -> int:
    events = folder / "pids.events"
    if not events.exists():
        return 0
    counters = dict(line.split() for line in events.read_text().splitlines())
    return int(counters.get("max", 0))
