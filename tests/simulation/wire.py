"""Connections to the real Postgres, one statement at a time.

asyncpg writes to a transport; this one sends what it is given, waits for the whole answer while the loop stands still,
and hands it on after a virtual delay that the seed decides. So Postgres never works on two statements at once, and how
long it takes in real time changes nothing. The one thing that it cannot answer at once is a statement that waits for a
lock: Postgres is asked who blocks it, the statement is left waiting, and whenever a transaction ends, those that
waited are asked again, in their order.

Only the framing of Postgres's protocol is read: a type, a length, a body.
"""

import asyncio
import contextlib
import select
import socket
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from tests.simulation.loop import PROCESS, Process, SimulationLoop

_PATIENCE_S = 0.004
"""Of real time, before Postgres is asked whether somebody blocks a statement."""
_MOST_LOOKS = 5000
"""About a minute."""
_CANCEL_REQUEST = 80877102
_UNNOTICED = ("UPDATE leases", "INSERT INTO leases", "INSERT INTO reconciler_status", "UPDATE gateways")


class Answered(Protocol):
    """What becomes of a statement besides being answered: delays, and losses."""

    def before(self, process: Process | None, sql: str) -> tuple[float, bool]:
        """Seconds until Postgres has it; whether the connection breaks before."""
        ...

    def after(self, process: Process | None, sql: str) -> tuple[float, bool]:
        """Seconds until the answer is here; whether the connection breaks before."""
        ...

    def refuses(self) -> bool:
        """Whether Postgres takes no connections now."""
        ...


class Calm:
    def before(self, process: Process | None, sql: str) -> tuple[float, bool]:
        return 0.0, False

    def after(self, process: Process | None, sql: str) -> tuple[float, bool]:
        return 0.0, False

    def refuses(self) -> bool:
        return False


