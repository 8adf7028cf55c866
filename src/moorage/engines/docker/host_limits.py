"""Limits of the kernel that all containers of a machine share, raised until each container meets its own first.

The kernel counts inotify instances, watches, pipes and the like for each user of the machine, and uid 0 in one container
is the same user as uid 0 in another and as root outside: whoever takes all of them leaves none to the others. But all of
these are kernel memory, and the kernel charges it to the container that asked. Once the shared number is out of reach, a
container's memory, processes and open files are its limits, and it pays for those (docs/decisions/0024).

Nothing is ever lowered. A limit that may not be raised here is named, for the operator.
"""

from collections.abc import Mapping
from pathlib import Path

SYSTEM_SETTINGS = Path("/proc/sys")
_PLENTY = 2**31 - 1
WANTED: Mapping[str, int] = {
    "fs/inotify/max_user_instances": _PLENTY,
    "fs/inotify/max_user_watches": _PLENTY,
    "fs/epoll/max_user_watches": _PLENTY,
    "fs/aio-max-nr": _PLENTY,
    "fs/file-max": _PLENTY,
    "kernel/pid_max": 2**22,
    "kernel/threads-max": 2**22,
    "kernel/pty/max": 2**20,
    # Addresses next door that somebody sent to, of all namespaces together: a container's network has 65,534 of them, half a
    # kilobyte each. When they are too many, the kernel forgets those of others and learns no new ones.
    "net/ipv4/neigh/default/gc_thresh2": 2**21,
    "net/ipv4/neigh/default/gc_thresh3": 2**21,
    # What kernels give to a machine of more than 4 GiB; what of it one container may hold is the firewall's to say.
    "net/netfilter/nf_conntrack_max": 2**18,
    # Of this one 0 is the highest: no limit.
    "fs/pipe-user-pages-soft": 0,
}


def raise_limits(folder: Path = SYSTEM_SETTINGS) -> tuple[str, ...]:
    """Cheap to repeat. Returns those that are too low and may not be raised, as sysctl names them."""
    return tuple(
        name.replace("/", ".") for name, wanted in WANTED.items() if not _is_raised(folder / name, wanted)
    )


def _is_raised(file: Path, wanted: int) -> bool:
    try:
        if _reaches(int(file.read_text()), wanted):
            return True
        file.write_text(str(wanted))
        return _reaches(int(file.read_text()), wanted)
    except FileNotFoundError:
        return True  # a kernel without the thing
    except (OSError, ValueError):
        return False


def _reaches(value: int, wanted: int) -> bool:
    return value == 0 if wanted == 0 else value >= wanted
