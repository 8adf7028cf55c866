"""What listens inside a replica's network namespace, read from `/proc/<pid>/net` of its process.

Nothing is executed inside: the image may have no shell, and must not be asked about itself anyway.
"""

import ipaddress
from pathlib import Path

from moorage.engines.base import ListeningSocket

_LISTENING = "0A"
ENGINE_DNS = "127.0.0.11"
"""Docker's own resolver listens there, inside every container of a user-defined network."""
_TABLE_BYTES = 64 * 1024
"""About 400 sockets, those that listen first: more than any server has, and a container may open tens of thousands."""


def listening_sockets_of(pid: int, engine_id: str, proc: Path = Path("/proc")) -> tuple[ListeningSocket, ...]:
    """Empty where the process cannot be seen: it ended, or the engine runs in another machine's (or a
    virtual machine's) pid namespace and the number means somebody else here."""
    try:
        if engine_id not in (proc / str(pid) / "cgroup").read_text():
            return ()
        tables = [_beginning(proc / str(pid) / "net" / name) for name in ("tcp", "tcp6")]
    except OSError:
        return ()
    found = {socket for table in tables for socket in parse_table(table)}
    return tuple(sorted(found, key=lambda socket: (socket.port, socket.address)))


def _beginning(table: Path) -> str:
    """Whole rows only."""
    with table.open("rb") as opened:
        text = opened.read(_TABLE_BYTES)
    return text[: text.rfind(b"\n") + 1].decode("ascii", "replace")


def parse_table(table: str) -> list[ListeningSocket]:
    """One row: `0: 0100007F:1F40 00000000:0000 0A …`: local address, remote address, state."""
    sockets = []
    for line in table.splitlines()[1:]:
        fields = line.split()
        if len(fields) < 4 or fields[3] != _LISTENING:
            continue
        address, _, port = fields[1].partition(":")
        socket = ListeningSocket(_address(address), int(port, 16))
        if socket.address != ENGINE_DNS:
            sockets.append(socket)
    return sockets


def _address(text: str) -> str:
    # 32-bit words in the machine's byte order, which is little-endian wherever Docker runs on Linux for us.
    words = [bytes.fromhex(text[at : at + 8])[::-1] for at in range(0, len(text), 8)]
    address = ipaddress.ip_address(b"".join(words))
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)
