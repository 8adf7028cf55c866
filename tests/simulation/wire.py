"""Connections to the real Postgres, one statement at a time.

asyncpg writes to a transport; this one sends what it is given, waits for the whole answer while the loop stands still,
and hands it on after a virtual delay that the seed decides. So Postgres never works on two statements at once, and how
long it takes in real time changes nothing. The one thing that it cannot answer at once is a statement that waits for a
lock: Postgres is asked who blocks it, the statement is left waiting, its server process is stopped, and whenever a transaction
ends, those that waited and need not any more go on, one after the other in their order.

Only the framing of Postgres's protocol is read: a type, a length, a body.
"""

import asyncio
import contextvars
import select
import struct
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Protocol

from moorage.kit.database import LONGEST_IDLE_TRANSACTION_S
from tests.simulation.backends import SYNC, Backend, Backends, clock_message, message, messages, query
from tests.simulation.loop import PROCESS, Process, SimulationLoop
from tests.simulation.plain import PlainConnection

_PATIENCE_S = 0.01
"""Of real time, before Postgres is asked whether somebody blocks a statement."""
_MOST_LOOKS = 5000
"""About a minute."""
_CANCEL_REQUEST = 80877102
_CANCELLED, _DEADLOCK = b"C57014\0", b"C40P01\0"
_SIGN_OF_LIFE = "SELECT 1"
"""Asked by listeners every few seconds; answered from memory."""
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


def _first_numbers(answer: bytes) -> list[int]:
    """Of each row, the first column; it is an integer."""
    return [struct.unpack("!i", body[6:10])[0] for kind, body in messages(answer) if kind == b"D"]


def _reached(pid: int, blockers: dict[int, list[int]]) -> set[int]:
    found: set[int] = set()
    to_follow = [pid]
    while to_follow:
        for one in blockers[to_follow.pop()]:
            if one not in found:
                found.add(one)
                to_follow.append(one)
    return found


