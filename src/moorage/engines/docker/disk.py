"""What a container has written to this machine's disk: the layer over its image, volumes that its image declares, and
the few files of the engine's that it may write to as well.

The engine can tell the size of the layer, but not of the rest, and counts a file with holes as if it had none. So the
folders are looked through here, which needs them to be on this machine.
"""

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from typing import Any

from moorage.engines.base import DiskSpace
from moorage.engines.docker.cache_folder import Inode
from moorage.engines.docker.cgroups import CGROUPS, folder_of, memberships_of
from moorage.engines.docker.create import CACHE_PREFIX
from moorage.engines.docker.folder_walk import entries_below

LEAST_BYTES = 4096
"""What a file counts at least: empty ones use up a disk too, when there are enough of them."""
MANY = 100_000
"""So many files are looked at in any case; beyond that only until the limit is passed."""
_BLOCK_BYTES = 512
_DELETED = " (deleted)"


@dataclass(frozen=True)
class Storage:
    """Of an engine."""

    data_folder: str
    bounds_disk: bool
    """It may be able to: whether it is, its first refusal to create a container shows."""


@dataclass(frozen=True)
class WritablePlaces:
    engine_id: str
    pid: int
    """0 where no process runs."""
    layer: Path | None
    """None where the storage driver keeps it together with the image's files; those that do can bound it."""
    others: tuple[Path, ...]


def storage_of(information: Mapping[str, Any]) -> Storage:
    """From Docker's words about itself. It does not say whether quotas are switched on."""
    details = dict(information.get("DriverStatus") or ())
    with_quotas = information["Driver"] in ("btrfs", "zfs") or details.get("Backing Filesystem") == "xfs"
    return Storage(str(information["DockerRootDir"]), with_quotas)


def writable_places_of(inspected: Mapping[str, Any]) -> WritablePlaces | None:
    """None where they are not on this machine."""
    upper = ((inspected.get("GraphDriver") or {}).get("Data") or {}).get("UpperDir")
    others = [inspected[name] for name in ("HostsPath", "HostnamePath", "ResolvConfPath")]
    others += [
        mount["Source"]
        for mount in inspected.get("Mounts") or []
        # A cache has a bound of its own.
        if mount["Type"] == "volume" and not str(mount.get("Name")).startswith(CACHE_PREFIX)
    ]
    if not os.access(upper or others[0], os.R_OK):
        return None
    layer = Path(upper) if upper is not None else None
    return WritablePlaces(
        inspected["Id"], int(inspected["State"]["Pid"]), layer, tuple(Path(one) for one in others if one)
    )


def space_of(data_folder: str) -> DiskSpace | None:
    """None where the engine's data is not on this machine."""
    try:
        found = os.statvfs(data_folder)
    except OSError:
        return None
    return DiskSpace(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)


def written_bytes_at(places: WritablePlaces, limit_bytes: int) -> int | None:
    """Exact up to the limit; far beyond it, at least this much. None where the container was removed."""
    if not (places.layer or places.others[0]).exists():
        return None
    total, looked_at, linked = 0, 0, set[int]()
    for path in (*([places.layer] if places.layer is not None else []), *places.others):
        for entry in _entries(path):
            looked_at += 1
            if entry.st_nlink > 1 and S_ISREG(entry.st_mode):
                if entry.st_ino in linked:
                    continue
                linked.add(entry.st_ino)
            total += max(entry.st_blocks * _BLOCK_BYTES, LEAST_BYTES)
            if looked_at >= MANY and total > limit_bytes:
                return total
    return total + _deleted_bytes(places)


def _entries(path: Path) -> Iterator[os.stat_result]:
    """Of a file, or of everything below a folder."""
    with contextlib.suppress(OSError):
        if path.is_file():
            yield path.stat()
            return
    yield from entries_below(path)


def _deleted_bytes(places: WritablePlaces, proc: Path = Path("/proc"), cgroups: Path = CGROUPS) -> int:
    """Files that have no name any more take room as long as a process has them open."""
    memberships = memberships_of(places.pid, places.engine_id, proc) if places.pid > 0 else None
    group = folder_of("pids", memberships, cgroups) if memberships is not None else None
    if group is None:
        return 0
    sizes, looked_at = dict[tuple[int, int], int](), 0
    with contextlib.suppress(OSError):
        # Anonymous memory has such files too, in file systems of its own.
        disks = {os.stat(one).st_dev for one in (proc / str(places.pid) / "root", *places.others)}
        for pid in (group / "cgroup.procs").read_text().split():
            for opened in _opened_by(proc / pid):
                looked_at += 1
                if looked_at > MANY:
                    return sum(sizes.values())
                with contextlib.suppress(OSError):
                    if os.readlink(opened).endswith(_DELETED):
                        found = os.stat(opened)
                        if found.st_dev in disks and S_ISREG(found.st_mode) and found.st_nlink == 0:
                            sizes[found.st_dev, found.st_ino] = found.st_blocks * _BLOCK_BYTES
    return sum(sizes.values())


def opened_inodes(
    pid: int, engine_id: str, proc: Path = Path("/proc"), cgroups: Path = CGROUPS
) -> set[Inode]:
    """What the processes of a container have open or mapped or work in, wherever that is."""
    memberships = memberships_of(pid, engine_id, proc) if pid > 0 else None
    group = folder_of("pids", memberships, cgroups) if memberships is not None else None
    found = set[Inode]()
    if group is None:
        return found
    with contextlib.suppress(OSError):
        for one in (group / "cgroup.procs").read_text().split():
            for opened in _opened_by(proc / one):
                if len(found) >= MANY:
                    return found
                with contextlib.suppress(OSError):
                    seen = os.stat(opened)
                    found.add(Inode(seen.st_dev, seen.st_ino))
    return found


def _opened_by(process: Path) -> Iterator[str]:
    """Open, or mapped into memory; and the folder that it works in, where it can go on writing whatever that is called."""
    yield str(process / "cwd")
    for folder in ("fd", "map_files"):
        with contextlib.suppress(OSError), os.scandir(process / folder) as listed:
            for entry in listed:
                yield entry.path
