"""NVIDIA's error numbers (Xid) in the kernel's log."""

import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path

from moorage.engines.hosts.xids import RECOVERY_ACTION, Xid

_XID = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): (\d+)")
_ACTION = re.compile(r"recovery action changed from .* to 0x([0-9a-fA-F]+)")
_LOADED = re.compile(r"NVRM: loading NVIDIA UNIX")
_NOTHING = 0
"""To be done about a GPU: it has recovered."""
_MOST_BYTES = 4 * 2**20
_RECORD_BYTES = 8192


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
            xid = _xid(said, line)
            if xid.number == RECOVERY_ACTION:
                found = [one for one in found if (one.bus_id, one.number) != (xid.bus_id, xid.number)]
            if xid.action != _NOTHING:
                found.append(xid)
    return tuple(dict.fromkeys(found))


def _xid(said: re.Match[str], line: str) -> Xid:
    number = int(said[2])
    action = _ACTION.search(line) if number == RECOVERY_ACTION else None
    return Xid(said[1].lower(), number, int(action[1], 16) if action is not None else None)


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