@dataclass
class Wire:
    """All connections of the installation, and the clock that Postgres tells the time by."""

    loop: SimulationLoop
    backends: Backends
    monitor: PlainConnection
    database_now_us: Callable[[], int]
    faults: Answered = field(default_factory=Calm)
    transports: list["PostgresTransport"] = field(default_factory=list)
    blocked: list["PostgresTransport"] = field(default_factory=list)
    heard: Callable[[Process | None, str, str], None] = lambda process, sql, how: None
    statements: int = 0
    deadlocks: int = 0
    refused: list[tuple[str, str]] = field(default_factory=list)
    """Of each deadlock: the process that was refused, and its statement."""
    lock_waits: int = 0
    stood_still: int = 0
    """Transactions that Postgres ended because nobody went on with them."""
    _clock_us: int = -1
    _channels: set[str] = field(default_factory=set)

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

    def clock_statement(self) -> str:
        now_us = self.news_of_the_time_us()
        return "" if now_us is None else f"SELECT setval('sim.clock', {now_us})"

    def news_of_the_time_us(self) -> int | None:
        """The time, where Postgres has not been told it."""
        now_us = self.database_now_us()
        if now_us == self._clock_us:
            return None
        self._clock_us = now_us
        return now_us

    def blockers_of(self, pid: int) -> list[int]:
        ((found,),) = self.monitor.query(f"SELECT pg_blocking_pids({pid})")
        assert found is not None, "an array, possibly empty"
        return [int(one) for one in found.strip("{}").split(",") if one]

    def circle_of(self, pid: int) -> set[int]:
        """Those who wait for each other, if this one waits for itself."""
        waiting = {one.pid for one in self.blocked}
        blockers = {one: [other for other in self.blockers_of(one) if other in waiting] for one in waiting}
        return {one for one in _reached(pid, blockers) if pid in _reached(one, blockers)}

    def transaction_ended(self) -> None:
        """Locks were given back, and notifications sent."""
        again = True
        while again:
            again = False
            for transport in list(self.blocked):
                if transport.ask_again():
                    again = True
        self.monitor.query("")
        told, self.monitor.told = self.monitor.told, set()
        for transport in list(self.transports):
            if not told.isdisjoint(transport.channels):
                transport.fetch_notifications()

    def listen(self, channel: str) -> None:
        """The monitor listens to whatever anybody listens to: only if it was told something, others are asked."""
        if channel not in self._channels:
            self._channels.add(channel)
            self.monitor.query(f"LISTEN {channel}")

    def is_idle(self) -> bool:
        """No transaction is open, and nothing is asked."""
        return not self.blocked and all(one.is_idle() for one in self.transports)

    def end(self, pids: Collection[int]) -> None:
        for transport in list(self.transports):
            if transport.has_backend and transport.pid in pids:
                transport.end_by_server()

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
        self._context = contextvars.copy_context()
        """Of whoever connected: an answer, a notification, the end are news to that process, whoever it was that gave its lock
        back or notified, and whatever becomes of that one."""
        self._backend: Backend | None = None
        self._statements: dict[bytes, bytes] = {}
        """By the name that asyncpg gave it: text and types of the parameters."""
        self._to_prepare: list[bytes] = []
        """Statements of which asyncpg was told that they are prepared; they are before they are used."""
        self._to_send = b""
        self._outstanding = 0
        """Answers that end with Postgres being ready for more."""
        self._describes = False
        """The answer ends with the shape of a prepared statement: asyncpg has it flushed, not synchronized."""
        self._parses: bytes | None = None
        """The statement that asyncpg has prepared now."""
        self.channels: set[str] = set()
        """It listens to."""
        self._copies = False
        self._scheduled = False
        self._deliver_at_s = 0.0
        self._answer = b""
        self._sql = ""
        self._closed = False
        self._is_lost = False
        """Nobody is at the other end."""
        self._status = b"I"
        self._deferred = b""
        """A BEGIN that has not been sent yet."""
        self._unasked = 0
        """Answers to come that asyncpg did not ask for."""
        self._asked_from = 0
        """Where in the answer those are over."""
        self._notices = False
        """The transaction may end with a notification."""
        self._answered_at_s = 0.0
        """Since when Postgres waits for the next statement; for ever: it has one."""
        self._patience: asyncio.TimerHandle | None = None
        self._is_refused = False
        """Its statement waits in a circle, and is the one that ends it."""
        self._is_cancelled = False
        if process is not None:
            process.at_death.append(self.die)

    # What asyncpg calls.

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._backend.socket if name == "socket" and self._backend else default

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
            self._wire.loop.call_later(delay_s, self._break_or, self._execute, breaks, context=self._context)

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(bytes(one) for one in list_of_data))

    def close(self) -> None:
        self._end(None)

    def abort(self) -> None:
        self._end(None)

    # What the simulation calls.

    @property
    def has_backend(self) -> bool:
        return self._backend is not None

    @property
    def pid(self) -> int:
        assert self._backend is not None, "it has been greeted"
        return self._backend.pid

    def is_idle(self) -> bool:
        return self._status == b"I" and not self._scheduled and self._deliver_at_s <= self._wire.loop.time()

    def break_off(self) -> None:
        """The connection is lost; an open transaction is rolled back."""
        if not self._closed and self._backend is not None:
            self._end(ConnectionResetError("the connection to Postgres is lost"))

    def end_by_server(self) -> None:
        """Postgres ended it, because somebody asked for that."""
        self._is_lost = True
        self._end(ConnectionResetError("Postgres closed the connection"))

    def die(self) -> None:
        """Its process is dead: nobody is told, but the server rolls back."""
        self._close_socket()

    def ask_again(self) -> bool:
        """Whether a statement that waited for a lock goes on."""
        if self._wire.blockers_of(self.pid):
            return False
        self._let_go_on()
        self._collect()
        return self not in self._wire.blocked

    def be_cancelled(self) -> None:
        """Its client has told Postgres to cancel what it waits for."""
        self._is_cancelled = True
        self._let_go_on()
        self._collect()

    def fetch_notifications(self) -> None:
        """Postgres sends them to an idle connection when it likes; asked for something, it sends them before it
        answers."""
        if self._closed or self._outstanding or self._to_send or self in self._wire.blocked:
            return
        assert self._backend is not None, "it listens"
        data = self._backend.answers(query(""), 1)
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
        self._wire.loop.call_at(at_s, call, *arguments, context=self._context)

    def _break_or(self, go_on: Callable[[], None], breaks: bool) -> None:
        if self._closed:
            return
        if breaks and self._backend is not None:
            self._end(ConnectionResetError("the connection to Postgres is lost"))
        else:
            go_on()

    def _execute(self) -> None:
        self._scheduled = False
        self._answered_at_s = float("inf")
        data, self._to_send = self._to_send, b""
        if self._backend is None:
            if struct.unpack("!I", data[4:8])[0] == _CANCEL_REQUEST:
                self._send_cancel(data)
                return
            self._backend = self._wire.backends.take(data)
            self._answer_later(self._backend.greeting)
            return
        asked = messages(data)
        for kind, _ in asked:
            if kind in (b"Q", b"S"):
                self._outstanding += 1
            elif kind == b"H":
                self._describes = True
            elif kind == b"X":
                self._end(None)
                return
        if self._sql.startswith("BEGIN") and self._status == b"I":
            self._begin(data)
        elif self._deferred and self._sql.startswith(("COMMIT", "ROLLBACK")):
            self._end_what_never_began()
        elif self._sql == _SIGN_OF_LIFE and self._status == b"I" and self._wire.backends.sign_of_life:
            self._outstanding = 0
            self._answer_later(self._wire.backends.sign_of_life)
        elif self._describes and (shape := self._known_shape(asked)) is not None:
            self._describes = False
            self._answer_later(shape)
        else:
            self._send(data, asked)

    def _send(self, data: bytes, asked: list[tuple[bytes, bytes]]) -> None:
        assert self._backend is not None, "it has been greeted"
        self._wire.statements += 1
        if self._sql.startswith("LISTEN "):
            channel = self._sql.removeprefix("LISTEN ").strip('";')
            self._wire.listen(channel)
            self.channels.add(channel)
        self._notices = self._notices or self._is_worth_notice(self._sql)
        copies = data[:1] in (b"d", b"c", b"f")
        self._backend.socket.sendall(data if copies else self._preamble() + self._translated(asked))
        only_rows = copies and all(kind == b"d" for kind, _ in asked)
        if (self._outstanding or self._describes) and not only_rows:
            self._collect()

    def _known_shape(self, asked: list[tuple[bytes, bytes]]) -> bytes | None:
        """Postgres's answer to "prepare this", where it gave it before."""
        assert self._backend is not None, "it has been greeted"
        kind, body = asked[0]
        name, _, statement = body.partition(b"\0")
        shape = self._wire.backends.shapes.get(statement)
        # In a transaction that failed Postgres refuses it, whether it has it prepared for somebody else or not.
        if kind != b"P" or not name or shape is None or self._status == b"E":
            return None
        if statement not in self._backend.prepared:
            self._to_prepare.append(statement)
        return shape

    def _translated(self, asked: list[tuple[bytes, bytes]]) -> bytes:
        """With the names that statements have for all connections."""
        names, told = self._wire.backends.name_of, b""
        for kind, body in asked:
            if kind == b"P":
                name, _, statement = body.partition(b"\0")
                body = (names(statement) if name else b"") + b"\0" + statement
            elif kind == b"B":
                portal, name, rest = body.split(b"\0", 2)
                body = portal + b"\0" + self._common_name(name) + b"\0" + rest
            elif kind == b"D" and body[:1] == b"S":
                body = b"S" + self._common_name(body[1:-1]) + b"\0"
            elif kind == b"C" and body[:1] == b"S":
                body = b"Snobody\0"  # It stays prepared, for others.
            told += message(kind, body)
        return told

    def _common_name(self, name: bytes) -> bytes:
        return self._wire.backends.name_of(self._statements[name]) if name else name

    def _begin(self, data: bytes) -> None:
        """Sent with the statement that follows: until then a transaction has no effect."""
        self._outstanding = 0
        self._deferred = data
        self._status = b"T"
        answer = b"C\0\0\0\x0aBEGIN\0Z\0\0\0\x05T"
        self._wait_for_more()
        self._later(0.0, self._break_or, lambda: self._hand_on(answer), False)

    def _end_what_never_began(self) -> None:
        self._outstanding, self._deferred, self._status = 0, b"", b"I"
        tag = self._sql.partition(";")[0].encode() + b"\0"
        self._answer_later(message(b"C", tag) + message(b"Z", b"I"))

    def _preamble(self) -> bytes:
        """What goes ahead of a statement, in the same breath: the time, a BEGIN that waits, what is to be prepared. Its
        answers are counted, and left out of what asyncpg gets to see."""
        told = b""
        if not self._sql.startswith(("COMMIT", "ROLLBACK")):
            if self._status == b"E":
                self._wire.set_clock()
            elif (now_us := self._wire.news_of_the_time_us()) is not None:
                told += clock_message(now_us)
                self._unasked += 1
        if self._deferred:
            told, self._deferred = told + self._deferred, b""
            self._unasked += 1
        for statement in self._to_prepare:
            told += message(b"P", self._wire.backends.name_of(statement) + b"\0" + statement) + SYNC
            self._unasked += 1
        return told

    def _is_worth_notice(self, sql: str) -> bool:
        """Whether somebody may be told when it is committed. Most commits are leases and signs of life."""
        if sql.startswith(_UNNOTICED):
            return False
        return not sql.startswith(("SELECT", "BEGIN", "COMMIT", "ROLLBACK")) or "pg_notify" in sql

    def _send_cancel(self, data: bytes) -> None:
        self._wire.backends.cancel(data)
        self._end(None)
        pid = struct.unpack("!I", data[8:12])[0]
        for transport in [one for one in self._wire.blocked if one.pid == pid]:
            transport.be_cancelled()

    def _collect(self) -> None:
        """The answer, up to where Postgres waits for us again."""
        assert self._backend is not None, "it has been greeted"
        finished, looks = False, 0
        while not finished:
            if not self._is_readable(_PATIENCE_S):
                if self._is_blocked():
                    return
                looks += 1
                assert looks < _MOST_LOOKS, f"Postgres does not answer: {self._sql[:200]}"
                continue
            received = self._backend.socket.recv(65536)
            if not received:
                self.end_by_server()
                return
            self._answer += received
            finished = self._is_finished()
        if self in self._wire.blocked:
            self._wire.blocked.remove(self)
        answer, self._answer = self._answer[self._asked_from :], b""
        self._unasked = 0
        self._is_cancelled = False
        if self._is_refused:
            self._is_refused = False
            answer = answer.replace(_CANCELLED, _DEADLOCK)
        self._remember_prepared(self._backend, answer)
        if "pg_terminate_backend" in self._sql:
            self._wire.end(_first_numbers(answer))
        if self._sql == _SIGN_OF_LIFE:
            kept = (message(kind, body) for kind, body in messages(answer) if kind != b"A")
            self._wire.backends.sign_of_life = b"".join(kept)
        self._answer_later(answer)
        if self._status == b"I":
            noticed, self._notices = self._notices, False
            if self._wire.blocked or noticed:
                self._wire.transaction_ended()

    def _wait_for_more(self) -> None:
        """What Postgres does by its setting `idle_in_transaction_session_timeout`, which counts real time: a transaction
        that stands still for too long is ended, and its connection with it."""
        self._answered_at_s = self._wire.loop.time()
        if self._status == b"I":
            self._stop_waiting()
        elif self._patience is None:
            self._be_patient_for(LONGEST_IDLE_TRANSACTION_S)

    def _be_patient_for(self, seconds: float) -> None:
        self._patience = self._wire.loop.call_later(
            seconds, self._lose_patience, context=contextvars.Context()
        )

    def _lose_patience(self) -> None:
        self._patience = None
        left_s = self._answered_at_s + LONGEST_IDLE_TRANSACTION_S - self._wire.loop.time()
        if left_s > 0:
            self._be_patient_for(min(left_s, LONGEST_IDLE_TRANSACTION_S))
        else:
            self._wire.stood_still += 1
            self.break_off()

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _answer_later(self, answer: bytes) -> None:
        self._wait_for_more()
        delay_s, breaks = self._wire.faults.after(self._process, self._sql)
        self._wire.heard(self._process, self._sql, "answered")
        self._later(delay_s, self._break_or, lambda: self._hand_on(answer), breaks)

    def _remember_prepared(self, backend: Backend, answer: bytes) -> None:
        backend.prepared.update(self._to_prepare)
        self._to_prepare.clear()
        if self._parses is not None and answer[:1] == b"1":
            backend.prepared.add(self._parses)
            self._wire.backends.shapes[self._parses] = answer
        self._parses = None

    def _is_blocked(self) -> bool:
        """Whoever waits in a queue for one row waits for one after the other, and may for a moment be seen to wait for
        nobody: then it keeps its place, because no seed decides about that moment."""
        ends = self._is_refused or self._is_cancelled
        if ends or not self._wire.blockers_of(self.pid) or self._is_readable(0):
            return False
        # When a transaction ends, Postgres wakes everybody who waits for it at once, and whichever the machine lets run first
        # gets the next row. So whoever waits stands still until it is its turn.
        self._wire.backends.stop(self.pid)
        if self not in self._wire.blocked:
            self._wire.lock_waits += 1
            self._wire.heard(self._process, self._sql, "waits for a lock")
            self._wire.blocked.append(self)
        if circle := self._wire.circle_of(self.pid):
            self._wire.deadlocks += 1
            next(one for one in self._wire.blocked if one.pid in circle).be_refused()
        return True

    def be_refused(self) -> None:
        """As Postgres refuses one of a circle, which is the one that waits longest unless the circle closed late. Postgres itself
        would choose by the real clock, so it is told not to look for circles (`server.py`)."""
        self._wire.monitor.query(f"SELECT pg_cancel_backend({self.pid})")
        self._is_refused = True
        self._let_go_on()
        self._wire.refused.append((self._process.name if self._process else "nobody", self._sql))
        self._collect()

    def _let_go_on(self) -> None:
        self._wire.backends.let_go_on(self.pid)

    def _is_readable(self, within_s: float) -> bool:
        assert self._backend is not None, "it has been greeted"
        return bool(select.select([self._backend.socket], [], [], within_s)[0])

    def _is_finished(self) -> bool:
        used = answered = self._asked_from = 0
        for kind, body in messages(self._answer):
            used += 5 + len(body)
            if kind == b"Z":
                answered += 1
                self._status = body[:1]
                if answered == self._unasked:
                    self._asked_from = used
            elif kind == b"G":
                self._copies = True
                return True  # Our turn: rows of a COPY.
            elif self._describes and answered >= self._unasked and kind in (b"T", b"n", b"E"):
                self._describes = False
                return True
        if self._describes or used < len(self._answer) or answered < self._outstanding + self._unasked:
            return False
        self._outstanding = 0
        self._copies = False
        return True

    def _hand_on(self, answer: bytes) -> None:
        if not self._closed:
            self._protocol.data_received(answer)

    def _sql_of(self, data: bytes) -> str:
        """For faults and the story: the text of the last statement in what is sent."""
        found = ""
        if self._backend is None:
            return "connect"
        for kind, body in messages(data):
            if kind == b"Q":
                found = body[:-1].decode()
            elif kind == b"P":
                name, _, statement = body.partition(b"\0")
                self._statements[name] = statement
                self._parses = statement if name else None
                found = self._wire.backends.text_of(statement)
            elif kind == b"B":
                _, name, *_ = body.split(b"\0", 2)
                found = self._wire.backends.text_of(self._statements[name])
            elif kind in (b"d", b"c"):
                found = "COPY"
        return found

    def _end(self, error: Exception | None) -> None:
        if self._closed:
            return
        self._close_socket()
        self._wire.loop.call_soon(self._protocol.connection_lost, error, context=self._context)

    def _close_socket(self) -> None:
        """Returns when the server has rolled back and given its locks away: at once, as far as anybody can tell."""
        if self._closed:
            return
        self._closed = True
        self._stop_waiting()
        if self in self._wire.transports:
            self._wire.transports.remove(self)
        if self._backend is None:
            return
        if self in self._wire.blocked:
            self._wire.blocked.remove(self)
            self._wire.monitor.query(f"SELECT pg_terminate_backend({self.pid})")
            self._let_go_on()
            self._wire.backends.lose(self._backend)
        elif self._copies or self._is_lost:
            self._wire.backends.lose(self._backend)
        else:
            self._wire.backends.give_back(self._backend, self._status != b"I")
        self._wire.transaction_ended()
