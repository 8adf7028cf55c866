"""Postgres's own processes, kept and lent to one connection after the other.

A day on which processes are killed makes a hundred connections, each of which would start a process of Postgres, with
empty caches, and have every statement parsed and planned again: half of what Postgres did. So a connection is given
a process that served another one, reset, with its statements still prepared. asyncpg does not notice: it is answered
what Postgres answered the first time. Which process a connection gets depends on this seed alone, and all plans are
forgotten before each seed, so that nothing that ran before is felt.
"""

import contextlib
import os
import signal
import socket
import struct
from dataclasses import dataclass, field

_RESET = "UNLISTEN *; RESET ALL; SELECT pg_advisory_unlock_all()"
_CLOCK = b"simulation_clock"


_length_at = struct.Struct("!I").unpack_from


def messages(data: bytes) -> list[tuple[bytes, bytes]]:
    """Those that are there as a whole: (type, body)."""
    found, at, size = [], 0, len(data)
    while at + 5 <= size:
        end = at + 1 + _length_at(data, at + 1)[0]
        if end > size:
            break
        found.append((data[at : at + 1], data[at + 5 : end]))
        at = end
    return found


def message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!I", len(body) + 4) + body


def query(sql: str) -> bytes:
    return message(b"Q", sql.encode() + b"\0")


SYNC = message(b"S", b"")
_CLOCK_BIND = b"\0" + _CLOCK + b"\0" + struct.pack("!HH", 0, 1)
_CLOCK_RUN = message(b"E", b"\0\0\0\0\0") + SYNC


def clock_message(now_us: int) -> bytes:
    """Tells Postgres the time, by a statement that every process has prepared. Answered like a statement."""
    value = b"%d" % now_us
    return message(b"B", _CLOCK_BIND + struct.pack("!I", len(value)) + value + b"\0\0") + _CLOCK_RUN


@dataclass
class Backend:
    """One process of Postgres, and what it has prepared."""

    number: int
    socket: socket.socket
    pid: int
    greeting: bytes
    """What a new connection is told first."""
    prepared: set[bytes] = field(default_factory=set)
    """Statements: the text, and the types of the parameters."""

    def answers(self, data: bytes, count: int) -> bytes:
        """To what is sent, until Postgres was ready so many times."""
        self.socket.sendall(data)
        return _read(self.socket, count)

    def end(self) -> None:
        """Returns when it has rolled back and given its locks away."""
        with contextlib.suppress(ConnectionError):
            self.socket.sendall(message(b"X", b""))
            while self.socket.recv(65536):
                pass
        self.socket.close()


@dataclass
class Backends:
    path: str
    shapes: dict[bytes, bytes] = field(default_factory=dict)
    """By statement: Postgres's description of it, as asyncpg is told when it has it prepared."""
    names: dict[bytes, bytes] = field(default_factory=dict)
    texts: dict[bytes, str] = field(default_factory=dict)
    """By statement: what it says."""
    free: dict[int, Backend] = field(default_factory=dict)
    lent: set[int] = field(default_factory=set)
    stopped: set[int] = field(default_factory=set)
    """Processes of Postgres that wait for a lock; by their ids."""
    sign_of_life: bytes = b""
    """The answer to a question that is always answered alike."""
    made: int = 0

    def begin_a_seed(self) -> None:
        assert not self.lent, "every connection of the seed before was closed"
        for backend in self.free.values():
            backend.answers(query("DISCARD PLANS"), 1)

    def name_of(self, statement: bytes) -> bytes:
        return self.names.setdefault(statement, b"s%d" % len(self.names))

    def text_of(self, statement: bytes) -> str:
        text = self.texts.get(statement)
        if text is None:
            text = self.texts[statement] = statement.partition(b"\0")[0].decode()
        return text

    def take(self, startup: bytes) -> Backend:
        """The lowest number that is free, whether a process stands behind it or has to be made."""
        number = next(number for number in range(len(self.lent) + 1) if number not in self.lent)
        self.lent.add(number)
        return self.free.pop(number, None) or self._made(number, startup)

    def give_back(self, backend: Backend, in_transaction: bool) -> None:
        """As if it had ended: rolled back, without locks; but it lives."""
        rollback = query("ROLLBACK") if in_transaction else b""
        backend.answers(SYNC + rollback + query(_RESET), 2 + bool(rollback))
        self.lent.remove(backend.number)
        self.free[backend.number] = backend

    def lose(self, backend: Backend) -> None:
        """It is in the middle of something."""
        backend.end()
        self.lent.remove(backend.number)

    def cancel(self, request: bytes) -> None:
        asking = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        asking.connect(self.path)
        asking.sendall(request)
        while asking.recv(4096):
            pass
        asking.close()

    def stop(self, pid: int) -> None:
        os.kill(pid, signal.SIGSTOP)
        self.stopped.add(pid)

    def let_go_on(self, pid: int) -> None:
        os.kill(pid, signal.SIGCONT)
        self.stopped.discard(pid)

    def let_all_go_on(self) -> None:
        """One that stands still would keep Postgres from ending."""
        for pid in sorted(self.stopped):
            with contextlib.suppress(ProcessLookupError):  # It has ended meanwhile.
                self.let_go_on(pid)

    def close(self) -> None:
        for backend in self.free.values():
            backend.end()
        self.free.clear()

    def _made(self, number: int, startup: bytes) -> Backend:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        made.connect(self.path)
        made.sendall(startup)
        greeting = _read(made, 1)
        keys = [body for kind, body in messages(greeting) if kind == b"K"]
        assert keys, "nobody is asked for a password"
        backend = Backend(number, made, int.from_bytes(keys[0][:4], "big"), greeting)
        clock = _CLOCK + b"\0SELECT setval('sim.clock', $1)\0\0\0"
        backend.answers(message(b"P", clock) + SYNC, 1)
        self.made += 1
        return backend


def _read(of: socket.socket, count: int) -> bytes:
    data = b""
    while sum(kind == b"Z" for kind, _ in messages(data)) < count:
        received = of.recv(65536)
        assert received, "Postgres is there"
        data += received
    return data
