"""NVIDIA's error numbers (Xid) in the kernel's log."""

import os
import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_XID = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): (\d+)")
_LOADED = re.compile(r"NVRM: loading NVIDIA UNIX")
_MOST_BYTES = 4 * 2**20
_RECORD_BYTES = 8192

FALLEN_OFF_THE_BUS = 79
UNUSABLE_AFTER = {
    48: "an error in its memory that could not be corrected",
    62: "its own controller stopped",
    64: "its memory is worn out",
    FALLEN_OFF_THE_BUS: "it has fallen off the bus",
    95: "an error in its memory that spread",
    119: "its own processor does not answer",
    120: "its own processor failed",
    140: "an error in its memory that could not be corrected",
}
"""After these only a reset, or a restart of the machine, helps. All others, such as 13, 31, 43 and 45, are as a rule the
fault of the program that computed: whoever runs one could otherwise break the machine for everybody."""


@dataclass(frozen=True)
class Xid:
    bus_id: str
    """As the kernel spells it: 0000:3b:00."""
    number: int


def read_xids(root: Path = Path("/")) -> tuple[Xid, ...]:
    """Those since the driver was last loaded; empty where the log may not be read."""
    for at in ("dev/kmsg", "var/log/kern.log"):
        try:
            return xids_in(_lines(root / at))
        except OSError:
            continue
    return ()


def xids_in(lines: Iterable[str]) -> tuple[Xid, ...]:
    found: list[Xid] = []
    for line in lines:
        if _LOADED.search(line):
            found = []  # A driver that was loaded anew has begun anew.
        if (said := _XID.search(line)) is not None:
            found.append(Xid(said[1].lower(), int(said[2])))
    return tuple(dict.fromkeys(found))


def is_of(xid: Xid, bus_id: str | None) -> bool:
    """The kernel's log leaves out the function: 0000:3b:00."""
    return bus_id is not None and kernel_bus_id(bus_id).partition(".")[0] == xid.bus_id.partition(".")[0]


def kernel_bus_id(bus_id: str) -> str:
    """NVML spells it 00000000:3B:00.0, the kernel 0000:3b:00.0."""
    domain, _, rest = bus_id.lower().partition(":")
    return f"{domain[-4:]}:{rest}"


def _lines(file: Path) -> list[str]:
    """The newest. A device gives one record for each read, and then says that there is no more yet."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
    try:
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode):
            os.lseek(descriptor, max(0, status.st_size - _MOST_BYTES), os.SEEK_SET)
        read = bytearray()
        while len(read) < _MOST_BYTES:
            try:
                part = os.read(descriptor, _RECORD_BYTES)
            except BlockingIOError:
                break
            except BrokenPipeError:
                continue  # It was overwritten before we came to it; the next read gives the one after.
            if not part:
                break
            read += part
    finally:
        os.close(descriptor)
    return read.decode("utf-8", "replace").splitlines()
