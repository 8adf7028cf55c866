"""The line that HAProxy logs for each request, and how it is read. Pure.

All that is in it was made by HAProxy or stood in our maps: nothing that a client wrote is logged. A method and a path are
there because a list of ours has them (`known_paths.py`); any other is `-`.
"""

from dataclasses import dataclass
from datetime import UTC, datetime

from moorage.gateway.known_paths import PATH_IN_LOG, method_in_log
from moorage.gateway.map_values import owner_of
from moorage.telemetry.requests.record import Ending, RequestRecord

_FORMAT_BEFORE = "%ID %Ts %ms %Th %Ti %TR %Tw %Tc %Tr %Ta %ST %U %B %ts %s %[var(txn.key)] %[var(txn.route)] %[var(sess.client)]"
"""Of the version before this: what it had logged is read by this one, once, after an upgrade."""


def log_format(known_map: str) -> str:
    """Id; when the wait for the request began (s, ms), how long it was (handshake, idle); to its complete head, in the
    queue, to the connection, to the answer's head, in all (ms); status; bytes in and out; how it ended; replica; the
    entries of the maps; the client's address; retries (with a `+` where another replica was chosen); method and path. What
    did not happen is -1 or `-`."""
    return f"{_FORMAT_BEFORE} %rc {method_in_log(known_map)} {PATH_IN_LOG}"


_FIELDS, _FIELDS_BEFORE = (spelled.count(" ") + 1 for spelled in (log_format(""), _FORMAT_BEFORE))
_NOTHING = b"-"
_LONGEST_MS = 2**31 - 1
_MOST_RETRIES = 2**15 - 1

_ENDINGS = {
    "C": Ending.CLIENT_LEFT,
    "c": Ending.CLIENT_TIMEOUT,
    "S": Ending.CONTAINER_CLOSED,
    "s": Ending.CONTAINER_TIMEOUT,
    "L": Ending.REFUSED,
    "P": Ending.REFUSED,
    "D": Ending.CUT_OFF,
    "U": Ending.CUT_OFF,
    "K": Ending.CUT_OFF,
    "R": Ending.GATEWAY_FAILED,
    "I": Ending.GATEWAY_FAILED,
    "-": Ending.COMPLETED,
}
"""By the first letter of HAProxy's termination state; the second says in which phase."""


@dataclass(frozen=True, slots=True)
class LoggedRequest:
    """Of ten thousand a second most are only counted, so only what counting needs is made out at once."""

    fields: list[bytes]
    project_id: str
    key_id: str
    container_id: str | None

    @property
    def client_address(self) -> str:
        return self.fields[17].decode()

    @property
    def status(self) -> int | None:
        status = int(self.fields[10])
        # What HAProxy notes for a client that left before there was an answer, nobody was sent.
        left_before = self.fields[13][:1] in b"Cc" and self.fields[13][1:] not in b"DL"
        return status if 100 <= status < 600 and not left_before else None

    @property
    def total_ms(self) -> int:
        return min(max(0, int(self.fields[9])), _LONGEST_MS)

    @property
    def first_byte_ms(self) -> int | None:
        """From the request's first byte to the answer's; None where it ended before."""
        parts_ms = [_duration(field) for field in self.fields[5:9]]
        return None if None in parts_ms else sum(part_ms or 0 for part_ms in parts_ms)

    @property
    def started_at_ms(self) -> int:
        _, began_s, began_ms, handshake_ms, idle_ms, *_ = self.fields
        return int(began_s) * 1000 + int(began_ms) + max(0, int(handshake_ms)) + max(0, int(idle_ms))

    @property
    def ended_at_s(self) -> float:
        return (self.started_at_ms + self.total_ms) / 1000

    @property
    def ended(self) -> Ending:
        state = self.fields[13].decode()
        cause, phase = state[:1], state[1:]
        if phase == "Q" and cause == "s":
            return Ending.QUEUE_TIMEOUT
        if phase == "C" and cause in "sS":
            return Ending.UNREACHABLE
        if cause == "P" and self.replica_id is not None:
            # Refused was the container's answer, not the request: it is not valid HTTP.
            return Ending.CONTAINER_CLOSED
        return _ENDINGS.get(cause, Ending.GATEWAY_FAILED)

    @property
    def replica_id(self) -> str | None:
        name = self.fields[14].decode()
        return name if name.startswith("rep_") else None

    @property
    def retries(self) -> int | None:
        """How often it was sent again, because a replica could not be connected to, or was asked to by its container's owner."""
        retries = self.fields[18].lstrip(b"+")
        return min(int(retries), _MOST_RETRIES) if retries.isdigit() else None

    def record(self) -> RequestRecord:
        queue_ms, connect_ms = (_duration(field) for field in self.fields[6:8])
        return RequestRecord(
            request_id=self.fields[0].decode(),
            project_id=self.project_id,
            container_id=self.container_id,
            key_id=self.key_id,
            replica_id=self.replica_id,
            started_at=datetime.fromtimestamp(self.started_at_ms / 1000, UTC),
            queue_ms=queue_ms,
            connect_ms=connect_ms,
            first_byte_ms=self.first_byte_ms,
            total_ms=self.total_ms,
            status=self.status,
            request_bytes=int(self.fields[11]),
            response_bytes=int(self.fields[12]),
            ended=self.ended,
            retries=self.retries,
            method=_known(self.fields[19]),
            path=_known(self.fields[20]),
        )


def parse(line: bytes) -> LoggedRequest | None:
    """None for a request without a valid key: it is nobody's."""
    fields = line.split(b" ")
    if len(fields) == _FIELDS_BEFORE:
        fields += [_NOTHING] * (_FIELDS - _FIELDS_BEFORE)
    if len(fields) != _FIELDS:
        raise ValueError(f"{line[:300]!r} is not a request that HAProxy logged")
    key, route = fields[15], fields[16]
    if key == _NOTHING:
        return None
    project_id, _, key_id, *_ = key.decode().split(":")
    container_id = None
    if route != _NOTHING:
        routes_project, container_id = owner_of(route.decode())
        if routes_project != project_id:
            # Somebody else's container, which for this project does not exist.
            container_id = None
    return LoggedRequest(fields, project_id, key_id, container_id)


def _known(field: bytes) -> str | None:
    return field.decode() if field != _NOTHING else None


def _duration(field: bytes) -> int | None:
    ms = int(field)
    return min(ms, _LONGEST_MS) if ms >= 0 else None
