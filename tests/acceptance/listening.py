"""What a stack listens on, as the kernel tells it."""

import contextlib
import ipaddress
import os
import re
import socket
import struct
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

_TCP_LISTENS, _UDP_BOUND, _UNIX_ACCEPTS = "0A", "07", 0x10000
_CONNECT = """
import os, socket, sys
os.setgroups([]); os.setgid(int(sys.argv[1])); os.setuid(int(sys.argv[1]))
for path in sys.argv[2:]:
    with socket.socket(socket.AF_UNIX) as one:
        try:
            one.connect(path)
        except OSError:
            continue
        print(path)
"""


def listening(home: Path) -> dict[str, set[str]]:
    """By protocol: the addresses that processes of the stack at `home` listen on; paths relative to it."""
    inodes = {inode for pid in processes_at(home) for inode in _sockets_of(pid)}
    found: dict[str, set[str]] = {"tcp": set(), "udp": set(), "unix": set()}
    for protocol, state in (("tcp", _TCP_LISTENS), ("udp", _UDP_BOUND)):
        for table in (protocol, f"{protocol}6"):
            for _, local, _, its_state, *rest in _rows(Path(f"/proc/net/{table}")):
                if its_state == state and rest[5] in inodes:
                    found[protocol].add(_address(local))
    for _, _, _, flags, _, _, inode, *path in _rows(Path("/proc/net/unix")):
        if int(flags, 16) & _UNIX_ACCEPTS and inode in inodes:
            name = path[0].removeprefix(f"{home}/") if path else "(without a name)"
            # HAProxy binds under a name of the moment, and then gives the file its own.
            found["unix"].add(re.sub(r"\.\d+\.tmp$", "", name))
    return found


def processes_at(home: Path) -> Iterator[int]:
    """Ours and the daemons': whatever works in this folder, or was started from it."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                said = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
                if os.fsencode(home) in said or os.readlink(folder / "exe").startswith(str(home)):
                    yield int(folder.name)


def reachable_by(user_id: int, paths: Iterable[Path]) -> list[str]:
    """Those of these sockets that a user of the machine can connect to who has nothing to do with the stack."""
    script = [sys.executable, "-c", _CONNECT, str(user_id), *map(str, paths)]
    done = subprocess.run(script, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.split()


def _sockets_of(pid: int) -> Iterator[str]:
    with contextlib.suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                target = os.readlink(descriptor)
                if target.startswith("socket:["):
                    yield target[len("socket:[") : -1]


def _rows(table: Path) -> Iterator[list[str]]:
    yield from (line.split() for line in table.read_text().splitlines()[1:])


def _address(local: str) -> str:
    raw, _, port = local.partition(":")
    # The kernel prints each four bytes as a number of this machine.
    words = [int(raw[start : start + 8], 16) for start in range(0, len(raw), 8)]
    packed = struct.pack(f"={len(words)}I", *words)
    family = socket.AF_INET if len(packed) == 4 else socket.AF_INET6
    return f"{ipaddress.ip_address(socket.inet_ntop(family, packed))}:{int(port, 16)}"
