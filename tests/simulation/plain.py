"""A blocking client for what the simulation itself asks."""

import socket
import struct

from tests.simulation.backends import messages, query


class PlainConnection:
    """A blocking client for what the simulation itself asks: the clock, who blocks whom, the invariants."""

    def __init__(self, path: str, user: str, database: str) -> None:
        self.told: set[str] = set()
        """Channels that something was heard of."""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(path)
        parameters = f"user\0{user}\0database\0{database}\0\0".encode()
        self._socket.sendall(struct.pack("!II", len(parameters) + 8, 196608) + parameters)
        self._rows()

    def query(self, sql: str, before: str = "") -> list[tuple[str | None, ...]]:
        """The rows of `sql`; what is to be done before it goes in the same breath."""
        self._socket.sendall((query(before) if before else b"") + query(sql))
        return self._rows(2 if before else 1)

    def close(self) -> None:
        self._socket.close()

    def _rows(self, answers: int = 1) -> list[tuple[str | None, ...]]:
        """Those of the last answer."""
        rows: list[tuple[str | None, ...]] = []
        data, error = b"", None
        while True:
            data += self._socket.recv(65536)
            used = 0
            for kind, body in messages(data):
                used += 5 + len(body)
                if kind == b"D":
                    rows.append(_row(body))
                elif kind == b"A":
                    self.told.add(body[4:].partition(b"\0")[0].decode())
                elif kind == b"E":
                    error = body.replace(b"\0", b" ").decode()
                elif kind == b"Z":
                    if error is not None:
                        raise RuntimeError(error)
                    answers -= 1
                    if answers == 0:
                        return rows
                    rows.clear()
            data = data[used:]


def _row(body: bytes) -> tuple[str | None, ...]:
    (count,), at, values = struct.unpack("!H", body[:2]), 2, []
    for _ in range(count):
        (length,) = struct.unpack("!i", body[at : at + 4])
        at += 4
        if length < 0:
            values.append(None)
            continue
        values.append(body[at : at + length].decode())
        at += length
    return tuple(values)