def messages(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Those that are there as a whole: (type, body)."""
    at = 0
    while at + 5 <= len(data):
        end = at + 1 + int.from_bytes(data[at + 1 : at + 5], "big")
        if end > len(data):
            return
        yield data[at : at + 1], data[at + 5 : end]
        at = end


class PlainConnection:
    """A blocking client for what the simulation itself asks: the clock, who blocks whom, the invariants."""

    def __init__(self, path: str, user: str, database: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(path)
        parameters = f"user\0{user}\0database\0{database}\0\0".encode()
        self._socket.sendall(struct.pack("!II", len(parameters) + 8, 196608) + parameters)
        self._rows()

    def query(self, sql: str) -> list[tuple[str | None, ...]]:
        self._socket.sendall(_query(sql))
        return self._rows()

    def close(self) -> None:
        self._socket.close()

    def _rows(self) -> list[tuple[str | None, ...]]:
        rows: list[tuple[str | None, ...]] = []
        data, error = b"", None
        while True:
            data += self._socket.recv(65536)
            used = 0
            for kind, body in messages(data):
                used += 5 + len(body)
                if kind == b"D":
                    rows.append(_row(body))
                elif kind == b"E":
                    error = body.replace(b"\0", b" ").decode()
                elif kind == b"Z":
                    if error is not None:
                        raise RuntimeError(error)
                    return rows
            data = data[used:]


def _query(sql: str) -> bytes:
    body = sql.encode() + b"\0"
    return b"Q" + struct.pack("!I", len(body) + 4) + body


def _without_first(answer: bytes, count: int) -> bytes:
    """What follows the first so many answers."""
    at = 0
    for kind, body in messages(answer):
        if count == 0:
            break
        at += 5 + len(body)
        count -= kind == b"Z"
    return answer[at:]


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


@dataclass
class Wire:
    """All connections of the installation, and the clock that Postgres tells the time by."""

    loop: SimulationLoop
    path: str
    monitor: PlainConnection
    database_now_us: Callable[[], int]
    faults: Answered = field(default_factory=Calm)
    transports: list["PostgresTransport"] = field(default_factory=list)
    blocked: list["PostgresTransport"] = field(default_factory=list)
    heard: Callable[[Process | None, str, str], None] = lambda process, sql, how: None
    statements: int = 0
    deadlocks: int = 0
    lock_waits: int = 0
    _clock_us: int = -1

    def connect(
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], path: Any
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        if self.faults.refuses():
            raise ConnectionRefusedError("Postgres is not there.")
        protocol = protocol_factory()
        transport = PostgresTransport(self, protocol, PROCESS.get())
        self.transports.append(transport)
        self.loop.call_soon(protocol.connection_made, transport)
        return transport, protocol

    def set_clock(self) -> None:
        if clock := self.clock_statement():
            self.monitor.query(clock)

    def clock_statement(self) -> str | None:
        """What tells Postgres the time, where it does not know it."""
        now_us = self.database_now_us()
        if now_us == self._clock_us:
            return None
        self._clock_us = now_us
        return f"SELECT setval('sim.clock', {now_us})"

    def blockers_of(self, pid: int) -> list[int]:
        ((found,),) = self.monitor.query(f"SELECT pg_blocking_pids({pid})")
        assert found is not None, "an array, possibly empty"
        return [int(one) for one in found.strip("{}").split(",") if one]

    def waits_for_itself(self, pid: int) -> bool:
        waiting = {one._pid for one in self.blocked}
        seen: set[int] = set()
        to_follow = self.blockers_of(pid)
        while to_follow:
            one = to_follow.pop()
            if one == pid:
                return True
            if one in waiting and one not in seen:
                seen.add(one)
                to_follow += self.blockers_of(one)
        return False

    def transaction_ended(self) -> None:
        """Locks were given back, and notifications sent."""
        again = True
        while again:
            again = False
            for transport in list(self.blocked):
                if transport.ask_again():
                    again = True
        for transport in list(self.transports):
            transport.fetch_notifications()

    def is_idle(self) -> bool:
        """No transaction is open, and nothing is asked."""
        return not self.blocked and all(one.is_idle() for one in self.transports)

    def break_all(self) -> None:
        """Postgres fails over."""
        for transport in list(self.transports):
            transport.break_off()


class PostgresTransport(asyncio.Transport):
    def __init__(self, wire: Wire, protocol: Any, process: Process | None) -> None:
        super().__init__()
        self._wire = wire
        self._protocol = protocol
        self._process = process
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(wire.path)
        self._pid: int | None = None
        self._statements: dict[bytes, str] = {}
        self._to_send = b""
        self._outstanding = 0
        """Answers that end with Postgres being ready for more."""
        self._describes = False
        """The answer ends with the shape of a prepared statement: asyncpg has it flushed, not synchronized."""
        self._greeted = False
        self._listens = False
        self._scheduled = False
        self._deliver_at_s = 0.0
        self._answer = b""
        self._sql = ""
        self._closed = False
        self._status = b"I"
        self._deferred = b""
        """A BEGIN that has not been sent yet."""
        self._unasked = 0
        """Answers to come that asyncpg did not ask for."""
        self._notices = False
        """The transaction may end with a notification."""
        if process is not None:
            process.at_death.append(self.die)

    # What asyncpg calls.

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._socket if name == "socket" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def is_closing(self) -> bool:
        return self._closed

    def can_write_eof(self) -> bool:
        return False

    def write(self, data: Any) -> None:
        if self._closed:
            return
        self._to_send += bytes(data)
        if not self._scheduled:
            self._scheduled = True
            self._sql = self._sql_of(self._to_send)
            delay_s, breaks = self._wire.faults.before(self._process, self._sql)
            self._wire.loop.call_later(delay_s, self._break_or, self._execute, breaks)

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(bytes(one) for one in list_of_data))

    def close(self) -> None:
        self._end(None)

    def abort(self) -> None:
        self._end(None)

    # What the simulation calls.

    def is_idle(self) -> bool:
        return self._status == b"I" and not self._scheduled and self._deliver_at_s <= self._wire.loop.time()

    def break_off(self) -> None:
        """The connection is lost; an open transaction is rolled back."""
        if not self._closed and self._greeted:
            self._end(ConnectionResetError("the connection to Postgres is lost"))

    def die(self) -> None:
        """Its process is dead: nobody is told, but the server rolls back."""
        self._close_socket()

    def ask_again(self) -> bool:
        """Whether a statement that waited for a lock goes on."""
        assert self._pid is not None, "it has been greeted"
        readable = bool(select.select([self._socket], [], [], 0)[0])
        if not readable and self._wire.blockers_of(self._pid):
            return False
        self._wire.blocked.remove(self)
        self._collect()
        return self not in self._wire.blocked

    def fetch_notifications(self) -> None:
        """Postgres sends them to an idle connection when it likes; asked for something, it sends them before it
        answers."""
        if (
            not self._listens
            or self._closed
            or self._outstanding
            or self._to_send
            or self in self._wire.blocked
        ):
            return
        self._socket.sendall(b"Q\0\0\0\x05\0")
        data = b""
        while not data.endswith(b"Z\0\0\0\x05I"):
            data += self._socket.recv(65536)
        told = b"".join(
            kind + struct.pack("!I", len(body) + 4) + body for kind, body in messages(data) if kind == b"A"
        )
        if told:
            delay_s, breaks = self._wire.faults.after(self._process, "NOTIFY")
            self._later(delay_s, self._break_or, lambda: self._hand_on(told), breaks)

    # The rest.

    def _later(self, delay_s: float, call: Callable[..., None], *arguments: Any) -> None:
        """Answers of one connection arrive in their order."""
        at_s = max(self._wire.loop.time() + delay_s, self._deliver_at_s)
        self._deliver_at_s = at_s
        self._wire.loop.call_at(at_s, call, *arguments)

    def _break_or(self, go_on: Callable[[], None], breaks: bool) -> None:
        if self._closed:
            return
        if breaks and self._greeted:
            self._end(ConnectionResetError("the connection to Postgres is lost"))
        else:
            go_on()

    def _execute(self) -> None:
        self._scheduled = False
        data, self._to_send = self._to_send, b""
        if not self._greeted and self._outstanding == 0 and self._pid is None and self._is_startup(data):
            if struct.unpack("!I", data[4:8])[0] == _CANCEL_REQUEST:
                self._send_cancel(data)
                return
            self._outstanding = 1
        else:
            for kind, _ in messages(data):
                if kind in (b"Q", b"S"):
                    self._outstanding += 1
                elif kind == b"H":
                    self._describes = True
                elif kind == b"X":
                    self._end(None)
                    return
        if self._greeted and self._sql.startswith("BEGIN") and self._status == b"I":
            self._begin(data)
            return
        self._wire.statements += 1
        self._listens = self._listens or self._sql.startswith("LISTEN")
        self._notices = self._notices or self._is_worth_notice(self._sql)
        copies = data[:1] in (b"d", b"c", b"f")
        self._socket.sendall(data if copies else self._preamble() + data)
        only_rows = all(kind == b"d" for kind, _ in messages(data)) and copies
        if (self._outstanding or self._describes) and not only_rows:
            self._collect()

    def _begin(self, data: bytes) -> None:
        """Sent with the statement that follows: until then a transaction has no effect."""
        self._outstanding = 0
        self._deferred = data
        self._status = b"T"
        answer = b"C\0\0\0\x0aBEGIN\0Z\0\0\0\x05T"
        self._later(0.0, self._break_or, lambda: self._hand_on(answer), False)

    def _preamble(self) -> bytes:
        """What goes ahead of a statement, in the same breath: the time, and a BEGIN that waits. Its answers are
        counted, and left out of what asyncpg gets to see."""
        told = b""
        if self._greeted and not self._sql.startswith(("COMMIT", "ROLLBACK")):
            if self._status == b"E":
                self._wire.set_clock()
            elif (clock := self._wire.clock_statement()) is not None:
                told += _query(clock)
                self._unasked += 1
        elif not self._greeted:
            self._wire.set_clock()
        if self._deferred:
            told, self._deferred = told + self._deferred, b""
            self._unasked += 1
        return told

    def _is_worth_notice(self, sql: str) -> bool:
        """Whether somebody may be told when it is committed. Most commits are leases and signs of life."""
        if sql.startswith(_UNNOTICED):
            return False
        return not sql.startswith(("SELECT", "BEGIN", "COMMIT", "ROLLBACK")) or "pg_notify" in sql

    def _is_startup(self, data: bytes) -> bool:
        return data[:1] == b"\0"

    def _send_cancel(self, data: bytes) -> None:
        self._socket.sendall(data)
        while self._socket.recv(4096):
            pass
        self._end(None)
        for transport in list(self._wire.blocked):
            transport.ask_again()

    def _collect(self) -> None:
        """The answer, up to where Postgres waits for us again."""
        finished, looks = False, 0
        while not finished:
            if not select.select([self._socket], [], [], _PATIENCE_S)[0]:
                if self._pid is not None and self._is_blocked():
                    return
                looks += 1
                assert looks < _MOST_LOOKS, f"Postgres does not answer: {self._sql[:200]}"
                continue
            received = self._socket.recv(262144)
            if not received:
                self._end(ConnectionResetError("Postgres closed the connection"))
                return
            self._answer += received
            finished = self._is_finished()
        answer, self._answer = _without_first(self._answer, self._unasked), b""
        self._unasked = 0
        ended = self._status == b"I"
        delay_s, breaks = self._wire.faults.after(self._process, self._sql)
        self._wire.heard(self._process, self._sql, "answered")
        self._later(delay_s, self._break_or, lambda: self._hand_on(answer), breaks)
        if ended and self._greeted:
            noticed, self._notices = self._notices, False
            if self._wire.blocked or noticed:
                self._wire.transaction_ended()

    def _is_blocked(self) -> bool:
        assert self._pid is not None, "asked only then"
        blockers = self._wire.blockers_of(self._pid)
        if not blockers or select.select([self._socket], [], [], 0)[0]:
            return False
        self._wire.lock_waits += 1
        self._wire.heard(self._process, self._sql, "waits for a lock")
        self._wire.blocked.append(self)
        if self._wire.waits_for_itself(self._pid):
            # Postgres itself ends one of the circle, by its own clock: the one that waits longest.
            self._wire.deadlocks += 1
            everybody = [one._socket for one in self._wire.blocked]
            ended = select.select(everybody, [], [], 10)[0]
            assert ended, "Postgres finds deadlocks"
            for transport in list(self._wire.blocked):
                if transport._socket in ended:
                    transport.ask_again()
        return True

    def _is_finished(self) -> bool:
        used = answered = 0
        for kind, body in messages(self._answer):
            used += 5 + len(body)
            if kind == b"Z":
                answered += 1
                self._status = body[:1]
            elif kind == b"K":
                (self._pid,) = struct.unpack("!I", body[:4])
            elif kind == b"G" or (kind == b"R" and struct.unpack("!I", body[:4])[0] not in (0, 12)):
                return True  # Our turn: rows of a COPY, or a password.
            elif self._describes and answered >= self._unasked and kind in (b"T", b"n", b"E"):
                self._describes = False
                return True
        if self._describes or used < len(self._answer) or answered < self._outstanding + self._unasked:
            return False
        self._outstanding = 0
        self._greeted = True
        return True

    def _hand_on(self, answer: bytes) -> None:
        if not self._closed:
            self._protocol.data_received(answer)

    def _sql_of(self, data: bytes) -> str:
        """For faults and the story: the text of the last statement in what is sent."""
        found = ""
        if self._is_startup(data):
            return "connect"
        for kind, body in messages(data):
            if kind == b"Q":
                found = body[:-1].decode()
            elif kind == b"P":
                name, sql, *_ = body.split(b"\0", 2)
                found = self._statements[name] = sql.decode()
            elif kind == b"B":
                _, name, *_ = body.split(b"\0", 2)
                found = self._statements.get(name, found)
            elif kind in (b"d", b"c"):
                found = "COPY"
        return found

    def _end(self, error: Exception | None) -> None:
        if self._closed:
            return
        self._close_socket()
        self._wire.loop.call_soon(self._protocol.connection_lost, error)

    def _close_socket(self) -> None:
        """Returns when the server has rolled back and given its locks away: at once, as far as anybody can tell."""
        if self._closed:
            return
        self._closed = True
        if self in self._wire.transports:
            self._wire.transports.remove(self)
        if self in self._wire.blocked:
            self._wire.blocked.remove(self)
            self._wire.monitor.query(f"SELECT pg_terminate_backend({self._pid})")
        with contextlib.suppress(ConnectionError):
            self._socket.sendall(b"X\0\0\0\4")
            while self._socket.recv(65536):
                pass
        self._socket.close()
        self._wire.transaction_ended()
