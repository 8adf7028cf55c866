"""Whether a replica met its limit of processes, read from the counter of its control group."""

from pathlib import Path

from moorage.engines.docker.cgroups import CGROUPS, folder_of, memberships_of


def process_limit_reached_by(
    pid: int, engine_id: str, proc: Path = Path("/proc"), cgroups: Path = CGROUPS
) -> bool:
    """False where it cannot be seen."""
    memberships = memberships_of(pid, engine_id, proc)
    folder = folder_of("pids", memberships, cgroups) if memberships is not None else None
    try:
        events = (folder / "pids.events").read_text() if folder is not None else ""
    except OSError:
        return False
    counters = dict(line.split() for line in events.splitlines())
    return int(counters.get("max", 0)) > 0
