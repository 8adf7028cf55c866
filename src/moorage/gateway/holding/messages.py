"""HTTP as far as whoever holds a request has to understand it. Pure.

What comes in was checked by HAProxy, and goes back to it byte for byte: nothing is made out of it but whether it is a stream, and
how long its body is (`bodies.py`).
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from moorage.gateway.held_rules import (
    ASLEEP_HEADER,
    CONTAINER_HEADER,
    KEY_HEADER,
    ORGANIZATION_HEADER,
    REPLICA_HEADER,
)

HEAD_BYTES_MAX = 65_536
HEAD_END = b"\r\n\r\n"
_KEY_ID = re.compile(r"key_[a-z2-7]{20}")
_ORGANIZATION_ID = re.compile(r"org_[a-z2-7]{20}")
COMMENT = b": waiting\n\n"
_REASONS = {
    402: "Payment Required",
    403: "Forbidden",
    404: "Not Found",
    429: "Too Many Requests",
    502: "Bad Gateway",
    503: "Service Unavailable",
}


@dataclass(frozen=True)
class Head:
    """Of a request or an answer."""

    first_line: str
    headers: tuple[tuple[str, str], ...]

    def get(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)

    @property
    def container_id(self) -> str:
        return self.get(CONTAINER_HEADER) or ""

    @property
    def key_id(self) -> str | None:
        key_id = self.get(KEY_HEADER) or ""
        return key_id if _KEY_ID.fullmatch(key_id) else None

    @property
    def organization_id(self) -> str:
        """Whose share of the places and bytes it takes. Where an HAProxy of an earlier version does not name it, its container
        stands for it."""
        named = self.get(ORGANIZATION_HEADER) or ""
        return named if _ORGANIZATION_ID.fullmatch(named) else self.container_id

    @property
    def replica_id(self) -> str | None:
        name = self.get(REPLICA_HEADER) or ""
        return name if name.startswith("rep_") else None

    @property
    def is_asleep_again(self) -> bool:
        """Of an answer: the container fell asleep before the request reached it."""
        return self.get(ASLEEP_HEADER) is not None

    @property
    def status(self) -> int:
        """Of an answer."""
        return int(self.first_line.split(" ", 2)[1])

    @property
    def body_bytes(self) -> int | None:
        """None: in chunks, or to the end of the connection."""
        if self.is_chunked:
            return None
        length = self.get("content-length")
        return int(length) if length is not None else None

    @property
    def is_chunked(self) -> bool:
        return (self.get("transfer-encoding") or "").lower().endswith("chunked")

    @property
    def upgrades(self) -> bool:
        return "upgrade" in (self.get("connection") or "").lower()

    @property
    def is_events(self) -> bool:
        return (self.get("content-type") or "").lower().startswith("text/event-stream")


def parse_head(raw: bytes) -> Head:
    """Without its end. Raises ValueError for what is no head."""
    first_line, *lines = raw.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    headers = []
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            raise ValueError(f"{line[:100]!r} is not a header")
        headers.append((name, value.strip()))
    return Head(first_line, tuple(headers))


def sent_on(head: Head, *, begun: bool = False) -> bytes:
    """As it goes back to HAProxy. One connection carries one request, unless it becomes something else than HTTP. `begun`: its
    client has been told that plain events come, so nobody would know how to read compressed ones."""
    dropped = {"expect", KEY_HEADER.lower(), ORGANIZATION_HEADER.lower()} | (
        set() if head.upgrades else {"connection"}
    )
    if begun:
        dropped.add("accept-encoding")
    kept = [(name, value) for name, value in head.headers if name.lower() not in dropped]
    if begun:
        # Without the header a server may choose.
        kept.append(("Accept-Encoding", "identity"))
    if not head.upgrades:
        kept.append(("Connection", "close"))
    return _head(head.first_line, kept)


@dataclass(frozen=True)
class Refusal:
    """What a request that is not sent on is answered with."""

    status: int
    code: str
    message: str
    type: str = "server_error"
    retry_after_s: int | None = None

    def body(self, request_id: str) -> dict[str, Any]:
        error = {"message": self.message, "type": self.type, "code": self.code, "request_id": request_id}
        return {"error": error}

    def answer(self, request_id: str) -> bytes:
        body = json.dumps(self.body(request_id)).encode()
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        if self.retry_after_s is not None:
            headers.append(("Retry-After", str(self.retry_after_s)))
        headers.append(("Connection", "close"))
        return _head(f"HTTP/1.1 {self.status} {_REASONS.get(self.status, 'Error')}", headers) + body


def stream_head() -> bytes:
    """Of a stream whose container is not there yet."""
    return _head(
        "HTTP/1.1 200 OK",
        [
            ("Content-Type", "text/event-stream; charset=utf-8"),
            ("Cache-Control", "no-cache"),
            ("Transfer-Encoding", "chunked"),
            ("Connection", "close"),
        ],
    )


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


LAST_CHUNK = b"0\r\n\r\n"


def event(name: str | None, value: Any) -> bytes:
    line = f"data: {json.dumps(value)}\n\n"
    return (f"event: {name}\n{line}" if name is not None else line).encode()


def late_answer(status: int, body: bytes, request_id: str) -> bytes:
    """What a container answered otherwise than with events, to a client that has been promised events."""
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        said = None
    if status < 400 and said is not None:
        return event(None, said)
    if not (isinstance(said, dict) and "error" in said):
        refusal = Refusal(status, "container_error", f"The container answered with {status}.")
        said = refusal.body(request_id)
    return event("error", said)


def _head(first_line: str, headers: Iterable[tuple[str, str]]) -> bytes:
    lines = [first_line, *(f"{name}: {value}" for name, value in headers)]
    return ("\r\n".join(lines)).encode("latin-1") + HEAD_END
