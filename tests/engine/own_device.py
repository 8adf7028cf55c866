"""A network device of the test's own, to which addresses outside lead: nothing that is sent to them leaves the machine."""

import fcntl
import os
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_SET_INTERFACE, _TUN_WITHOUT_HEADER = 0x400454CA, 0x1001
_TURN = Path(tempfile.gettempdir()) / f"moorage-test-addresses-{os.getuid()}"
"""An address leads to one device of the machine, also when the suite runs there twice at the same time."""


@contextmanager
def leading_to_a_device(addresses: Sequence[str], own: str | None = None) -> Iterator[int]:
    """The file from which the packets can be read, without waiting. The device has an address where `own` says so."""
    with open(_TURN, "a") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        try:
            name = f"moortap{os.getpid() % 10_000}"
            fcntl.ioctl(device, _SET_INTERFACE, struct.pack("16sH22x", name.encode(), _TUN_WITHOUT_HEADER))
            ip("link", "set", name, "up")
            if own is not None:
                ip("addr", "add", f"{own}/32", "dev", name)
            for address in addresses:
                ip("route", "add", f"{address}/32", "dev", name)
            yield device
        finally:
            os.close(device)  # the device and its routes go with it


def ip(*arguments: str) -> str:
    # busybox, which the engine's fixtures bring: a small system has no iproute2.
    command = ("/bin/busybox", "ip", *arguments)
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=20).stdout
