"""The connection to a machine's node role: HTTP inside the tunnel, and one way of failing.

The machine is a stranger. It is never followed elsewhere, since what it is sent holds its credential; its answers are read up to
a limit and within a deadline; it gets few interim answers (`outbound/few_answers.py`), and what it says is taken apart no faster
than others have their turn. Whatever goes wrong is an `EngineError`: the engine is away, which says nothing about its replicas.
"""

import asyncio
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any, cast

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.http_exceptions import BadHttpMessage
from yarl import URL

from moorage.engines.permitted_connector import PermittedConnector
from moorage.engines.remote.codec import WireError
from moorage.engines.remote.frames import Frame, FrameParser
from moorage.engines.remote.messages import PATH
from moorage.engines.remote.pace import Pace
from moorage.kit.clock import Clock
from moorage.kit.errors import EngineError
from moorage.kit.tracing import span
from moorage.outbound.few_answers import FewAnswers, FewAnswersConnector

AWAY = "engine_away"
"""The code of an `EngineError` of a machine that cannot be spoken to."""
TIMED_OUT = "engine_timeout"
"""Of one that took too long."""
CONNECT_TIMEOUT_S = 5.0
IDLE_TIMEOUT_S = 30.0
"""Of a stream: a machine says at least every 10 s that it is there."""
UNSENT_TIMEOUT_S = 10.0
"""What did not reach the machine by then never does: a leader's request must not arrive long after it ceased to lead."""
_MOST_EMPTY_FRAMES = 100
"""Of what comes together."""
_FRAMES_PER_S, _FRAMES_AT_ONCE = 10_000.0, 50_000.0
"""Of a stream. What a machine has to wait with it sends in fewer and larger ones."""
_MANY_LINE_ENDS = 4096
_BYTES_PER_LINE_END = 8
"""HTTP has two line ends around each piece of a stream, output has none of these. The smallest piece that a machine has reason to
send many of, a frame with an empty line, is of 24 bytes."""

_MOST_AROUND_CONTENT_BYTES = 2**20
"""Headers, what stands around pieces beyond as much again as they hold, and what was read ahead."""


class _FewPieces(FewAnswers):
    """Of a body that comes in pieces of one byte, aiohttp takes a quarter of a megabyte apart in one go, for half a second. What
    stands between pieces (HTTP lets each have words of its own) is read and dropped, and so never makes a machine wait."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._received_bytes = 0

    def set_response_params(self, **options: Any) -> None:
        """For the next request."""
        self._received_bytes = 0
        super().set_response_params(**options)

    def data_received(self, data: bytes) -> None:
        if data.count(b"\r\n") > max(_MANY_LINE_ENDS, len(data) // _BYTES_PER_LINE_END):
            self._give_up("an answer in very many pieces")
            return
        super().data_received(data)
        self._received_bytes += len(data)
        content = self._payload.total_bytes if self._payload is not None else 0
        if self._received_bytes > _MOST_AROUND_CONTENT_BYTES + 2 * content:
            self._give_up("an answer that says nothing")

    def _give_up(self, why: str) -> None:
        self.set_exception(BadHttpMessage(why))
        if self.transport is not None:
            self.transport.abort()


class _Connector(PermittedConnector, FewAnswersConnector):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._factory = cast("partial[ResponseHandler]", partial(_FewPieces, loop=self._loop))


class MachineConnection:
    """Opened by its first use, so that it can be built where no event loop runs yet."""

    def __init__(self, machine: str, address: str, port: int, credential: str, clock: Clock) -> None:
        self._machine = machine
        self._clock = clock
        self._url = URL.build(scheme="http", host=address, port=port)
        self._credential = credential
        self._opened: aiohttp.ClientSession | None = None

    async def call(self, name: str, body: bytes, *, timeout_s: float, most_bytes: int) -> bytes:
        with self.failing_in_words(name, timeout_s), span("machine call", machine=self._machine, what=name):
            async with asyncio.timeout(timeout_s), self._request(name, body, None) as response:
                # Its node role says beforehand how much it is, and sends it in one piece.
                if response.content_length is None or response.content_length > most_bytes:
                    raise WireError(f"it does not say that it sends {most_bytes} bytes or fewer")
                return await response.read()

    async def frames(self, name: str, body: bytes) -> AsyncGenerator[list[Frame], None]:
        """What came together comes together. Ends only where the machine ended it; a break is an error."""
        with self.failing_in_words(name, IDLE_TIMEOUT_S):
            async with self._request(name, body, IDLE_TIMEOUT_S) as response:
                parser, pace = FrameParser(), Pace(self._clock, _FRAMES_PER_S, _FRAMES_AT_ONCE)
                async for part in response.content.iter_any():
                    frames = parser.feed(part)
                    await pace.take(len(frames))
                    if sum(not frame.payload for frame in frames) > _MOST_EMPTY_FRAMES:
                        raise WireError("it says nothing, and that often")
                    if frames:
                        yield frames

    async def close(self) -> None:
        if self._opened is not None:
            await self._opened.close()
            self._opened = None

    @asynccontextmanager
    async def _request(
        self, name: str, body: bytes, idle_timeout_s: float | None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S, sock_read=idle_timeout_s)
        url = self._url / f"{PATH}{name}".strip("/")
        async with self._session().post(url, data=body, timeout=timeout, allow_redirects=False) as response:
            if response.status == 401:
                raise WireError("it does not accept Moorage's credential")
            if response.status != 200 or "Content-Encoding" in response.headers:
                raise WireError(f"it answered with the status {response.status}")
            yield response

    @contextmanager
    def failing_in_words(self, name: str, timeout_s: float = 0.0) -> Iterator[None]:
        """Also for whoever looks closer at what was answered."""
        what = f"{name} on machine {self._machine}"
        try:
            yield
        except WireError as exc:
            raise EngineError(f"{what}: its answer cannot be used ({exc})", code=AWAY) from None
        except TimeoutError:
            raise EngineError(f"{what}: no answer within {timeout_s:g} s", code=TIMED_OUT) from None
        except (aiohttp.ClientError, OSError, ValueError) as exc:
            # aiohttp's own errors hold the request, with its credential: they end here.
            raise EngineError(f"{what}: the connection broke ({type(exc).__name__})", code=AWAY) from None

    def _session(self) -> aiohttp.ClientSession:
        if self._opened is None:
            # No limit on connections: each followed log holds one, and the hundredth must not block a stop.
            self._opened = aiohttp.ClientSession(
                connector=_Connector(limit=0, socket_factory=_open_socket),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                headers={"Authorization": f"Bearer {self._credential}", "Accept-Encoding": "identity"},
            )
        return self._opened


def _open_socket(address: tuple[int, int, int, str, tuple[object, ...]]) -> socket.socket:
    family, kind, protocol, _, _ = address
    opened = socket.socket(family, kind, protocol)
    opened.setblocking(False)
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(UNSENT_TIMEOUT_S * 1000))
    return opened
