"""What a replica uses, read from the files of its control groups: the engine's own statistics come from there too, but
cost it a hundred times as much."""

from dataclasses import dataclass
from pathlib import Path

from moorage.engines.base import ReplicaUsage
from moorage.engines.docker.cgroups import CGROUPS, folder_of, memberships_of
from moorage.kit.clock import Clock


@dataclass(frozen=True)
class Counter:
    path: Path
    key: str | None = None
    """The line that it is in; None: the file is a bare number."""

    def read(self) -> int:
        text = self.path.read_text()
        if self.key is None:
            return int(text)
        return next(int(line.split()[1]) for line in text.splitlines() if line.startswith(f"{self.key} "))


@dataclass(frozen=True)
class UsageFiles:
    cpu: Counter
    cpu_units_per_s: int
    memory: Counter
    reclaimable: Counter
    """Of the memory: pages of files that the kernel gives back at once."""

    def read(self, clock: Clock) -> ReplicaUsage | None:
        """None where the replica has ended."""
        try:
            cpu_time = self.cpu.read()
            read_at_s = clock.monotonic()
            memory_bytes = max(0, self.memory.read() - self.reclaimable.read())
        except OSError:
            return None
        return ReplicaUsage(read_at_s, cpu_time / self.cpu_units_per_s, memory_bytes)


def usage_files_of(
    pid: int, engine_id: str, proc: Path = Path("/proc"), cgroups: Path = CGROUPS
) -> UsageFiles | None:
    """None where they cannot be seen: the process ended, or the engine runs in a virtual machine."""
    memberships = memberships_of(pid, engine_id, proc)
    if memberships is None:
        return None
    cpu = folder_of("cpuacct", memberships, cgroups)
    memory = folder_of("memory", memberships, cgroups)
    if cpu is None or memory is None:
        return None
    details = memory / "memory.stat"
    if (cpu / "cpuacct.usage").exists():  # version 1
        return UsageFiles(
            Counter(cpu / "cpuacct.usage"),
            10**9,
            Counter(memory / "memory.usage_in_bytes"),
            Counter(details, "total_inactive_file"),
        )
    return UsageFiles(
        Counter(cpu / "cpu.stat", "usage_usec"),
        10**6,
        Counter(memory / "memory.current"),
        Counter(details, "inactive_file"),
    )
