"""Who Moorage sends to: the operator's mail server and users' webhooks, as peers of a connection.

The real clients (`aiosmtplib`, `aiohttp`) speak their protocols with them. What arrived is remembered, for
`invariants_deliveries.py`.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.faults import Faults
from tests.simulation.loop import PROCESS, SimulationLoop

SMTP_PORT, HOOKS_PORT = 2525, 9000
SETTINGS = {
    "smtp_host": "127.0.0.1",
    "smtp_port": SMTP_PORT,
    "smtp_security": "none",
    "mail_from": "moorage@example.com",
    "allowed_webhook_hosts": (f"127.0.0.1:{HOOKS_PORT}",),
}


@dataclass
class Receivers:
    loop: SimulationLoop
    faults: Faults
    chance: random.Random
    mails: dict[str, int] = field(default_factory=dict)
    """By Message-ID: how often it was taken."""
    deliveries: dict[str, list[tuple[float, str, int]]] = field(default_factory=dict)
    """By id: when it arrived, at which path, what was answered."""
    gone: set[str] = field(default_factory=set)
    """Paths that answer 410."""

    refusal: bytes | None = None
    """The last one of the mail server."""

    def next_refusal(self) -> bytes:
        """For now or for good, in turns, so that a day with two has both."""
        drawn: bytes = self.chance.choice((b"451", b"550"))
        self.refusal = {None: drawn, b"451": b"550", b"550": b"451"}[self.refusal]
        return self.refusal

    def connect(self, protocol_factory: Callable[[], asyncio.BaseProtocol], port: int) -> Any:
        if self.faults.happens(self.faults.rates.receiver_fails):
            self.faults.story.count("receiver not reachable")
            raise ConnectionRefusedError(f"nobody listens at {port}")
        protocol = protocol_factory()
        speaks = _Smtp(self) if port == SMTP_PORT else _Http(self)
        transport = PeerTransport(self, protocol, speaks)
        protocol.connection_made(transport)
        transport.answer(speaks.greeting)
        return transport, protocol


class PeerTransport(asyncio.Transport):
    """The peer hears what is written, and answers a moment later."""

    def __init__(self, receivers: Receivers, protocol: Any, peer: "_Smtp | _Http") -> None:
        super().__init__()
        self._receivers, self._protocol, self._peer = receivers, protocol, peer
        self._closing = False
        self._process = PROCESS.get()

    def write(self, data: Any) -> None:
        if not self._closing:
            self.answer(self._peer.hear(bytes(data)))

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(bytes(one) for one in list_of_data))

    def answer(self, data: bytes) -> None:
        if not data:
            return
        faults, rates = self._receivers.faults, self._receivers.faults.rates
        delay_s = self._receivers.chance.choice((0.01, 0.1, 0.5))
        taken = self._peer.took_something()
        if taken and self._process is not None and faults.dies(rates.crash_at_receiver):
            faults.story.count("crash after delivery")
            faults.story.tell(self._process.name, "dies after a delivery")
            faults.crash(self._process)
            return
        if taken and faults.happens(rates.receiver_reply_lost):
            faults.story.count("receiver reply lost")
            self._receivers.loop.call_later(delay_s, self._lose)
            return
        if faults.happens(rates.receiver_slow):
            faults.story.count("receiver slow")
            delay_s = self._receivers.chance.uniform(1.0, 60.0)
        self._receivers.loop.call_later(delay_s, self._hand_on, data)

    def _hand_on(self, data: bytes) -> None:
        if not self._closing:
            self._protocol.data_received(data)

    def _lose(self) -> None:
        if not self._closing:
            self._closing = True
            self._protocol.connection_lost(ConnectionResetError("the peer is gone"))

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._receivers.loop.call_soon(self._protocol.connection_lost, None)

    abort = close

    def is_closing(self) -> bool:
        return self._closing

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 1) if name == "peername" else default

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def is_reading(self) -> bool:
        return not self._closing

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def can_write_eof(self) -> bool:
        return False


class _Smtp:
    greeting = b"220 mail.example.com\r\n"

    def __init__(self, receivers: Receivers) -> None:
        self._receivers = receivers
        self._heard = b""
        self._data = False
        self._took = False

    def hear(self, data: bytes) -> bytes:
        self._heard += data
        answers = b""
        while (line := self._next()) is not None:
            answers += self._answer(line)
        return answers

    def took_something(self) -> bool:
        took, self._took = self._took, False
        return took

    def _next(self) -> bytes | None:
        end = b"\r\n.\r\n" if self._data else b"\r\n"
        line, found, rest = self._heard.partition(end)
        if not found:
            return None
        self._heard = rest
        return line

    def _answer(self, line: bytes) -> bytes:
        if self._data:
            self._data, self._took = False, True
            headers = line.partition(b"\r\n\r\n")[0].decode().replace("\r\n ", " ").split("\r\n")
            (message_id,) = (
                one.split(": ", 1)[1] for one in headers if one.lower().startswith("message-id:")
            )
            self._receivers.mails[message_id] = self._receivers.mails.get(message_id, 0) + 1
            self._receivers.faults.story.count("mail taken")
            return b"250 taken\r\n"
        verb = line[:4].upper()
        faults = self._receivers.faults
        if verb == b"RCPT" and faults.happens(faults.rates.mail_refused):
            code = self._receivers.next_refusal()
            faults.story.count("mail refused" if code == b"550" else "mail put off")
            return code + b" not now\r\n"
        if verb == b"DATA":
            self._data = True
            return b"354 go on\r\n"
        return {b"EHLO": b"250-mail.example.com\r\n250 8BITMIME\r\n", b"QUIT": b"221 bye\r\n"}.get(
            verb, b"250 well\r\n"
        )


class _Http:
    greeting = b""

    def __init__(self, receivers: Receivers) -> None:
        self._receivers = receivers
        self._heard = b""
        self._took = False

    def hear(self, data: bytes) -> bytes:
        self._heard += data
        head, found, body = self._heard.partition(b"\r\n\r\n")
        if not found:
            return b""
        first, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        if len(body) < int(headers.get("content-length", 0)):
            return b""
        self._heard = b""
        receivers, path = self._receivers, first.split(" ")[1]
        status = 410 if path in receivers.gone else 200
        if status == 200 and receivers.faults.happens(receivers.faults.rates.receiver_refuses):
            receivers.faults.story.count("webhook refused")
            status = 503
        self._took = status == 200
        arrived = (receivers.loop.time(), path, status)
        receivers.deliveries.setdefault(headers["webhook-id"], []).append(arrived)
        receivers.faults.story.count(
            "webhook delivered" if status == 200 else "webhook answered with an error"
        )
        return f"HTTP/1.1 {status} Well\r\nContent-Length: 0\r\n\r\n".encode()

    def took_something(self) -> bool:
        took, self._took = self._took, False
        return took
